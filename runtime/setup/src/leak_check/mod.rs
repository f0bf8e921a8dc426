//! The leak check: searches sandboxes for copies of a task's hidden content, and removes or rejects
//! them.

mod bundles;
mod layer;
mod leak;
mod names;
mod patch_lines;
mod policy;
mod removal;
mod secrets;
mod surroundings;
mod verify;

pub use bundles::{BundleCopy, find_bundle_copies};
pub use layer::{LayerFindings, ScanStats, ToolFiles, WorkdirFindings};
pub use leak::{Leak, LeakKind};
pub(crate) use policy::LeakPolicy;
pub(crate) use removal::{file_name, remove_leak};
pub use verify::LeakReport;
pub(crate) use verify::{leak_fault, verify_sandbox};
