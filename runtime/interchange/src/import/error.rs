//! An error in a trajectory file.

use std::fmt;

/// An error in a trajectory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The location of the error, such as `steps[3].source`, or a line and column.
    pub place: String,
    pub why: String,
    pub hint: &'static str,
}

impl ImportError {
    pub(crate) fn new(
        place: impl Into<String>,
        why: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self { place: place.into(), why: why.into(), hint }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}
