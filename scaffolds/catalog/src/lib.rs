//! Looks up any scaffold by name: built-in ones, command-line agents with their bundles, and users'
//! programs.

pub mod bundled;
mod catalog;

pub use catalog::Catalog;
