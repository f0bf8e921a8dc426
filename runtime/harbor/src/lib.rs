//! Reads Harbor task folders by the rules of `harbor-0.26`: `task.toml`, the files of a task and its digest,
//! data sets, a verifier's rewards, and lint rules.
//!
//! The crate reads folders on this machine. It does not depend on sandboxes and runs nothing.

mod config;
mod env;
mod folder;
mod ignore;
mod keys;
mod lines;
mod lint;
mod manifest;
mod rewards;
mod rules;

pub use config::{Config, Environment, Phase, Read, Verifier, read_config};
pub use env::fill_env;
pub use folder::{Folder, InputFile, InputKind, SOLVE, TEST, dataset_digest};
pub use lines::Mistake;
pub use lint::{Finding, lint};
pub use manifest::{DATASET, Manifest, ManifestFile, ManifestTask, read_manifest};
pub use rewards::{REWARD_LIMIT, RewardError, read_rewards};
pub use rules::{Outside, Rules};

/// The file that identifies a task folder.
pub const TASK: &str = "task.toml";
