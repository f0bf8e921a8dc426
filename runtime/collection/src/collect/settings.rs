//! Reads `configs/collection.toml`.

use std::collections::BTreeMap;

use proctor_types::{Fault, Layer, ShippedTable};
use serde::{Deserialize, Serialize};

pub(super) const TEXT: &str = include_str!("../../../../configs/collection.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) version: u32,
    pub(super) environment: EnvironmentSettings,
    pub(super) runs: RunSettings,
    pub(super) layout: Layout,
    pub(super) tops: TopSettings,
    pub(super) pass_to_pass: PassSettings,
    pub(super) take_away: TakeAway,
    pub(super) idle: IdleSettings,
    pub(super) solvability: SolvabilitySettings,
    pub(super) minima: Minima,
    pub(super) lite: LiteSettings,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentSettings {
    pub(super) pytest: Vec<String>,
    pub(super) pythons: Vec<String>,
    pub(super) extras: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) requirements: Vec<String>,
    pub(super) left_out: Vec<String>,
    pub(super) for_rows: Vec<String>,
    pub(super) rounds: usize,
    pub(super) modules: BTreeMap<String, String>,
    pub(super) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSettings {
    pub(super) arguments: Vec<String>,
    pub(super) plugin_arguments: BTreeMap<String, Vec<String>>,
    pub(super) test_seconds: f64,
    pub(super) file_seconds: f64,
    pub(super) seconds: f64,
    pub(super) restarts: usize,
    pub(super) memory_mb: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layout {
    pub(super) outside: Vec<String>,
    pub(super) not_modules: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopSettings {
    pub(super) depth: usize,
    pub(super) threshold: f64,
    pub(super) affinity: f64,
    pub(super) direct: f64,
    pub(super) asserted: f64,
    pub(super) first_level: f64,
    pub(super) helper: f64,
    pub(super) frequent: f64,
    pub(super) everywhere: f64,
    pub(super) helper_words: Vec<String>,
    pub(super) model: ModelSettings,
}

/// How a model is asked for the tops.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelSettings {
    pub(super) batch: usize,
    pub(super) at_once: usize,
    pub(super) attempts: usize,
}

/// Which other test files must still pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Every other test file.
    All,
    /// Those that share no top with the task's own.
    Least,
    /// Drawn with the seed.
    Random,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PassSettings {
    pub(super) policies: Vec<Policy>,
    pub(super) files: usize,
    pub(super) fewest: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TakeAway {
    pub(super) lines: [usize; 2],
    pub(super) never: Vec<String>,
    pub(super) rounds: usize,
    pub(super) halvings: usize,
}

/// Return values of solutions that do nothing, besides None.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdleSettings {
    pub(super) returns: Vec<String>,
}

/// Exact texts that tests require, in characters.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SolvabilitySettings {
    pub(super) shortest: usize,
    pub(super) longest: usize,
    pub(super) texts: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Minima {
    pub(super) lines: usize,
    pub(super) points: usize,
    pub(super) files: usize,
    pub(super) pass_rate: f64,
}

/// The number of tasks in the smaller set.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiteSettings {
    pub(super) share: f64,
    pub(super) fewest: usize,
    pub(super) most: usize,
}

impl Settings {
    /// # Errors
    /// The built-in file is invalid.
    pub(super) fn get() -> Result<&'static Self, Fault> {
        static READ: ShippedTable<Settings> = ShippedTable::new("collection.toml", TEXT);
        READ.get().map_err(|error| Fault::new(Layer::Environment, error))
    }
}
