//! Run configurations: as written, with `--set` laid over, and as resolved.

mod effect;
mod endpoints;
mod file;
mod keys;
mod kind;
mod model;
mod models;
mod paths;
mod resolve;
mod set;
mod walk;
mod written;

pub use file::{ArmFile, ConfigFile, GradingFile, plain_arm, read};
pub use kind::near;
pub use model::put_model;
pub use paths::SCRIPT;
pub use resolve::{REPLAY, RunConfig, resolve};
pub use set::lay as set;
pub use walk::{Extent, walk};
pub use written::Written;
