//! The `agent!` macro: the static sandbox agent as bytes.
//!
//! The agent needs its own target directory and a statically linked C library, so a nested cargo
//! builds it. A build script cannot start that cargo, because cargo also runs build scripts for
//! `cargo check` and `cargo clippy`. A macro runs inside the compiler and can tell whether the
//! compiler generates code. If not, the macro expands to an empty array.
//!
//! `proctor-embedded-agent`'s `build.rs` tells cargo when to re-expand the macro.

#![warn(missing_docs)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use proc_macro::{Literal, TokenStream};

/// Environment variables of the outer build that would affect the inner one.
const REMOVED_VARS: &[&str] = &[
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
    "LD_LIBRARY_PATH",
];

/// Prefixes of user settings that the inner build keeps.
const KEPT_VAR_PREFIXES: &[&str] =
    &["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];

/// Expands to the bytes of the agent, or to an empty array if the compiler generates no code.
#[proc_macro]
pub fn agent(_input: TokenStream) -> TokenStream {
    if !generates_code(env::args()) {
        return parse_tokens("b\"\"");
    }
    match build() {
        Ok(agent) => {
            let path = Literal::string(&agent.display().to_string());
            parse_tokens(&format!("include_bytes!({path})"))
        }
        Err(why) => parse_tokens(&format!("compile_error!({})", Literal::string(&why))),
    }
}

fn parse_tokens(code: &str) -> TokenStream {
    code.parse().unwrap_or_default()
}

/// Returns whether the compiler generates object code when it is called with these arguments.
/// `cargo check` requests only metadata.
fn generates_code(arguments: impl Iterator<Item = String>) -> bool {
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let kinds = match argument.strip_prefix("--emit") {
            Some("") => arguments.peek().map_or("", String::as_str).to_owned(),
            Some(rest) => rest.trim_start_matches('=').to_owned(),
            None => continue,
        };
        if kinds.split(',').any(|kind| kind == "link" || kind.starts_with("link=")) {
            return true;
        }
    }
    false
}

/// Builds the agent and returns the path of its binary, which is below `OUT_DIR`.
fn build() -> Result<PathBuf, String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let out = PathBuf::from(variable("OUT_DIR")?);
    let kept = out.join("agentd");
    // Use a prebuilt agent, from a packager or from another machine.
    if let Ok(given) = env::var("PROCTOR_AGENT") {
        return publish(Path::new(&given), &kept)
            .map_err(|error| format!("PROCTOR_AGENT={given}: {error}"));
    }
    let triple = variable("AGENT_TARGET")?;
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
    for (key, _) in env::vars_os() {
        if key.to_str().is_some_and(|name| is_removed(name, &triple)) {
            cargo.env_remove(&key);
        }
    }
    let output = cargo.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // Errors that GNU ld and lld print if there is no static C library.
        let libc = ["cannot find -lc", "unable to find library -lc", "crt1.o", "rcrt1.o"];
        return Err(match libc.iter().any(|sign| text.contains(sign)) {
            true => "the static sandbox agent needs libc.a: install libc6-dev (Debian, Ubuntu) or \
                     glibc-static (Fedora)"
                .to_owned(),
            false => format!("building the sandbox agent failed:\n{text}"),
        });
    }
    let built = target.join(&triple).join("agent").join("agentd");
    publish(&built, &kept).map_err(|error| format!("{}: {error}", built.display()))
}

/// Returns whether an environment variable of the outer build would affect the inner build.
fn is_removed(name: &str, triple: &str) -> bool {
    let cargos = name == "CARGO" || name.starts_with("CARGO_") || name.starts_with("DEP_");
    let kept = KEPT_VAR_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    // A C toolchain for the outer target, such as `CC_x86_64_unknown_linux_gnu`. A wheel is built
    // with zig, but the agent is linked with this machine's C library.
    let is_for_target = name.ends_with(triple) || name.ends_with(&triple.replace('-', "_"));
    (cargos && !kept) || is_for_target || REMOVED_VARS.contains(&name)
}

