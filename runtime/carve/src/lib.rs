//! Removes objects from a Python package so that the rest can still be parsed and imported.

mod changes;
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

pub use changes::patch_of;
pub use definitions::{Definition, Traits, definitions};
pub use describe::View;
pub use describe::{Kind, Object};
pub use error::CarveError;
pub use file::interface_of;
pub use hollow::{FIRST, NOTHING, hollow};
pub use package::{CarveOptions, Carving, carve, carve_with};
pub use references::dotted;
pub use scope::{lost_names, top_level};
