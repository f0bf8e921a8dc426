//! The configuration as written by the user.

use std::{collections::BTreeMap, path::PathBuf};

use proctor_types::{
    Budget, CacheSettings, EndpointRates, GradingSettings, LeakCheckSpec, ModelSpec, NetworkPolicy,
    RecordedConfig, RepositorySettings, ResumeSettings, SandboxSpec, StatementSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Keys of a run configuration. An unknown key is an error that suggests the nearest known key.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Another configuration to build on: a file, or a built-in one such as `demo`
    /// (`docs/reference/configuration.md`). Tables merge, arms merge by name, and other values
    /// replace the base's values.
    #[serde(default, skip_serializing)]
    #[schemars(length(min = 1), example = &"common.toml")]
    pub base: Option<PathBuf>,
    /// Files or globs of tasks and recipes, or Hugging Face datasets (`docs/reference/datasets.md`).
    #[schemars(example = vec!["tasks.jsonl"])]
    pub tasks: Vec<String>,
    /// Number of times that each arm runs each task.
    #[serde(default = "default_attempts")]
    #[schemars(range(min = 1, max = 10_000), example = 1)]
    pub attempts: u32,
    /// Number of parallel trials. Not a factor.
    #[serde(default = "default_jobs")]
    #[schemars(range(min = 1, max = 10_000), example = 2)]
    pub jobs: usize,
    /// Limits of each sandbox.
    #[serde(default)]
    pub sandbox: SandboxSpec,
    /// Network access of each sandbox.
    #[serde(default)]
    pub network: NetworkPolicy,
    /// Search for copies of the hidden solution before an agent starts.
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    /// Which parts of a task the agent sees.
    #[serde(default)]
    pub statement: StatementSpec,
    /// Limits of each trial. A missing key means no limit.
    #[serde(default)]
    pub budget: Budget,
    /// The arms to compare. Not required if a `[matrix]` crosses `scaffold`.
    pub arms: Vec<ArmFile>,
    /// Factors to cross: dotted keys of an arm, each with a list of values. Every combination
    /// becomes an arm (see below).
    #[serde(default, skip_serializing)]
    #[schemars(example = serde_json::json!({ "budget.steps": [50, 100] }))]
    pub matrix: Map<String, Value>,
    /// Models, under names that you choose.
    #[serde(default)]
    pub models: BTreeMap<String, ModelSpec>,
    /// How patches are graded. Not a factor.
    #[serde(default)]
    pub grading: GradingSettings,
    /// Limits on the state to keep so that a trial can be resumed (`docs/concepts/runs.md`). Not a factor.
    #[serde(default, skip_serializing_if = "ResumeSettings::is_default")]
    pub resume: ResumeSettings,
    /// Limits on the files that a machine keeps between runs. Not a factor.
    #[serde(default, skip_serializing_if = "CacheSettings::is_default")]
    pub cache: CacheSettings,
    /// Rate limits shared by all trials, under names that you choose. Without them, Proctor learns
    /// limits from rejections. Not a factor.
    #[serde(default)]
    pub endpoints: BTreeMap<String, EndpointRates>,
}

impl ConfigFile {
    /// Returns the configuration in the form stored in `run.json`.
    ///
    /// # Errors
    /// Fails if a path is not UTF-8.
    pub fn to_record(&self) -> Result<RecordedConfig, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(self)?)
    }

    /// Reads the configuration from a run's record.
    ///
    /// # Errors
    /// Fails if a key is missing, or if this version does not know a key.
    pub fn from_record(config: &RecordedConfig) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(config)?)
    }
}

/// One arm. Its `[sandbox]`, `[network]`, `[leak_check]`, `[statement]` and `[budget]` inherit every key that they do
/// not set.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmFile {
    /// Name in reports. Not a factor.
    #[schemars(length(min = 1), example = &"tools/my-model")]
    pub name: String,
    /// `tools`, `bash`, `single-shot`, `gold`, `noop` or `replay` (`docs/concepts/scaffolds.md`); a command-line agent such as
    /// `codex`, or the path of a manifest (`docs/reference/external.md`); `python:FILE.py:FUNCTION` for your own Python function
    /// (`docs/guides/python.md`); or `process`, `acp` or `mcp` for your own program (`docs/reference/host.md`).
    #[schemars(length(min = 1), example = &"tools")]
    pub scaffold: String,
    /// The Python interpreter of a `python:` scaffold: a path, or a name on `PATH`. The
    /// interpreter's version and packages are factors. Default: the interpreter that runs
    /// `proctor`, else `python3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = &".venv/bin/python")]
    pub interpreter: Option<PathBuf>,
    /// The scaffold's own options.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(example = serde_json::json!({ "reasoning_effort": "high" }))]
    pub settings: Map<String, Value>,
    /// The name of a table in `[models]`.
    #[serde(default)]
    #[schemars(length(min = 1), example = &"NAME")]
    pub model: Option<String>,
    /// Whether the arm is a control: `proctor compare` lists pairs with a control under `controls`
    /// and does not correct other comparisons for them. `gold` and `noop` are always controls. Not
    /// a factor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub control: bool,
    /// Overrides keys in the top-level `[sandbox]` table.
    #[serde(default)]
    pub sandbox: SandboxSpec,
    /// Overrides keys in the top-level `[network]` table.
    #[serde(default)]
    pub network: NetworkPolicy,
    /// Overrides keys in the top-level `[leak_check]` table.
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    /// Overrides keys in the top-level `[statement]` table.
    #[serde(default)]
    pub statement: StatementSpec,
    /// Overrides keys in the top-level `[budget]` table.
    #[serde(default)]
    pub budget: Budget,
    /// A folder of prompts that replace the scaffold's own, file by file
    /// (`docs/reference/prompts.md`). The folder's content is a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = &"my-prompts")]
    pub prompts: Option<PathBuf>,
    /// How to treat the agent's settings files in the task's repository, such as
    /// `.claude/settings.json` (`docs/reference/external.md`). Only for command-line agents.
    #[serde(default, skip_serializing_if = "RepositorySettings::is_ignore")]
    #[schemars(example = RepositorySettings::Use)]
    pub repository_settings: RepositorySettings,
    /// The `trajectory.jsonl` for the `replay` scaffold. The file's content is a factor.
    #[serde(default)]
    #[schemars(length(min = 1), example = &"RUN/trials/.../trajectory.jsonl")]
    pub replay: Option<PathBuf>,
}

/// Returns an arm that consists only of a scaffold, in the given sandbox.
pub fn plain_arm(scaffold: &str, sandbox: &SandboxSpec) -> ArmFile {
    ArmFile {
        name: scaffold.to_owned(),
        scaffold: scaffold.to_owned(),
        interpreter: None,
        settings: Map::new(),
        model: None,
        control: false,
        sandbox: sandbox.clone(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        statement: StatementSpec::default(),
        budget: Budget::default(),
        prompts: None,
        repository_settings: RepositorySettings::default(),
        replay: None,
    }
}

/// Returns a configuration whose arms consist only of scaffolds.
pub fn plain_config(tasks: Vec<String>, sandbox: &SandboxSpec, arms: Vec<ArmFile>) -> ConfigFile {
    ConfigFile {
        base: None,
        tasks,
        attempts: 1,
        jobs: 1,
        arms,
        sandbox: sandbox.clone(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        statement: StatementSpec::default(),
        matrix: Map::new(),
        budget: Budget::default(),
        models: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        grading: GradingSettings::default(),
        resume: ResumeSettings::default(),
        cache: CacheSettings::default(),
    }
}

fn default_attempts() -> u32 {
    1
}

fn default_jobs() -> usize {
    2
}
