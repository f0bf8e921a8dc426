//! Compares the handling of Harbor folders with Harbor's own package.

mod configs;
mod digests;
mod lint;
