//! Why a dataset cannot be validated.

use proctor_record::RecordError;
use proctor_types::Fault;
use thiserror::Error;

/// An error of a validation.
#[derive(Debug, Error)]
pub enum ValidationError {
    /// A run cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A tree or an attack is unusable.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The run has no gold or no noop.
    #[error("the run lacks the gold or the noop arm")]
    NoControls,
}
