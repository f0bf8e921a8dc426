//! The records that `python/observe.py` writes about a test run.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A record that `observe.py` writes. Each line contains one record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(super) enum Record {
    Items {
        file: String,
        ids: Vec<String>,
    },
    /// An error during collection. The id is empty if pytest itself did not start.
    Error {
        id: String,
        why: String,
        missing: Option<String>,
        /// Command-line or configuration options that pytest does not recognize.
        #[serde(default)]
        options: Vec<String>,
        /// Plug-ins that the project's configuration requires.
        #[serde(default)]
        packages: Vec<String>,
    },
    Start {
        id: String,
    },
    Test {
        id: String,
        outcome: String,
        seconds: f64,
        /// The first line of the error, if the test did not pass.
        #[serde(default)]
        why: String,
    },
    /// A file's process ended. `code` is `None` if the process was killed.
    File {
        file: String,
        code: Option<i32>,
    },
    Broken {
        file: String,
        why: String,
    },
    /// Third-party modules that were loaded while collecting the tests.
    Loaded {
        modules: Vec<String>,
    },
    Calls {
        file: Option<String>,
        process: u64,
        test: Option<String>,
        /// Code objects: number, file, first line, name.
        code: Vec<(u32, String, usize, String)>,
        edges: Vec<(i64, u32)>,
        /// Observed types: code object number, parameter name (empty for the return value), type.
        #[serde(default)]
        types: Vec<(u32, String, String)>,
    },
    End,
}

/// Returns the ids of the collected tests, by file.
pub(super) fn collected_tests(records: &[Record]) -> BTreeMap<String, Vec<String>> {
    let items = records.iter().filter_map(|record| match record {
        Record::Items { file, ids } => Some((file.clone(), ids.clone())),
        _ => None,
    });
    items.collect()
}

/// Returns the third-party modules that can be imported once and shared by all files.
pub(super) fn preloadable_modules(records: &[Record]) -> Vec<String> {
    let modules = records.iter().filter_map(|record| match record {
        Record::Loaded { modules } => Some(modules.clone()),
        _ => None,
    });
    modules.flatten().collect()
}
