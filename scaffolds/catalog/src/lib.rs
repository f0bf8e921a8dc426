//! Looks up any scaffold by name: built-in scaffolds, command-line agents with their bundles, and
//! users' programs.

pub mod bundled;
mod catalog;

pub use catalog::Catalog;
