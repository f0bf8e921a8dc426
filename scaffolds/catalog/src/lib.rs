//! Every scaffold by its name: built-in ones, command-line agents with their bundles, and users' programs.

pub mod bundled;
mod catalog;

pub use catalog::Catalog;
