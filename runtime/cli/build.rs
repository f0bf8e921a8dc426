//! Links the release binary smaller, where Rust's own linker links it.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| env::var(key).is_ok_and(|found| found == value);
    let rusts_own = env::var_os("RUSTC_LINKER").is_none()
        && env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| !flags.contains("link"));
    // Rust brings its linker for this platform, and that one knows the options. Another may stop at them.
    let target = "x86_64-unknown-linux-gnu";
    if !(rusts_own && is("TARGET", target) && is("PROFILE", "release")) {
        return;
    }
    // Functions that came out alike are linked once: a program of generics has thousands of them.
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // A table of addresses takes a thirtieth of its bytes, 0.6 MB less. A loader before glibc 2.36 cannot read the
    // packed table, so it is written only where the machine that builds has a loader that can.
    println!("cargo::rerun-if-env-changed=PROCTOR_OLD_GLIBC");
    let may_leave = env::var_os("PROCTOR_OLD_GLIBC").is_some();
    if is("HOST", target) && !may_leave && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's glibc: `getconf` is a part of it, and says `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor = minor.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
