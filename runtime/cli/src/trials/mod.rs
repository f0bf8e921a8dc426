//! Trials for people to look at: found by readable names, read step by step.

mod find;
mod log;
mod pages;
mod read;
mod steps;

pub use find::{Found, matching, named, planned};
pub use pages::Pages;
pub use read::{gold_of, patch_of, trial};
pub use steps::{rows, step};
