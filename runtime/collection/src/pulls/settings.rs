//! The settings in `configs/tables/pulls.toml`.

use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::Deserialize;

pub(super) const SETTINGS_TOML: &str = include_str!("../../../../configs/tables/pulls.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PullSettings {
    pub(super) version: u32,
    pub(super) filters: Filters,
    pub(super) fast_validation: FastValidationSettings,
    pub(super) intent: IntentSettings,
    pub(super) lite: LiteSettings,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filters {
    pub(super) share: f64,
    pub(super) tokens: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FastValidationSettings {
    pub(super) candidates: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntentSettings {
    pub(super) feature_types: Vec<String>,
    pub(super) other_types: Vec<String>,
    pub(super) feature_labels: Vec<String>,
    pub(super) other_labels: Vec<String>,
    pub(super) feature_words: Vec<String>,
    pub(super) other_words: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiteSettings {
    pub(super) words: usize,
    pub(super) files: usize,
    pub(super) hunks: usize,
    pub(super) tokens: usize,
    pub(super) functions: usize,
}

impl PullSettings {
    /// Returns the built-in settings.
    ///
    /// # Errors
    /// Fails if the built-in file is invalid.
    pub(super) fn get() -> Result<&'static Self, Fault> {
        static SETTINGS: ShippedTable<PullSettings> =
            ShippedTable::new("tables/pulls.toml", SETTINGS_TOML);
        SETTINGS.get().map_err(|error| Fault::new(FaultLayer::Environment, error))
    }
}
