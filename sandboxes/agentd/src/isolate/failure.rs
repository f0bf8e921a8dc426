//! A step that failed while the sandbox was being created.

use std::{fmt, io};

use proctor_wire::LayoutReport;

#[derive(Debug)]
pub(super) struct Failure {
    step: String,
    why: String,
    hint: Option<String>,
}

impl Failure {
    pub(super) fn into_report(self) -> LayoutReport {
        LayoutReport::Failed { step: self.step, why: self.why, hint: self.hint }
    }

    pub(super) fn from_step((step, error): (&'static str, io::Error)) -> Self {
        Self { step: step.to_owned(), why: error.to_string(), hint: None }
    }

    #[must_use]
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.why)
    }
}

/// Adds the step to an error.
pub(super) trait StepContext<T> {
    fn context(self, step: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> StepContext<T> for Result<T, E> {
    fn context(self, step: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            step: step.to_string(),
            why: error.into().to_string(),
            hint: None,
        })
    }
}
