//! Creates faults for sources that cannot be fetched or read.

use std::path::Path;

use proctor_types::{Cause, Fault, Layer};

pub(super) fn fault(what: impl Into<String>) -> Fault {
    Fault::new(Layer::Environment, what)
}

pub(super) fn io_fault(path: &Path, error: &std::io::Error) -> Fault {
    fault(format!("{}: {error}", path.display())).cause(Cause::from_io_error(error))
}
