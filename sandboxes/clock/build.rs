//! Builds the library that shows programs in a sandbox their task's time.
//!
//! Calls the compiler directly, because the library consists of one file and is `no_std`. A
//! workspace member cannot be `no_std`: its tests would need the standard library.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, exit},
};

const SOURCE: &str = "library/clock.rs";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=PROCTOR_CLOCK_LIBRARY");
    if let Err(why) = build() {
        println!("cargo:error={why}");
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let out = PathBuf::from(variable("OUT_DIR")?).join("clock.so");
    // Use a prebuilt library, from a packager or from another machine.
    if let Ok(given) = env::var("PROCTOR_CLOCK_LIBRARY") {
        return copy_file(Path::new(&given), &out)
            .map_err(|error| format!("PROCTOR_CLOCK_LIBRARY={given}: {error}"));
    }
    let arch = variable("CARGO_CFG_TARGET_ARCH")?;
    if variable("CARGO_CFG_TARGET_OS")? != "linux" || !["x86_64", "aarch64"].contains(&&*arch) {
        // On other systems, tasks that set a clock are rejected.
        return fs::write(&out, []).map_err(|error| error.to_string());
    }
    let mut compiler = Command::new(variable("RUSTC")?);
    compiler
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "clock"])
        .args(["--target", &format!("{arch}-unknown-linux-gnu")])
        .args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols"])
        .args(["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib"])
        .arg("-o")
        .arg(&out)
        .arg(SOURCE);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let output = compiler.output().map_err(|error| format!("cannot start rustc: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("cargo:warning={line}");
    }
    Err(format!("{SOURCE} does not build (see the output of rustc above)"))
}

fn copy_file(source: &Path, destination: &Path) -> std::io::Result<()> {
    fs::copy(source, destination).map(drop)
}
