//! The names of tests and their configuration.

use serde::Deserialize;

/// The names of a task's tests, as far as names identify them. The grader restores files with these
/// names, and forensics reports edits of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestNames {
    /// Test directories.
    pub test_folders: Vec<String>,
    /// Files from which the test tool reads its configuration.
    pub config_files: Vec<String>,
    /// Directories below the work directory that modules are imported from; empty for the work
    /// directory itself.
    pub import_roots: Vec<String>,
}
