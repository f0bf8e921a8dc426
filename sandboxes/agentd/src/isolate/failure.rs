//! A step that failed while the sandbox was being created.

use std::{fmt, io};

use proctor_wire::LayoutReport;

#[derive(Debug)]
pub(super) struct Failure {
    operation: String,
    reason: String,
    hint: Option<String>,
}

impl Failure {
    pub(super) fn into_report(self) -> LayoutReport {
        LayoutReport::Failed { step: self.operation, why: self.reason, hint: self.hint }
    }

    pub(super) fn from_operation((step, error): (&'static str, io::Error)) -> Self {
        Self { operation: step.to_owned(), reason: error.to_string(), hint: None }
    }

    #[must_use]
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.reason)
    }
}

/// Adds the failed operation to an error.
pub(super) trait FailureContext<T> {
    fn context(self, operation: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> FailureContext<T> for Result<T, E> {
    fn context(self, operation: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            operation: operation.to_string(),
            reason: error.into().to_string(),
            hint: None,
        })
    }
}
