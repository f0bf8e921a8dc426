//! Converts the list of system calls (`configs/sandbox/system-calls.txt`) to numbers. The build
//! fails if libc has no constant for a name.

use std::{env, fs, path::Path, process::exit};

const SYSTEM_CALLS_FILE: &str = "../../configs/sandbox/system-calls.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SYSTEM_CALLS_FILE}");
    if let Err(why) = generate_system_calls() {
        println!("cargo:error={why}");
        exit(1);
    }
}

fn generate_system_calls() -> Result<(), String> {
    let text = fs::read_to_string(SYSTEM_CALLS_FILE)
        .map_err(|error| format!("{SYSTEM_CALLS_FILE}: {error}"))?;
    let arch = env::var("CARGO_CFG_TARGET_ARCH").map_err(|error| error.to_string())?;
    let (mut denied, mut missing, mut families) = (String::new(), String::new(), String::new());
    for (index, line) in text.lines().enumerate() {
        let mut line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((only, rest)) = line.split_once(':') {
            if only != arch {
                continue;
            }
            line = rest.trim();
        }
        match line.split_once(' ') {
            Some(("deny", name)) => denied.push_str(&format!("libc::SYS_{name}, ")),
            Some(("missing", name)) => missing.push_str(&format!("libc::SYS_{name}, ")),
            Some(("family", name)) => families.push_str(&format!("libc::{name}, ")),
            _ => return Err(format!("{SYSTEM_CALLS_FILE}:{}: invalid line: {line:?}", index + 1)),
        }
    }
    let out = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let code = format!(
        "const DENIED: &[libc::c_long] = &[{denied}];\n\
         const MISSING: &[libc::c_long] = &[{missing}];\n\
         const FAMILIES: &[libc::c_int] = &[{families}];\n"
    );
    fs::write(Path::new(&out).join("system_calls.rs"), code).map_err(|error| error.to_string())
}
