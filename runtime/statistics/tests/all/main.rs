//! Integration tests of the statistics crate, in one binary because linking is slow.

mod properties;
mod reference;
