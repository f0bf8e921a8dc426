//! The thresholds and sign patterns in `configs/tables/task-quality.toml`.

use proctor_types::ShippedTable;
use regex::Regex;
use serde::Deserialize;

/// The contents of `configs/tables/task-quality.toml`, which explains the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub leak: LeakSettings,
    pub duplicates: DuplicateSettings,
    network: SignPatterns,
    date: SignPatterns,
    pub limits: SignLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeakSettings {
    pub words: usize,
    pub least_runs: usize,
    pub marks: f64,
    pub interface: Vec<String>,
    pub docstrings: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DuplicateSettings {
    pub share: f64,
    pub least_runs: usize,
    pub asked: Vec<String>,
    pub asked_below: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignPatterns {
    signs: Vec<String>,
    unless: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignLimits {
    pub signs: usize,
    pub shown: usize,
    pub file_bytes: usize,
}

/// The compiled patterns for one kind of sign.
pub(crate) struct SignRules {
    pub signs: Vec<Regex>,
    pub exclusions: Vec<Regex>,
}

static SETTINGS: ShippedTable<Settings> = ShippedTable::new(
    "tables/task-quality.toml",
    include_str!("../../../../configs/tables/task-quality.toml"),
);

impl Settings {
    pub(crate) fn get() -> Result<&'static Self, String> {
        SETTINGS.get()
    }

    pub(crate) fn network_rules(&self) -> Result<SignRules, String> {
        self.network.compile()
    }

    pub(crate) fn date_rules(&self) -> Result<SignRules, String> {
        self.date.compile()
    }
}

impl SignPatterns {
    fn compile(&self) -> Result<SignRules, String> {
        let all = |patterns: &[String]| -> Result<Vec<Regex>, String> {
            let wrong = |error| format!("configs/tables/task-quality.toml: {error}");
            patterns.iter().map(|pattern| Regex::new(pattern).map_err(wrong)).collect()
        };
        Ok(SignRules { signs: all(&self.signs)?, exclusions: all(&self.unless)? })
    }
}
