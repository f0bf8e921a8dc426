//! Finds problems of a dataset's tasks, using their definitions, the text of their tests and a
//! certificate from `proctor tasks validate`. It runs nothing.

mod duplicates;
mod gold;
mod interfaces;
mod judge;
mod leak;
mod readable;
mod settings;
mod signs;

pub use judge::{ReadFile, Subject, judge};
pub use readable::readable_tests;
