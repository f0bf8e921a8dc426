//! Trials in the forms that other tools read, and what each form cannot hold.
//!
//! No I/O: whoever calls has read the journal and the patch. `docs/export.md` is its page.

mod atif;
mod conversation;
mod fidelity;
mod inspect;
mod mini;
mod moment;
mod otel;
mod predictions;
mod rollouts;
mod swe_agent;
mod trial;

pub use atif::trajectory;
pub use fidelity::{Fidelity, LeftOut};
pub use inspect::{Log, sample};
pub use mini::mini;
pub use otel::spans;
pub use predictions::prediction;
pub use rollouts::rollout;
pub use swe_agent::swe_agent;
pub use trial::{Format, Trial};
