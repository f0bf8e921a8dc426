//! The seal: nothing in a room tells what its task hides.

mod around;
mod hunks;
mod layer;
mod leak;
mod names;
mod policy;
mod secrets;
mod verify;

pub use layer::{LayerSeal, Unseen};
pub use leak::{Leak, LeakKind};
pub(crate) use policy::SealPolicy;
pub use verify::Sealed;
pub(crate) use verify::verify;
