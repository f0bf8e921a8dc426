//! What tests and their configuration are called.

use serde::Deserialize;

/// What a task's tests are called, as far as names tell. The grader restores what has these names, and
/// forensics tells who edited it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestNames {
    /// Folders that hold tests.
    pub test_folders: Vec<String>,
    /// Files that the test tool takes its configuration from.
    pub config_files: Vec<String>,
    /// Folders below the work directory that modules are imported from; empty for the directory itself.
    pub import_roots: Vec<String>,
}
