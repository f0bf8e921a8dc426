//! The patch between two trees, and what it leaves out.

mod difference;
mod ignored;
mod policy;

pub use difference::{Collected, LeftOut, between};
pub use policy::PatchPolicy;
