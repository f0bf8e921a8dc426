//! Run configurations: as written, with `--set` laid over, and as resolved.

mod check;
mod file;
mod model;
mod resolve;
mod set;

pub use file::{ArmFile, ConfigFile, GradingFile, plain_arm, read};
pub use model::put_model;
pub use resolve::resolve;
pub use set::{lay as set, nearest_named_in};
