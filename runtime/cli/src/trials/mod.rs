//! Trials for people: found by readable names, read step by step.

mod beside;
mod copies;
mod index;
mod log;
mod overview;
mod pages;
mod place;
mod read;
mod results;
mod search;
mod shown;
mod statics;
mod steps;
mod words;
mod workspace;

pub use copies::refuse_copies;
pub use index::Index;
pub use pages::{Page, Pages};
pub use proctor_record::find::{Found, matching, named, planned};
pub use read::{gold_of, labels_of, patch_of, trial};
pub use steps::step;
