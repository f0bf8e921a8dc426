//! The settings in `configs/tables/collection.toml`.

use std::collections::BTreeMap;

use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::{Deserialize, Serialize};

pub(crate) const SETTINGS_TOML: &str = include_str!("../../../../configs/tables/collection.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) version: u32,
    pub(crate) environment: EnvironmentSettings,
    pub(crate) runs: RunSettings,
    pub(crate) layout: Layout,
    pub(crate) tops: TopSelectionSettings,
    pub(crate) pass_to_pass: PassSettings,
    pub(crate) take_away: RemovalSettings,
    pub(crate) idle: IdleSettings,
    pub(crate) solvability: SolvabilitySettings,
    pub(crate) minima: Minima,
    pub(crate) lite: LiteSettings,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvironmentSettings {
    pub(crate) pytest: Vec<String>,
    pub(crate) pythons: Vec<String>,
    pub(crate) extras: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) requirements: Vec<String>,
    pub(crate) left_out: Vec<String>,
    pub(crate) for_rows: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) modules: BTreeMap<String, String>,
    pub(crate) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSettings {
    pub(crate) arguments: Vec<String>,
    pub(crate) plugin_arguments: BTreeMap<String, Vec<String>>,
    pub(crate) test_seconds: f64,
    pub(crate) file_seconds: f64,
    pub(crate) seconds: f64,
    pub(crate) restarts: usize,
    pub(crate) memory_mb: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    pub(crate) outside: Vec<String>,
    pub(crate) not_modules: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopSelectionSettings {
    pub(crate) depth: usize,
    pub(crate) threshold: f64,
    pub(crate) affinity: f64,
    pub(crate) direct: f64,
    pub(crate) asserted: f64,
    pub(crate) first_level: f64,
    pub(crate) helper: f64,
    pub(crate) frequent: f64,
    pub(crate) everywhere: f64,
    pub(crate) helper_words: Vec<String>,
    pub(crate) model: ModelSettings,
}

/// Settings for asking a model which objects a file tests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSettings {
    pub(crate) batch: usize,
    pub(crate) at_once: usize,
    pub(crate) attempts: usize,
}

/// How to choose the other test files whose tests must still pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Every other test file.
    All,
    /// Test files that reach none of the removed tops.
    Least,
    /// A random sample.
    Random,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassSettings {
    pub(crate) policies: Vec<Policy>,
    pub(crate) files: usize,
    pub(crate) fewest: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovalSettings {
    pub(crate) lines: [usize; 2],
    pub(crate) never: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) halvings: usize,
}

/// Values, besides `None`, that the functions in stub solutions return.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdleSettings {
    pub(crate) returns: Vec<String>,
}

/// Limits for the strings that tests require, and for the examples in the statement. Lengths are in
/// characters.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SolvabilitySettings {
    pub(crate) shortest: usize,
    pub(crate) shortest_expected: usize,
    pub(crate) longest: usize,
    pub(crate) texts: usize,
    pub(crate) examples: usize,
    pub(crate) fewest_examples: usize,
    pub(crate) all_examples: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Minima {
    pub(crate) lines: usize,
    pub(crate) points: usize,
    pub(crate) files: usize,
    pub(crate) pass_rate: f64,
}

/// The size of the lite set.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LiteSettings {
    pub(crate) share: f64,
    pub(crate) fewest: usize,
    pub(crate) most: usize,
}

impl Settings {
    /// Returns the built-in settings.
    ///
    /// # Errors
    /// Fails if the built-in file is invalid.
    pub(crate) fn get() -> Result<&'static Self, Fault> {
        static SETTINGS: ShippedTable<Settings> =
            ShippedTable::new("tables/collection.toml", SETTINGS_TOML);
        SETTINGS.get().map_err(|error| Fault::new(FaultLayer::Environment, error))
    }
}
