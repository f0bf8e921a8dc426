//! Tests of Harbor folders against Harbor's own package.

mod configs;
mod digests;
mod lint;
