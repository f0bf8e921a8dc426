//! Parts that any bundle may include in addition to its own packages. `configs/bundles/parts.toml`
//! lists them.

use proctor_types::from_toml;
use serde::Deserialize;

use crate::BundleError;

pub(crate) const PARTS_TOML: &str = include_str!("../../../configs/bundles/parts.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parts {
    pub(crate) patchelf: Patchelf,
    pub(crate) debian: Debian,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patchelf {
    pub(crate) version: String,
    pub(crate) sha256: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Debian {
    pub(crate) mirrors: Vec<String>,
    pub(crate) archive: String,
    pub(crate) packages: Vec<DebianPackage>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DebianPackage {
    pub(crate) part: Part,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) path: String,
    pub(crate) sha256: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Libraries that programs in a bundle may be linked against.
    Libraries,
    Shell,
    Certificates,
    Python,
}

impl Parts {
    pub(crate) fn read() -> Result<Self, BundleError> {
        from_toml(PARTS_TOML)
            .map_err(|error| BundleError::new(format!("configs/bundles/parts.toml: {error}")))
    }
}
