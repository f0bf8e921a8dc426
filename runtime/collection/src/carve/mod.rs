//! Removes objects from a Python package so that the rest can still be parsed and imported.

mod definitions;
mod describe;
mod edits;
mod error;
mod file;
mod hollow;
mod imports;
mod lists;
mod package;
mod references;
mod scope;
#[cfg(test)]
mod standard_library;

pub(crate) use definitions::{Definition, Traits, definitions};
pub(crate) use describe::View;
pub use describe::{Kind, Object};
pub use error::CarveError;
pub(crate) use file::interface_of;
pub(crate) use hollow::{FIRST, NOTHING, hollow};
pub use package::{CarveOptions, Carving, carve, carve_with};
pub(crate) use references::dotted;
pub(crate) use scope::{lost_names, top_level};
