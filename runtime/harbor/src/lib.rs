//! Reads Harbor task folders according to the rules of `harbor-0.26`: `task.toml`, a task's files
//! and digest, datasets, a verifier's rewards, and lint rules.
//!
//! The crate only reads folders on this machine. It does not depend on sandboxes and runs no
//! programs.

mod config;
mod diagnostics;
mod env;
mod folder;
mod ignore;
mod keys;
mod lint;
mod manifest;
mod rewards;
mod rules;

pub use config::{
    AgentSettings, Config, EnvironmentSettings, ParsedConfig, VerifierSettings, read_config,
};
pub use diagnostics::Diagnostic;
pub use env::expand_env;
pub use folder::{Folder, InputEntry, InputKind, SOLVE_SCRIPT, TEST_SCRIPT, dataset_digest};
pub use lint::{Finding, lint};
pub use manifest::{DATASET_FILE, Manifest, ManifestFile, ManifestTask, read_manifest};
pub use rewards::{REWARD_LIMIT, RewardError, read_rewards};
pub use rules::{OutsideFileLimits, Rules};

/// The file that identifies a task folder.
pub const TASK_FILE: &str = "task.toml";
