//! The configuration of a run, as stored in `run.json`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{CacheSettings, EndpointRates, GradingSettings, ModelSpec, ResumeSettings};

/// The version of [`RecordedConfig`]. Increment it with each key or value that older versions of
/// Proctor would reject or misread. Proctor reads all versions up to its own and rejects later
/// ones.
///
/// 1. `run.json` has no version.
/// 2. Adds `[cache]`.
pub const CONFIG_VERSION: u32 = 2;

/// The version of a `run.json` without `config_version`.
pub(crate) fn default_config_version() -> u32 {
    1
}

/// The resolved configuration of a run. Its named fields are the keys that later commands use. All
/// other keys are kept unchanged. Absent keys have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedConfig {
    /// All other keys, which are serialized first, as in a configuration.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The arms as configured. `RunRecord::arms` has the resolved arms.
    pub arms: Vec<RecordedArm>,
    /// Models by the name that arms use.
    pub models: BTreeMap<String, ModelSpec>,
    /// How patches are graded.
    pub grading: GradingSettings,
    /// Limits on the state that is kept for resuming a trial.
    #[serde(skip_serializing_if = "ResumeSettings::is_default")]
    pub resume: ResumeSettings,
    /// Limits on the files that a machine keeps between runs.
    #[serde(skip_serializing_if = "CacheSettings::is_default")]
    pub cache: CacheSettings,
    /// Rate limits, by table name.
    pub endpoints: BTreeMap<String, EndpointRates>,
}

impl RecordedConfig {
    /// Whether the arm uses the model with this name.
    pub fn uses_model(&self, arm: &str, model: &str) -> bool {
        self.arms.iter().any(|one| one.name == arm && one.model.as_deref() == Some(model))
    }
}

/// An arm as configured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedArm {
    /// The arm's name.
    pub name: String,
    /// The scaffold's name, or the path of its manifest or function. The resolved arm always has a
    /// name.
    pub scaffold: String,
    /// The Python interpreter that runs the arm's function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<PathBuf>,
    /// Scaffold-specific settings. In the resolved arm, files are identified by their content.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// The name of the arm's model in the configuration.
    pub model: Option<String>,
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The trajectory that the arm replays. The resolved arm identifies it by its content.
    pub replay: Option<PathBuf>,
}

/// Deserializes a configuration. `null` becomes an empty configuration.
pub(crate) fn deserialize_or_default<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<RecordedConfig, D::Error> {
    Option::<RecordedConfig>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_config_keeps_unknown_keys_and_their_order() {
        let written = json!({
            "tasks": ["a.jsonl"], "attempts": 2, "later": { "key": 0.1 },
            "arms": [{ "name": "a", "scaffold": "tools", "model": "m", "later": [1], "replay": null }],
            "models": { "m": { "base_url": "http://h/v1", "name": "n", "temperature": 0.7 } },
            "grading": { "flaky": "vote", "cpus": 2.0 }, "cache": { "images_mb": 7 },
            "endpoints": { "e": { "base_url": "http://h/v1", "max_concurrent": 3 } },
        });
        let config: RecordedConfig = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(config.cache.images_mb, Some(7));
        assert_eq!(config.other["later"], json!({ "key": 0.1 }));
        assert!(config.uses_model("a", "m") && !config.uses_model("a", "n"));
        let again = serde_json::to_string(&config).unwrap();
        assert_eq!(again, written.to_string());
    }

    #[test]
    fn recorded_config_of_null_has_defaults() {
        assert_eq!(deserialize_or_default(Value::Null).unwrap(), RecordedConfig::default());
    }
}
