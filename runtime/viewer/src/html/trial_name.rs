//! A trial's name in parts. Pages isolate the text direction of each part: otherwise, a name in a
//! right-to-left script would move the text after it, such as the attempt.

use serde::Serialize;

/// A trial's name in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TrialName {
    /// Empty if the page is about one run.
    pub run: String,
    /// Empty if the page is about one task.
    pub task: String,
    pub arm: String,
    pub attempt: u32,
}
