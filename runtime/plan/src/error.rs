//! Why something cannot be planned.

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
    /// A run directory cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A scaffold cannot be used.
    #[error(transparent)]
    Scaffold(#[from] SourceError),
    /// A table of this program, or a back end.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A file of the cache, of a dataset or of the run directory.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A recorded configuration is not what this version writes.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The task of a recipe cannot be built.
    #[error("recipe {name}: {why}")]
    Recipe {
        /// The recipe's id.
        name: String,
        /// What failed.
        why: String,
    },
}
