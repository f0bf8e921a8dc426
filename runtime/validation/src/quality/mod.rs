//! Finds problems with a dataset's tasks, using the task definitions, the text of the tests and a
//! certificate from `proctor tasks validate`. Runs no tests.

mod duplicates;
mod gold;
mod interfaces;
mod judge;
mod leak;
mod readable;
mod settings;
mod signs;

pub use judge::{JudgedTask, ReadFile, judge_tasks};
pub use readable::readable_tests;
