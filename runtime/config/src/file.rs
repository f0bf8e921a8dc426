//! The configuration as written by the user.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proctor_types::{
    Budget, CacheFile, EndpointRates, GradingFile, LeakCheckSpec, ModelSpec, NetworkPolicy,
    RecordedConfig, RepositorySettings, ResumeFile, SandboxSpec, StatementSpec, one_line,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ConfigSource, Extent, UserError, check_keys, matrix, paths};

/// Keys of a run configuration. An unknown key is an error that suggests the nearest known key.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Another configuration to build on (`docs/configuration.md`). Tables merge, arms merge by
    /// name, and other values replace those of the base.
    #[serde(default, skip_serializing)]
    #[schemars(length(min = 1), example = &"common.toml")]
    pub base: Option<PathBuf>,
    /// Files or globs of tasks and recipes, or Hugging Face datasets (`docs/datasets.md`).
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
    pub grading: GradingFile,
    /// Limits on the state to keep so that a trial can be resumed (`docs/survival.md`). Not a factor.
    #[serde(default, skip_serializing_if = "ResumeFile::is_default")]
    pub resume: ResumeFile,
    /// Limits on the files that a machine keeps between runs. Not a factor.
    #[serde(default, skip_serializing_if = "CacheFile::is_default")]
    pub cache: CacheFile,
    /// Rate limits shared by all trials, under names that you choose. Without them, limits are learned from rejections.
    /// Not a factor.
    #[serde(default)]
    pub endpoints: BTreeMap<String, EndpointRates>,
}

impl ConfigFile {
    /// Returns the configuration in the form stored in `run.json`.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn to_record(&self) -> Result<RecordedConfig, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(self)?)
    }

    /// Reads the configuration from a run's record.
    ///
    /// # Errors
    /// A key is missing or unknown to this version.
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
    /// `tools`, `bash`, `single-shot`, `gold`, `noop` or `replay` (`docs/scaffolds.md`); a command-line agent such as
    /// `codex`, or the path of a manifest (`docs/external.md`); `python:FILE.py:FUNCTION` for your own Python function
    /// (`docs/python.md`); or `process`, `acp` or `mcp` for your own program (`docs/host.md`).
    #[schemars(length(min = 1), example = &"tools")]
    pub scaffold: String,
    /// The Python interpreter of a `python:` scaffold: a path, or a name on `PATH`. Its version and its packages are
    /// factors. Default: the interpreter that runs `proctor`, else `python3`.
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
    /// Whether the arm is a control: `proctor compare` lists its pairs under `controls` and does not correct other
    /// comparisons for them. `gold` and `noop` are always controls. Not a factor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub control: bool,
    /// Overrides keys of the top-level `[sandbox]` table.
    #[serde(default)]
    pub sandbox: SandboxSpec,
    /// Overrides keys of the top-level `[network]` table.
    #[serde(default)]
    pub network: NetworkPolicy,
    /// Overrides keys of the top-level `[leak_check]` table.
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    /// Overrides keys of the top-level `[statement]` table.
    #[serde(default)]
    pub statement: StatementSpec,
    /// Overrides keys of the top-level `[budget]` table.
    #[serde(default)]
    pub budget: Budget,
    /// A folder of texts that replace the scaffold's own, file by file (`docs/prompts.md`). Its content is a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = &"my-prompts")]
    pub prompts: Option<PathBuf>,
    /// How to treat the agent's settings files in the task's repository, such as
    /// `.claude/settings.json` (`docs/external.md`). Only for command-line agents.
    #[serde(default, skip_serializing_if = "RepositorySettings::is_ignore")]
    #[schemars(example = RepositorySettings::Use)]
    pub repository_settings: RepositorySettings,
    /// The `trajectory.jsonl` for the `replay` scaffold. Its content is a factor.
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
        grading: GradingFile::default(),
        resume: ResumeFile::default(),
        cache: CacheFile::default(),
    }
}

fn default_attempts() -> u32 {
    1
}

fn default_jobs() -> usize {
    2
}

/// The tables that an arm inherits from the top of the file.
const INHERITED: [&str; 5] = ["sandbox", "network", "leak_check", "statement", "budget"];

/// Reads a file, applies the `--set` values, and checks every key as written.
pub fn read(path: &Path, sets: &[String]) -> Result<(ConfigFile, ConfigSource), UserError> {
    let mut written = ConfigSource::read(path, sets)?;
    let mut table = written.table().clone();
    if table.contains_key("matrix") {
        // The matrix may create all arms.
        table.entry("arms").or_insert_with(|| toml::Value::Array(Vec::new()));
    }
    check_keys(&table, Extent::Whole).map_err(|problem| written.problem_error(&problem))?;
    let crossed =
        matrix::cross(&mut table, &written).map_err(|problem| written.problem_error(&problem))?;
    written.set_matrix_origins(crossed);
    check_keys(&table, Extent::Whole).map_err(|problem| written.problem_error(&problem))?;
    inherit_tables(&mut table);
    let mut file = config_from_table(&table)
        .map_err(|why| UserError::new(one_line(&format!("{}: {why}", path.display()))))?;
    paths::resolve_paths(&mut file, path, &written);
    Ok((file, written))
}

