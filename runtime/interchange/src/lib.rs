//! Trials in the forms that other tools read, and what each form cannot hold.
//!
//! No I/O: whoever calls has read the journal and the patch. `docs/export.md` is its page.

mod atif;
mod conversation;
mod fidelity;
mod predictions;
mod trial;

pub use atif::trajectory;
pub use fidelity::{Fidelity, LeftOut};
pub use predictions::prediction;
pub use trial::{Format, Trial};
