//! The patch between two trees, and what of them is left out of it.

mod difference;
mod ignored;
mod policy;

pub use difference::{Collected, LeftOut, between};
pub use policy::PatchPolicy;
