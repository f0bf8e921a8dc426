//! Errors of a validation.

use proctor_record::RecordError;
use proctor_types::Fault;
use thiserror::Error;

/// Why a dataset cannot be validated.
#[derive(Debug, Error)]
pub enum ValidationError {
    /// A run cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A snapshot cannot be read, or an attack cannot be created.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The run has no gold arm or no noop arm.
    #[error("the run has no gold arm or no noop arm")]
    NoControls,
}
