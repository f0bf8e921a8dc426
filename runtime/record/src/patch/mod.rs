//! Computes the patch between two trees, and lists the changes that the patch leaves out.

mod difference;
mod ignored;
mod policy;

pub use difference::{CollectedPatch, OmittedPath, collect_patch};
pub use policy::PatchPolicy;
