//! `proctor collect`: turns a repository into a benchmark, without manual work and without a model
//! (`docs/collection.md`).

pub(crate) mod answers;
mod asking;
mod attacked;
mod calls;
pub(crate) mod candidate;
pub(crate) mod environment;
mod form;
mod found;
#[cfg(test)]
mod golden;
mod graph;
pub(crate) mod kept;
mod labels;
mod lasting;
mod level_two;
mod lite;
mod mask;
mod notes;
mod objects;
mod observe;
mod origin;
mod others;
mod part;
pub(crate) mod pipeline;
mod poetry;
pub(crate) mod progress;
pub(crate) mod project;
mod prose;
mod renew;
mod report;
mod same;
mod seeded;
pub(crate) mod settings;
mod solvability;
mod statement;
mod stubs;
mod suite;
mod test_file;
mod tops;
mod traverse;
mod twins;
pub(crate) mod verify;

pub use answers::{Answers, Model};
pub use attacked::{Attacked, Attacks};
pub use candidate::{Facts, Reject};
pub use labels::TopsScore;
pub use origin::Origin;
pub use pipeline::{CollectError, CollectionContext, collect};
pub use renew::{Renewed, renew};
pub use report::{Complexity, LevelTwo, Report, Stages};
pub use solvability::{Coverage, Requirement, RequirementKind, Solvability, SolvabilityCounts};
pub use suite::Unused;
