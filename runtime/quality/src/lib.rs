//! What speaks against a task of a dataset: from its row, its tests' text, and a certificate of what its gradings did. Nothing
//! runs here.

mod asked;
mod duplicates;
mod gold;
mod judge;
mod leak;
mod readable;
mod settings;
mod signs;

pub use judge::{ReadFile, Subject, judge};
pub use readable::readable_tests;
