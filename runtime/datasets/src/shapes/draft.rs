//! A task while it is converted from a row.

use proctor_types::{Details, Task};

use super::fields::RowFields;
use crate::address::AddressOptions;

/// An unfinished task that modules may still change.
pub(crate) struct TaskDraft<'a> {
    pub task: Task,
    pub details: Details,
    /// The clone that the missing fields were read from (FEA-Bench).
    pub clone: Option<String>,
    pub fields: RowFields<'a>,
    pub options: &'a AddressOptions,
}
