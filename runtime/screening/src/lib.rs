//! Screens the code that a patch adds, without running it.
//!
//! The rules are in `configs/screening.toml`. A finding says where a rule matched. It is evidence
//! about a verdict and never changes whether a trial is resolved. What the base tree or the gold
//! patch already does is excused: the same rule with the same expression.

mod lines;
mod python;
mod rules;
mod scope;
mod screen;

pub use scope::{is_test_path, own_packages};
pub use screen::{Finding, Input, Screen, ScreenError, Screening, screen};

#[cfg(test)]
mod tests;
