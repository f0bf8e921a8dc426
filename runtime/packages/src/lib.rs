//! Downloads packages from public registries. Uses the settings of this machine (pip's index, npm's
//! registry). The caller verifies each download against its own checksum.

mod http;
mod npm;
mod pip_settings;
mod pypi;

pub use http::Http;
pub use npm::{Npm, NpmRelease};
pub use pypi::{IndexFile, Pypi};
