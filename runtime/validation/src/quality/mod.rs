//! Finds problems of a dataset's tasks: from the row, the text of the tests, and a certificate of
//! what its gradings did. Nothing runs here.

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
