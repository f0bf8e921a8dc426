//! The patch between two trees, and what it leaves out.

mod difference;
mod ignored;
mod policy;

pub use difference::{CollectedPatch, OmittedPath, collect_patch};
pub use policy::PatchPolicy;
