//! Prepares a sandbox for a task, either to run the agent or to grade.

mod apply;
mod environment;
mod from_scratch;
mod hidden_content;
mod hidden_copies;
mod image;
mod inputs;
mod leak_check;
mod memo;
mod preparation;
mod requirements;
mod source;
mod workdir;

pub use apply::{AppliedPatch, ApplyError, apply_graded_patch, apply_mask, apply_patch};
pub use environment::{check_source, resolve_layer_spec, sandbox_base};
pub use hidden_content::{ContentToKeep, remove_hidden_content};
pub use hidden_copies::{HiddenCopies, ProvidedModule, RemainingCopy};
pub use image::with_image_settings;
pub use inputs::{LOG_DIR, copy_inputs, create_log_dirs};
pub use leak_check::{
    BundleCopy, LayerFindings, Leak, LeakKind, LeakReport, ScanStats, ToolFiles, WorkdirFindings,
    find_bundle_copies,
};
pub use memo::Memo;
pub use preparation::{Preparation, Purpose, ReadySandbox};
pub use requirements::check_workdir_and_user;
pub use source::{Sources, local_source_digest};
pub use workdir::{prepare_for_agent, snapshot_request};

/// Fingerprint of all code that turns an environment and a task into a sandbox: this crate, its
/// policy, and the code that applies patches.
pub const PREPARATION: &str = env!("PREPARATION");
