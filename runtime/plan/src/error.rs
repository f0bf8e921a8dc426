//! Errors of planning, and helpers that add keys and task IDs to their messages.

use std::io;

use proctor_record::RecordError;
use proctor_scaffold_api::SourceError;
use proctor_types::{Arm, Fault, UserError, join_first_few};
use thiserror::Error;

/// An error that occurs while a run is planned.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A usage error.
    #[error(transparent)]
    User(#[from] UserError),
    /// Failed to read or write a run directory.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A scaffold cannot be used.
    #[error(transparent)]
    Scaffold(#[from] SourceError),
    /// A built-in table is invalid, or a back end failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Failed to access a file of the cache, a dataset or the run directory.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// This version cannot read a recorded configuration.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A recipe failed to build a task.
    #[error("recipe {name}: {why}")]
    Recipe {
        /// The recipe's ID.
        name: String,
        /// Why the recipe failed.
        why: String,
    },
}

/// Adds the location in an arm's configuration to a message. Arguments: the arm, the key in its table,
/// and the message.
pub type ArmLocator<'a> = &'a dyn Fn(&Arm, &str, UserError) -> UserError;

/// Joins the first few of a list of IDs for a message.
pub fn format_ids<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    join_first_few(ids.map(|id| format!("`{id}`")).collect())
}
