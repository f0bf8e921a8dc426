//! Command-line agents of others, each described by a manifest and driven in the sandbox.
//!
//! ```text
//! catalogue  which manifests there are      manifest  what one says
//! templates  what is filled in              external  the scaffold: factors, settings, driving
//! run        start, watch, stop             ending    what its exit means
//! repository the agent's settings files in the task's repository
//! ```
//!
//! `docs/external.md` is the page of this crate.

mod activity;
mod catalogue;
mod ending;
mod error;
mod external;
mod manifest;
pub mod prompt;
mod repository;
mod run;
mod templates;

pub use catalogue::{Loaded, TITLE, load, names, other_name, other_version, shipped};
pub use error::ManifestError;
pub use external::External;
pub use manifest::{
    CommandLine, ExitRule, HomeFile, LogFiles, Manifest, Meaning, RepositoryFiles, StopRules,
    StopSignal,
};