/// Reads a table whose keys were already checked against the schema. An error here is a gap in
/// that check, so it is reported with its key.
pub fn config_from_table(table: &toml::Table) -> Result<ConfigFile, String> {
    let value = serde_json::to_value(table).map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(value)
        .map_err(|error| format!("key `{}`: {}", error.path(), error.inner()))
}

/// Merges each arm's tables over the file's top-level tables.
fn inherit_tables(table: &mut toml::Table) {
    let top: Vec<_> = INHERITED
        .iter()
        .filter_map(|name| table.get(*name).map(|value| (*name, value.clone())))
        .collect();
    let Some(arms) = table.get_mut("arms").and_then(toml::Value::as_array_mut) else { return };
    for arm in arms.iter_mut().filter_map(toml::Value::as_table_mut) {
        for (name, inherited) in &top {
            let mut merged = inherited.clone();
            if let (Some(own), Some(merged)) = (arm.get(*name), merged.as_table_mut()) {
                for (key, value) in own.as_table().into_iter().flatten() {
                    merged.insert(key.clone(), value.clone());
                }
            }
            arm.insert((*name).to_owned(), merged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, sets: &[&str]) -> Result<ConfigFile, UserError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        read(file.path(), &sets).map(|(config, _)| config)
    }

    const SMALL: &str = "tasks = []\n[budget]\nsteps = 5\ncost_usd = 1.5\n\
        [[arms]]\nname = \"a\"\nscaffold = \"noop\"\n[arms.budget]\nsteps = 9\n";

    #[test]
    fn arms_inherit_keys_that_they_do_not_set() {
        let config = read_text(SMALL, &[]).unwrap();
        assert_eq!(config.arms[0].budget.steps, Some(9));
        assert_eq!(config.arms[0].budget.cost_usd, Some(1.5));
    }

    #[test]
    fn shared_limits_and_endpoints_are_checked_like_all_keys() {
        let small = SMALL.replace("[[arms]]", "[budget.run]\ncost_usd = 50\n[[arms]]");
        let config = read_text(&small, &["budget.arm.steps=7"]).unwrap();
        let limits = &config.arms[0].budget;
        assert_eq!(limits.run.and_then(|run| run.cost_usd), Some(50.0));
        assert_eq!(limits.arm.and_then(|arm| arm.steps), Some(7));
        for (text, near) in [
            ("[budget.run]\ncost = 1", "cost_usd"),
            ("[endpoints.a]\nbase_url = 'http://h'\nmax_concurent = 1", "max_concurrent"),
            ("[budget]\ndisclosure = 'count_down'", "countdown"),
        ] {
            let error = read_text(&format!("tasks = []\narms = []\n{text}\n"), &[]).unwrap_err();
            let hint = error.hint.unwrap();
            assert!(hint.starts_with(&format!("did you mean `{near}`?")), "{hint}");
        }
    }

    #[test]
    fn set_reaches_tables_arms_and_plain_text() {
        let sets = ["budget.cost_usd=3", "arms.0.name=b", "sandbox.kind=docker"];
        let config = read_text(SMALL, &sets).unwrap();
        assert_eq!(config.arms[0].name, "b");
        assert_eq!(config.arms[0].budget.cost_usd, Some(3.0));
        assert_eq!(config.arms[0].sandbox.kind, proctor_types::SandboxKind::Docker);
    }

    #[test]
    fn renamed_key_is_reported_with_its_new_name() {
        const OLD: &str = "seal";
        let lines = format!("[{OLD}]\non_finding = 'remove'\n");
        for text in [
            format!("{SMALL}[arms.{OLD}]\n"),
            SMALL.replace("[budget]", &format!("{lines}[budget]")),
        ] {
            let error = read_text(&text, &[]).unwrap_err();
            assert!(error.what.contains(OLD) && error.what.contains("renamed to `leak_check`"));
            assert!(error.hint.unwrap().contains("its keys have not changed"));
        }
        let error = read_text(SMALL, &[&format!("{OLD}.on_finding=remove")]).unwrap_err();
        let told = format!("--set: key `{OLD}`: renamed to `leak_check`");
        assert!(error.what.starts_with(&told), "{error}");
    }

    #[test]
    fn unknown_key_suggests_the_nearest() {
        let error = read_text("tasks = []\narms = []\n[budget]\nstep = 1\n", &[]).unwrap_err();
        assert!(error.what.contains("budget"), "{}", error.what);
        assert!(error.hint.unwrap().starts_with("did you mean `steps`?"));
    }
}
