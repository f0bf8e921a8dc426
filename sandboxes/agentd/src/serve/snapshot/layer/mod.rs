//! Captures what changed outside the work directory since the agent started.
//!
//! Walking the whole root would take longer than a step. So the agent checks only written paths:
//! those in the upper directory of a native sandbox's overlay, or those that the container engine
//! lists. It also checks the other writable mounts, such as `/dev/shm`, which contain little.

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
