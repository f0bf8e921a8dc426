//! The text that `proctor --version` prints. `proctor -V` prints only the version.

use std::sync::LazyLock;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of a published build. The wheel's build sets this variable. Other builds have no
/// commit, because each new commit would recompile this crate.
const COMMIT: Option<&str> = option_env!("PROCTOR_COMMIT");

/// Returns the version, followed by the commit if the build has one.
pub fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format_version(VERSION, COMMIT));
    &TEXT
}

fn format_version(version: &str, commit: Option<&str>) -> String {
    match commit {
        Some(commit) if !commit.is_empty() => format!("{version} ({commit})"),
        _ => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::format_version;

    #[test]
    fn format_version_adds_the_commit_in_parentheses() {
        for (commit, text) in [
            (None, "0.1.0"),
            (Some(""), "0.1.0"),
            (Some("0123456789ab-dirty"), "0.1.0 (0123456789ab-dirty)"),
        ] {
            assert_eq!(format_version("0.1.0", commit), text);
        }
    }
}
