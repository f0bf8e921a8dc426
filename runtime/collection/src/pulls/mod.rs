//! `proctor collect-pulls`: turns a clone's merged pull requests into tasks (`docs/pulls.md`).

mod candidate;
mod dump;
mod funnel;
mod history;
mod intent;
mod lite;
mod many;
mod pipeline;
mod rows;
mod settings;
mod trying;

pub use funnel::{FastValidation, PullFacts, PullReject, PullReport};
pub use many::{CloneCollection, ClonesReport, FailedClone, join_clones};
pub use pipeline::{Extent, Pulls, collect_pulls};
