//! Why a plan cannot be carried out.

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
    /// The run directory cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A scaffold cannot be used as planned.
    #[error(transparent)]
    Scaffold(#[from] SourceError),
    /// A part of this program cannot be set up.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A scripted model cannot be served.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The recorded configuration is not what this version writes.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The execution was aborted.
    #[error("the execution was aborted")]
    Aborted,
}
