//! An error in a trajectory file.

use std::fmt;

/// An error in a trajectory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The location of the error, such as `steps[3].source`, or a line and column.
    pub location: String,
    pub message: String,
    pub hint: &'static str,
}

impl ImportError {
    pub(crate) fn new(
        location: impl Into<String>,
        message: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self { location: location.into(), message: message.into(), hint }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}
