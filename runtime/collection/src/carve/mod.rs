//! Takes objects out of a Python package, so that the rest still parses and still imports.

mod describe;
mod edits;
mod error;
mod file;
mod imports;
mod lists;
mod package;
mod references;
mod scope;

pub use describe::{Kind, Object};
pub use error::CarveError;
pub use package::{Carving, carve};
