//! Builds the static sandbox agent that the runtime carries.
//!
//! A nested cargo, because no target of one workspace build can be static and optimised for size
//! while the rest is neither. It has its own target folder, beside the profiles of the outer build:
//! the outer build's lock is not waited for, and every profile shares one agent.

use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, exit},
};

/// Variables of the outer build that would change the inner one.
const LEAKING: &[&str] = &[
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC",
    "RUSTDOC",
    "TARGET",
    "HOST",
    "OUT_DIR",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "NUM_JOBS",
    "MAKEFLAGS",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for input in ["../agentd", "../scan", "../wire", "../../configs/sandbox", "../../Cargo.lock"] {
        println!("cargo:rerun-if-changed={input}");
    }
    println!("cargo:rerun-if-env-changed=PROCTOR_AGENT");
    if let Err(why) = build() {
        // One line that says it all: cargo prints the rest of a build script's output as noise.
        println!("cargo:error={why}");
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let out = PathBuf::from(variable("OUT_DIR")?);
    // An agent that was built elsewhere (a packager's, another machine's).
    if let Ok(given) = env::var("PROCTOR_AGENT") {
        return pack(Path::new(&given), &out)
            .map_err(|error| format!("PROCTOR_AGENT={given}: {error}"));
    }
    let arch = variable("CARGO_CFG_TARGET_ARCH")?;
    if variable("CARGO_CFG_TARGET_OS")? != "linux" || !["x86_64", "aarch64"].contains(&&*arch) {
        return Err(format!(
            "the sandbox agent is built for x86_64 and aarch64 Linux, not for {}; \
             set PROCTOR_AGENT to an agent built elsewhere",
            variable("TARGET")?
        ));
    }
    let triple = format!("{arch}-unknown-linux-gnu");
    let workspace = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../..");
    let target = target_folder(&out).join("sandbox-agent");

    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .current_dir(&workspace)
        .args(["build", "--quiet", "--package", "proctor-agentd", "--profile", "agent"])
        .args(["--target", &triple, "--target-dir"])
        .arg(&target)
        .arg("--config")
        .arg(format!("target.{triple}.rustflags=[\"-Ctarget-feature=+crt-static\"]"));
    for (key, _) in env::vars() {
        // `CARGO_HOME`, the registry settings and an offline wish are the user's, not the build's.
        let kept = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
        let own = key == "CARGO" || key.starts_with("CARGO_") || key.starts_with("DEP_");
        if own && !kept.iter().any(|prefix| key.starts_with(prefix)) {
            cargo.env_remove(key);
        }
    }
    for key in LEAKING {
        cargo.env_remove(key);
    }
    let output = cargo.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        for line in text.lines() {
            println!("cargo:warning={line}");
        }
        // In the words of GNU ld and of lld.
        let libc = ["cannot find -lc", "unable to find library -lc", "crt1.o", "rcrt1.o"];
        return Err(match libc.iter().any(|sign| text.contains(sign)) {
            true => "the static sandbox agent needs libc.a: install libc6-dev (Debian, Ubuntu) or \
                     glibc-static (Fedora)"
                .to_owned(),
            false => "the sandbox agent does not build (cargo's words are above)".to_owned(),
        });
    }
    let built = target.join(&triple).join("agent").join("agentd");
    pack(&built, &out).map_err(|error| format!("{}: {error}", built.display()))
}

/// Packs the agent, and writes its length beside it.
fn pack(agent: &Path, out: &Path) -> io::Result<()> {
    let agent = fs::read(agent)?;
    let packed = fs::File::create(out.join("agentd.lzma"))?;
    let length = Some(agent.len() as u64);
    let mut packed = LzmaWriter::new_use_header(packed, &LzmaOptions::with_preset(9), length)?;
    packed.write_all(&agent)?;
    packed.finish()?;
    fs::write(out.join("agentd.length"), agent.len().to_string())
}

/// The outer target folder: `<target>[/<triple>]/<profile>/build/<package>/out` leads here. Where
/// the shape is another one, the agent is built below `OUT_DIR` and only its sharing is lost.
fn target_folder(out: &Path) -> PathBuf {
    let marked = out.ancestors().filter(|folder| folder.join("CACHEDIR.TAG").is_file()).last();
    marked.unwrap_or(out).to_owned()
}
