//! `proctor collect`: a repository into a benchmark, with no hand and no model (`docs/collection.md`).

mod asking;
mod attacked;
mod calls;
mod candidate;
mod environment;
mod found;
#[cfg(test)]
mod golden;
mod graph;
mod kept;
mod lasting;
mod level_two;
mod lite;
mod mask;
mod notes;
mod objects;
mod observe;
mod origin;
mod others;
mod pipeline;
mod poetry;
mod progress;
mod project;
mod pulls;
mod renew;
mod report;
mod seeded;
mod settings;
mod statement;
mod stubs;
mod suite;
mod test_file;
mod tops;
mod traverse;
mod twins;
mod verify;

pub use asking::Model;
pub use attacked::{Attacked, Attacks};
pub use candidate::{Facts, Reject};
pub use origin::Origin;
pub use pipeline::{CollectError, Place, collect};
pub use pulls::{Extent, PullFacts, PullReject, PullReport, Pulls, collect_pulls};
pub use renew::{Renewed, renew};
pub use report::{Complexity, LevelTwo, Report, Stages};
pub use suite::Unused;
