//! Packages of public registries, fetched as this machine's own settings say: the index of pip, the registry of
//! npm. What is fetched is checked by its caller, against a checksum that the caller brings.

mod http;
mod npm;
mod pip_settings;
mod pypi;

pub use http::Http;
pub use npm::{Npm, NpmRelease};
pub use pypi::{Offer, Pypi};
