//! Where code comes from: fetched once, checked, and kept by what it is.

mod digest;
mod fetch;
mod git;
mod releases;
mod unpack;

pub use digest::local_source;
pub use fetch::Sources;
