//! The policy of the leak check, read from `configs/tables/leak-check.toml`.

use std::collections::BTreeSet;

use proctor_sandbox_api::wire::{RawPath, ScanLimits};
use proctor_types::{Fault, FaultLayer, ShippedTable, sha256_hex};
use serde::Deserialize;

const POLICY_TEXT: &str = include_str!("../../../../configs/tables/leak-check.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeakPolicy {
    pub version: u32,
    pub copies: Vec<String>,
    pub histories: Vec<String>,
    pub copy_suffixes: Vec<String>,
    pub import_roots: Vec<String>,
    pub vendor_folders: Vec<String>,
    pub source_roots: Vec<String>,
    pub not_modules: Vec<String>,
    pub test_folders: Vec<String>,
    pub volatile: Vec<String>,
    pub pseudo: Vec<String>,
    pub host: HostFolders,
    pub tools: Vec<Tool>,
    pub limits: ScanLimits,
    pub prints: FingerprintThresholds,
    pub sandbox: SandboxSecrets,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostFolders {
    pub suffixes: Vec<String>,
    pub skip: Vec<String>,
    /// Number of decoys. Decoys are directories without a finding that are treated as if there was
    /// one.
    pub decoys: usize,
}

/// A program that bundles copies of other packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub name: String,
    /// Program names that run the tool. A command that contains one of them counts as running the
    /// tool.
    pub words: Vec<String>,
    /// Names of the tool's directories, in any location.
    pub folders: Vec<String>,
}

/// Thresholds above which a match counts as a copy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FingerprintThresholds {
    pub block_bytes: usize,
    pub code_share: f64,
    pub test_share: f64,
    pub run_windows: usize,
    pub plain_lines: usize,
    pub defining: Vec<String>,
    pub window_bytes: usize,
    pub windows: usize,
    pub names: usize,
    pub names_share: f64,
    pub common_names: BTreeSet<String>,
    pub names_elsewhere: usize,
    pub names_elsewhere_share: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxSecrets {
    pub sockets: Vec<String>,
    pub mounts: Vec<String>,
    pub home_files: Vec<String>,
    pub variables: Vec<String>,
}

impl Tool {
    /// Whether the path belongs to this tool. Only directories below an interpreter's library
    /// count, because other directories may have the same name.
    fn contains_path(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split(" > ").next().unwrap_or(path).split('/').collect();
        parts.windows(2).any(|pair| {
            let in_library = pair[0].ends_with("-packages") || pair[0].starts_with("python3");
            in_library && self.folders.iter().any(|folder| folder == pair[1])
        })
    }
}

static POLICY: ShippedTable<LeakPolicy> = ShippedTable::new("tables/leak-check.toml", POLICY_TEXT);

impl LeakPolicy {
    pub(crate) fn get() -> Result<&'static Self, Fault> {
        POLICY.get().map_err(|error| Fault::new(FaultLayer::Setup, error))
    }

    /// Whether an entry of the work directory is a copy, judging by its name.
    pub(crate) fn is_copy(&self, name: &RawPath) -> bool {
        let name = name.as_bytes();
        self.copies.iter().any(|copy| name == copy.as_bytes())
            || self.copy_suffixes.iter().any(|end| name.ends_with(end.as_bytes()))
    }

    /// Whether a path is a repository, judging by its name.
    pub(crate) fn is_history(&self, path: &RawPath) -> bool {
        let name = path.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.histories.iter().any(|history| name == history.as_bytes())
    }

    /// Whether a path is directly below an import root, so that an interpreter can import it as a
    /// module or package.
    pub(crate) fn is_importable(&self, path: &RawPath) -> bool {
        let mut parts = path.as_bytes().rsplit(|&byte| byte == b'/').skip(1);
        let folder = parts.next().unwrap_or_default();
        self.import_roots.iter().any(|root| root.as_bytes() == folder)
    }

    /// Whether a tool bundles the file at this path.
    pub(crate) fn is_bundled_by_tool(&self, path: &str) -> bool {
        self.tools.iter().any(|tool| tool.contains_path(path))
    }

    /// Returns a tool that `commands` runs, if that tool bundles the file at `path`.
    pub(crate) fn find_tool(&self, commands: &str, path: &str) -> Option<&str> {
        // A word matches if its file name is a program of the tool. A directory with that name does
        // not match.
        let ends = |c: char| c.is_whitespace() || ";|&()<>\"'`$=".contains(c);
        let programs = || commands.split(ends).map(|word| word.rsplit('/').next().unwrap_or(word));
        let runs =
            |tool: &&Tool| programs().any(|program| tool.words.iter().any(|one| one == program));
        let tool = self.tools.iter().filter(runs).find(|tool| tool.contains_path(path));
        tool.map(|tool| tool.name.as_str())
    }

    /// Returns a digest of the policy's whole text. As part of the cache key, the digest ensures
    /// that findings made with another policy are not reused.
    pub(crate) fn digest(&self) -> String {
        sha256_hex(format!("{} {POLICY_TEXT}", self.version).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_policy_is_valid() {
        let policy = LeakPolicy::get().unwrap();
        assert!(policy.limits.depth > 0 && policy.prints.code_share <= 1.0);
    }

    #[test]
    fn find_tool_finds_bundled_files_only_if_commands_run_the_tool() {
        let policy = LeakPolicy::get().unwrap();
        let vendored = "/venv/lib/python3.11/site-packages/pip/_vendor/packaging/version.py";
        assert!(policy.is_bundled_by_tool(vendored));
        assert_eq!(policy.find_tool("python -m pip install -e .", vendored), Some("pip"));
        assert_eq!(policy.find_tool("cd /x; /venv/bin/pip3 install .", vendored), Some("pip"));
        assert_eq!(
            policy.find_tool("/pip/venv/bin/pytest -rA tests/test_pipes.py", vendored),
            None
        );
        let bundled = "/usr/lib/python3.11/ensurepip/_bundled/pip-24.whl > pip/_vendor/six.py";
        assert!(policy.is_bundled_by_tool(bundled));
        assert!(!policy.is_bundled_by_tool("/srv/pip/packaging/version.py"));
        assert!(policy.is_importable(&"/v/site-packages/pluggy".into()));
        assert!(!policy.is_importable(&vendored.into()));
    }
}
