//! Screens the code that a patch adds, without running it.
//!
//! The rules are in `configs/tables/screening.toml`. A finding is a location that violates a rule.
//! Findings are evidence about a verdict and never change whether a trial is resolved. A finding is
//! excused if the base tree or the gold patch violates the same rule with the same expression.

mod language;
mod lines;
mod python;
mod rules;
mod scope;
mod screen;

pub use language::LanguageScreen;
pub use scope::{is_test_path, own_packages};
pub use screen::{Finding, PatchChanges, ScreenError, Screening, ScreeningInput, screen};

#[cfg(test)]
mod tests;
