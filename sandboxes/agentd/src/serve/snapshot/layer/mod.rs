//! Captures what changed outside the work directory since the agent started.
//!
//! Walking the whole root would take longer than a step. Only written paths are checked: the upper
//! directory of a native sandbox's overlay or the paths that an engine lists, plus the other
//! writable mounts, such as `/dev/shm`, which contain little.

mod capture;
mod changes;
mod list;
mod mounts;
mod non_file_state;
mod open;
mod paths;
mod state;

pub use capture::capture_layer;
pub use open::remember_upper;
pub use state::LayerState;
