//! Reasons why something cannot be planned.

use std::io;

use proctor_record::RecordError;
use proctor_scaffold_api::SourceError;
use proctor_types::{Fault, UserError};
use thiserror::Error;

/// An error of planning.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A mistake of the user.
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
    /// Failed to build a recipe's task.
    #[error("recipe {name}: {why}")]
    Recipe {
        /// The recipe's ID.
        name: String,
        /// The reason.
        why: String,
    },
}
