//! Sets `PROCTOR_COMMIT_NOTE`: the commit that `proctor --version` prints after the version.

use std::{env, path::Path, process::Command};

/// This package's folder in the repository.
const PACKAGE_PREFIX: &str = "runtime/cli/";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PROCTOR_COMMIT");
    let note = find_commit().map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo:rustc-env=PROCTOR_COMMIT_NOTE={note}");
}

/// Returns the commit from the variable `PROCTOR_COMMIT`, or from git. Debug builds have none,
/// because every commit would then rebuild the tests. Source outside a clone has none either.
fn find_commit() -> Option<String> {
    if let Ok(commit) = env::var("PROCTOR_COMMIT") {
        return Some(commit).filter(|commit| !commit.is_empty());
    }
    if env::var("PROFILE").ok()? == "debug" {
        return None;
    }
    // The source may have been unpacked into a clone of another repository.
    if read_git(&["rev-parse", "--show-prefix"])? != PACKAGE_PREFIX {
        return None;
    }
    let log = read_git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    // Cargo would run this script in every build if the file did not exist.
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    read_git(&["rev-parse", "--short=12", "HEAD"])
}

fn read_git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
