//! Tells cargo to re-embed the sandbox agent when its sources, its dependencies or the target
//! change.

#[path = "../../runtime/fingerprint.rs"]
mod fingerprint;

use std::{env, process::exit};

fn main() {
    fingerprint::fingerprint(
        "AGENT_SOURCES",
        &[
            "../agentd/src",
            "../agentd/build.rs",
            "../agentd/Cargo.toml",
            "../scan/src",
            "../scan/Cargo.toml",
            "../wire/src",
            "../wire/Cargo.toml",
            "../agent-build/src",
            "../../configs/sandbox",
            "../../Cargo.lock",
        ],
    );
    println!("cargo:rerun-if-env-changed=PROCTOR_AGENT");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let given = env::var("PROCTOR_AGENT");
    if let Ok(path) = &given {
        println!("cargo:rerun-if-changed={path}");
    }
    let given = given.is_ok();
    if !given
        && (variable("CARGO_CFG_TARGET_OS") != "linux" || !["x86_64", "aarch64"].contains(&&*arch))
    {
        println!(
            "cargo:error=the sandbox agent is built for x86_64 and aarch64 Linux, not for {}; \
             set PROCTOR_AGENT to an agent built elsewhere",
            variable("TARGET")
        );
        exit(1);
    }
    println!("cargo:rustc-env=AGENT_TARGET={arch}-unknown-linux-gnu");
}
