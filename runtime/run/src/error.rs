//! Errors that prevent a plan from running, and the conversion of record errors to faults.

use std::{any::Any, io};

use proctor_record::RecordError;
use proctor_scaffold_api::SourceError;
use proctor_types::{Fault, FaultCause, FaultLayer, UserError};
use thiserror::Error;

/// An error that prevents or aborts an execution.
#[derive(Debug, Error)]
pub enum RunError {
    /// A usage error.
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

/// Returns the fault for a record error. A try whose record cannot be written has no result. A
/// corrupt record affects only its own trial.
pub(crate) fn record_fault(error: impl std::error::Error + 'static) -> Fault {
    let damaged = (&error as &dyn Any)
        .downcast_ref::<RecordError>()
        .is_some_and(|error| matches!(error, RecordError::Corrupt { .. }));
    let fault = Fault::new(FaultLayer::Record, error.to_string());
    match damaged {
        true => fault
            .cause(FaultCause::Invalid)
            .hint("`proctor report RUN --verify` lists what is missing from the record"),
        false => fault
            .cause(FaultCause::from_error(&error))
            .hint("check the free space and the permissions of the run directory"),
    }
}
