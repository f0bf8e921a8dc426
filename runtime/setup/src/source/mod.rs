//! Source code of tasks. Each source is fetched once, verified, and cached by content.

mod digest;
mod faults;
mod fetch;
mod git;
mod releases;
mod unpack;

pub use digest::local_source_digest;
pub use fetch::Sources;
