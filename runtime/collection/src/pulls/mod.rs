//! `proctor collect-pulls`: creates tasks from a clone's merged pull requests (`docs/concepts/pulls.md`).

mod candidate;
mod clones;
mod dump;
mod funnel;
mod history;
mod intent;
mod lite;
mod model_intent;
mod pipeline;
mod rows;
mod runner;
mod settings;

pub use clones::{CloneCollection, ClonesReport, FailedClone, join_clones};
pub use funnel::{FastValidation, PullReject, PullReport, PullTaskMetrics};
pub use pipeline::{CollectionGoal, PullSearch, collect_pulls};
