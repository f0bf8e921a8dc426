//! Removes objects from a Python package. The remaining code can still be parsed and imported.

mod bodies;
mod changes;
mod definitions;
mod describe;
mod edits;
mod error;
mod file;
mod imports;
mod lists;
mod package;
mod references;
mod scope;
#[cfg(test)]
mod standard_library;

pub use bodies::{FIRST_ARGUMENT, NONE_VALUE, replace_bodies};
pub use changes::build_patch;
pub use definitions::{Definition, Traits, definitions};
pub use describe::StubOptions;
pub use describe::{Kind, Object};
pub use error::CarveError;
pub use file::stub_and_code;
pub use package::{CarveOptions, Carving, carve, carve_with_options};
pub use references::dotted_name;
pub use scope::{lost_names, top_level_statements};
