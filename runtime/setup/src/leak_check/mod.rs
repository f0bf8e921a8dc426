//! The leak check: ensures that nothing in a sandbox reveals a task's hidden content.

mod around;
mod bundles;
mod layer;
mod leak;
mod names;
mod policy;
mod secrets;
mod sides;
mod verify;

pub use bundles::{BundleCopy, bundle_copies};
pub use layer::{LayerFindings, ToolFiles, Unseen, WorkdirFindings};
pub use leak::{Leak, LeakKind};
pub(crate) use policy::LeakPolicy;
pub use verify::LeakReport;
pub(crate) use verify::{refusal, verify};
