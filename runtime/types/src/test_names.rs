//! Names that identify tests and their configuration files.

use serde::Deserialize;

/// Names that identify a task's tests. The grader restores files with these names, and forensics
/// reports edits to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestNames {
    /// Names of test directories.
    pub test_folders: Vec<String>,
    /// Files that the test runner reads its configuration from.
    pub config_files: Vec<String>,
    /// Directories below the work directory that modules are imported from. An empty string is the
    /// work directory itself.
    pub import_roots: Vec<String>,
}
