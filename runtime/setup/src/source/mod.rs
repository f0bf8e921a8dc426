//! Where code comes from: fetched once, checked, and kept by what it is.

mod digest;
mod fetch;
mod git;
mod releases;
mod unpack;

pub use fetch::Sources;
