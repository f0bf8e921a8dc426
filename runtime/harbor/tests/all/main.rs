//! Compares Proctor's handling of Harbor folders with the results from Harbor's own package.

mod configs;
mod digests;
mod lint;
