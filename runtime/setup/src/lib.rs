//! Prepares a sandbox for a task, either to run the agent or to grade.

mod apply;
mod environment;
mod from_scratch;
mod image;
mod inputs;
mod leak_check;
mod memo;
mod named;
mod preparation;
mod source;
mod workdir;

pub use apply::{Applied, ApplyError, apply_mask, apply_parts, apply_patch};
pub use environment::{base_of, check_source, layer_spec};
pub use image::on_image;
pub use inputs::{LOGS, lay_inputs, make_logs};
pub use leak_check::{
    BundleCopy, LayerFindings, Leak, LeakKind, LeakReport, ToolFiles, Unseen, WorkdirFindings,
    bundle_copies,
};
pub use memo::Memo;
pub use named::check_named;
pub use preparation::{Hidden, Kept, Lent, Preparation, Purpose, Ready};
pub use source::{Sources, local_source};
pub use workdir::{Stays, prepare_for_driving, snapshot_request, take_away};

/// Fingerprint of everything that turns an environment and a task into a sandbox: this code, its
/// policy, and the code that applies patches.
pub const PREPARATION: &str = env!("PREPARATION");
