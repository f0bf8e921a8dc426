//! Downloads packages from public registries, with this machine's settings (pip's index, npm's
//! registry). The caller verifies each download against a checksum.

mod http;
mod npm;
mod pip_settings;
mod pypi;

pub use http::HttpClient;
pub use npm::{Npm, NpmRelease};
pub use pypi::{IndexFile, Pypi};
