//! Reads `configs/tables/mirrors.toml` once.

use proctor_types::ShippedTable;
use serde::Deserialize;

const MIRRORS_TOML: &str = include_str!("../../../configs/tables/mirrors.toml");

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mirrors {
    pub(crate) source: Vec<String>,
    pub(crate) forks: Vec<String>,
    pub(crate) pages: Vec<String>,
    pub(crate) documentation: Vec<String>,
    pub(crate) benchmarks: Vec<String>,
    pub(crate) forges: Vec<String>,
    pub(crate) indexes: Vec<String>,
    pub(crate) index_words: Vec<String>,
    pub(crate) files: PackageFiles,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackageFiles {
    pub(crate) prefixes: Vec<String>,
    pub(crate) suffixes: Vec<String>,
}

static MIRRORS: ShippedTable<Mirrors> = ShippedTable::new("tables/mirrors.toml", MIRRORS_TOML);

impl Mirrors {
    /// Returns the built-in lists. Fails if they cannot be read, because empty lists would block
    /// nothing.
    pub(crate) fn shipped() -> Result<&'static Self, String> {
        MIRRORS.get()
    }
}
