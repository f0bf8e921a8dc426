//! Creates faults for sources that cannot be fetched or read.

use std::path::Path;

use proctor_types::{Fault, FaultCause, FaultLayer};

pub(super) fn source_fault(message: impl Into<String>) -> Fault {
    Fault::new(FaultLayer::Environment, message)
}

pub(super) fn io_fault(path: &Path, error: &std::io::Error) -> Fault {
    source_fault(format!("{}: {error}", path.display())).cause(FaultCause::from_io_error(error))
}
