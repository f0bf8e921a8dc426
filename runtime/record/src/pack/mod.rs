//! Stores a trial's own content in one file: small blobs, request bodies and manifests. Repeated
//! content is stored only once.

mod entry;
mod file;

pub(crate) use entry::Hash;
pub(crate) use file::{Pack, find_corrupt_entries};
