//! Third-party command-line agents, which run in the sandbox. A manifest describes each agent.
//!
//! ```text
//! catalogue  the available manifests        manifest  the format of one
//! templates  their variables                external  the scaffold: factors, settings, running
//! run        start, watch, stop             ending    interprets its exit
//! repository the agent's settings files in the task's repository
//! ```
//!
//! See `docs/reference/external.md`.

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
mod time_limits;

pub use catalogue::{
    LoadedManifest, SCHEMA_TITLE, load, manifest_for_version, names, shipped_manifest,
    versioned_name,
};
pub use error::ManifestError;
pub use external::External;
pub use manifest::{
    CommandLine, ExitRule, HomeFile, LogFiles, Manifest, Meaning, RepositoryFiles, StopRules,
    StopSignal,
};
