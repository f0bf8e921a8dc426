//! Reasons why a plan cannot be run.

use std::io;

use proctor_record::RecordError;
use proctor_scaffold_api::SourceError;
use proctor_types::{Fault, UserError};
use thiserror::Error;

/// An error of an execution.
#[derive(Debug, Error)]
pub enum RunError {
    /// A mistake of the user.
    #[error(transparent)]
    User(#[from] UserError),
    /// Failed to read or write the run directory.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A scaffold cannot be used as planned.
    #[error(transparent)]
    Scaffold(#[from] SourceError),
    /// A component of Proctor cannot be set up.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A scripted model cannot be served.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// This version cannot read the recorded configuration.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The execution was aborted.
    #[error("the execution was aborted")]
    Aborted,
}