/// Copies the agent into `OUT_DIR`. Writes a temporary file and renames it, because cargo may compile
/// the library and its tests at the same time.
fn publish(binary: &Path, destination: &Path) -> std::io::Result<PathBuf> {
    let half = destination.with_extension(std::process::id().to_string());
    fs::copy(binary, &half)?;
    // Cargo recompiles a crate if an included file is newer than the start of the last compilation,
    // which is always true here. `build.rs` watches the sources instead.
    fs::File::options().write(true).open(&half)?.set_modified(SystemTime::UNIX_EPOCH)?;
    fs::rename(&half, destination)?;
    Ok(destination.to_owned())
}

/// Returns the outer target directory, derived from
/// `<target>[/<triple>]/<profile>/build/<package>/out`. If `out_dir` has a different form, such as
/// the temporary directory that `cargo install` uses, returns `out_dir`. In that case, each profile
/// builds its own agent.
fn target_folder(out_dir: &Path) -> PathBuf {
    let is_build = |folder: &&Path| folder.file_name().is_some_and(|name| name == "build");
    let profile = out_dir.ancestors().find(is_build).and_then(Path::parent);
    let Some(inner) = profile.and_then(Path::parent) else { return out_dir.to_owned() };
    let is_triple =
        inner.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-"));
    let outer = inner.parent().filter(|_| is_triple);
    // A directory further up, such as `~/.cache`, may also contain `CACHEDIR.TAG`, but is not a
    // build directory.
    let mut folders = outer.into_iter().chain([inner]);
    let marked = folders.find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.unwrap_or(out_dir).to_owned()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::{generates_code, is_removed, target_folder};

    #[test]
    fn target_folder_ignores_tagged_parent_directories() {
        let root = env::temp_dir().join(format!("agent-build-{}", std::process::id()));
        let tag = |folder: &str| {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("CACHEDIR.TAG"), "").unwrap();
        };
        let found = |out: &str| {
            let found = target_folder(&root.join(out));
            found.strip_prefix(&root).unwrap_or(Path::new("elsewhere")).to_owned()
        };
        // A user's cache, which may contain a checkout or a temporary directory.
        tag("cache");
        tag("cache/checkout/target");
        tag("cache/checkout/target/x86_64-unknown-linux-gnu");
        for out in [
            "cache/checkout/target/debug/build/proctor-embedded-agent-1/out",
            "cache/checkout/target/debug/build/proctor-embedded-agent/1/out",
            "cache/checkout/target/x86_64-unknown-linux-gnu/dist/build/proctor-embedded-agent-1/out",
        ] {
            assert_eq!(found(out), Path::new("cache/checkout/target"), "{out}");
        }
        // `cargo install` builds in a temporary directory without a tag.
        for out in ["cache/cargo-install1/release/build/a-1/out", "cache/out"] {
            assert_eq!(found(out), Path::new(out));
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn outer_toolchain_is_removed_but_user_settings_are_kept() {
        for (name, expected) in [
            ("CARGO", true),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", true),
            ("CARGO_HOME", false),
            ("CARGO_REGISTRIES_MINE_INDEX", false),
            ("DEP_RING_INCLUDE", true),
            ("RUSTFLAGS", true),
            ("RUSTUP_TOOLCHAIN", false),
            ("CC_x86_64_unknown_linux_gnu", true),
            ("AR_x86_64_unknown_linux_gnu", true),
            ("CFLAGS_x86_64-unknown-linux-gnu", true),
            ("CC", false),
            ("PATH", false),
        ] {
            assert_eq!(is_removed(name, "x86_64-unknown-linux-gnu"), expected, "{name}");
        }
    }

    #[test]
    fn cargo_check_generates_no_code_but_cargo_build_does() {
        let called = |line: &str| generates_code(line.split(' ').map(str::to_owned));
        assert!(!called("rustc --crate-name a --emit=dep-info,metadata -C debuginfo=1"));
        assert!(!called("rustdoc --crate-type lib src/lib.rs"));
        assert!(called("rustc --crate-name a --emit=dep-info,metadata,link -C opt-level=3"));
        assert!(called("rustc --crate-name a --emit dep-info,link"));
    }
}
