//! Reads the rule table `configs/tables/harbor.toml`.

use std::collections::BTreeMap;

use proctor_types::ShippedTable;
use serde::Deserialize;

static RULES: ShippedTable<Rules> =
    ShippedTable::new("tables/harbor.toml", include_str!("../../../configs/tables/harbor.toml"));

/// Proctor's rules for Harbor's format.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub(crate) schema_versions: Vec<String>,
    pub(crate) keys: BTreeMap<String, Vec<String>>,
    pub(crate) unsupported: BTreeMap<String, String>,
    pub(crate) unsupported_files: BTreeMap<String, String>,
    pub(crate) ignored: BTreeMap<String, String>,
    pub(crate) digest: DigestRules,
    downloads: DownloadRules,
    /// Limits for the files outside the work directory that a trial saves.
    pub outside: OutsideFileLimits,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DigestRules {
    pub(crate) ignore: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct DownloadRules {
    failed: Vec<String>,
    missing: Vec<String>,
    ran: Vec<String>,
}

/// Limits on the files that a trial saves from outside the sandbox's work directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideFileLimits {
    /// Maximum size of one file, in MiB.
    pub file_mb: u64,
    /// Maximum total size of the files, in MiB.
    pub mb: u64,
    /// Maximum number of entries.
    pub entries: u64,
}

impl Rules {
    /// Returns the built-in rules.
    ///
    /// # Errors
    /// Fails if the built-in file is invalid.
    pub fn get() -> Result<&'static Self, String> {
        RULES.get()
    }

    /// Returns the files that Proctor does not support, by their path in the folder. Each comes
    /// with the feature for which the file is needed.
    pub fn unsupported_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unsupported_files.iter().map(|(name, what)| (name.as_str(), what.as_str()))
    }

    /// Whether a verifier's output shows that a test runner ran.
    pub fn shows_test_run(&self, log: &str) -> bool {
        let lower = log.to_lowercase();
        self.downloads.ran.iter().any(|sign| lower.contains(sign))
    }

    /// Returns the line of output that reports a failed download. Returns `None` if a test runner
    /// ran. The code of an agent can print such a line, too.
    pub fn find_failed_download<'a>(&self, log: &'a str) -> Option<&'a str> {
        self.find_line(log, &self.downloads.failed)
    }

    /// Returns the line of output that reports a missing program or package. Returns `None` if a
    /// test runner ran.
    pub fn find_missing_tool<'a>(&self, log: &'a str) -> Option<&'a str> {
        self.find_line(log, &self.downloads.missing)
    }

    /// Returns the first line that contains one of the given signs. Returns `None` if a test runner
    /// ran.
    fn find_line<'a>(&self, log: &'a str, signs: &[String]) -> Option<&'a str> {
        if self.shows_test_run(log) {
            return None;
        }
        let says = |line: &&str| {
            let line = line.to_lowercase();
            signs.iter().any(|sign| line.contains(sign))
        };
        log.lines().find(says).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_download_requires_that_no_tests_ran() {
        let rules = Rules::get().unwrap();
        let failed = "Get:1 x\ncurl: (6) Could not resolve host: astral.sh\n/tests/test.sh: uvx: not found\n";
        assert_eq!(
            rules.find_failed_download(failed),
            Some("curl: (6) Could not resolve host: astral.sh")
        );
        let ran = format!("{failed}=== 1 failed in 0.2s ===\n");
        assert_eq!(rules.find_failed_download(&ran), None);
        assert_eq!(rules.find_failed_download("assert 1 == 2"), None);
        assert_eq!(rules.find_missing_tool(failed), Some("/tests/test.sh: uvx: not found"));
        assert_eq!(rules.find_missing_tool(&ran), None);
        for line in [
            "/tests/test.sh: line 3: pytest: command not found",
            "/usr/bin/python3: No module named pytest",
        ] {
            assert_eq!(rules.find_missing_tool(line), Some(line));
        }
        assert_eq!(rules.find_missing_tool("E   FileNotFoundError: /app/hello.txt"), None);
    }
}
