//! What a task's tests are called, as far as names tell: the part of the grading policy that says it.

use std::sync::LazyLock;

use proctor_types::{Fault, Layer};
use serde::Deserialize;

const TEXT: &str = include_str!("../../../configs/grading.toml");

/// Read from the grader's own file, so that the two never disagree about what a test is.
#[derive(Debug, Deserialize)]
pub(crate) struct Names {
    pub test_folders: Vec<String>,
    pub config_files: Vec<String>,
    pub import_roots: Vec<String>,
}

static NAMES: LazyLock<Result<Names, String>> =
    LazyLock::new(|| toml::from_str(TEXT).map_err(|error| error.to_string()));

impl Names {
    pub(crate) fn get() -> Result<&'static Self, Fault> {
        NAMES
            .as_ref()
            .map_err(|error| Fault::new(Layer::Grade, format!("configs/grading.toml: {error}")))
    }
}
