//! The configuration as it is written.

use std::{collections::BTreeMap, path::Path};

use proctor_gateway::EndpointRates;
use proctor_types::{Budget, FlakePolicy, LeakCheckSpec, ModelSpec, NetworkPolicy, SandboxSpec};
use serde::{Deserialize, Serialize};

use crate::{
    config::{Extent, Written, paths, walk},
    error::UserError,
};

/// The keys of a run configuration. Unknown keys are errors that name the nearest known one.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Files or globs, relative to the configuration's folder or else to the current one.
    pub tasks: Vec<String>,
    #[serde(default = "one")]
    pub attempts: u32,
    /// Trials at once.
    #[serde(default = "two")]
    pub jobs: usize,
    #[serde(default)]
    pub sandbox: SandboxSpec,
    #[serde(default)]
    pub network: NetworkPolicy,
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    #[serde(default)]
    pub budget: Budget,
    pub arms: Vec<ArmFile>,
    #[serde(default)]
    pub models: BTreeMap<String, ModelSpec>,
    #[serde(default)]
    pub grading: GradingFile,
    /// Rate limits that all trials keep together, under names of the user's choice. Not a factor.
    #[serde(default)]
    pub endpoints: BTreeMap<String, EndpointRates>,
}

/// `[grading]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GradingFile {
    /// A flake certificate, as `proctor tasks validate --certificate` writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<std::path::PathBuf>,
    /// What to do about the tests that it calls unreliable.
    pub flaky: FlakePolicy,
    /// What all gradings at once may use; absent: what the machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
}

/// One arm. Its `[sandbox]`, `[network]`, `[leak_check]` and `[budget]` inherit every key that
/// they do not name.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ArmFile {
    pub name: String,
    pub scaffold: String,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub sandbox: SandboxSpec,
    #[serde(default)]
    pub network: NetworkPolicy,
    #[serde(default)]
    pub leak_check: LeakCheckSpec,
    #[serde(default)]
    pub budget: Budget,
    /// For the scaffold `replay`: the `trajectory.jsonl` to re-run.
    #[serde(default)]
    pub replay: Option<std::path::PathBuf>,
}

/// An arm that is only a scaffold, in the sandbox given.
pub fn plain_arm(scaffold: &str, sandbox: &SandboxSpec) -> ArmFile {
    ArmFile {
        name: scaffold.to_owned(),
        scaffold: scaffold.to_owned(),
        model: None,
        sandbox: sandbox.clone(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        budget: Budget::default(),
        replay: None,
    }
}

fn one() -> u32 {
    1
}

fn two() -> usize {
    2
}

/// The tables that an arm inherits from the top of the file.
const INHERITED: [&str; 4] = ["sandbox", "network", "leak_check", "budget"];

/// Reads a file, lays the `--set` values over it, and checks every key as it is written.
pub fn read(path: &Path, sets: &[String]) -> Result<(ConfigFile, Written), UserError> {
    let written = Written::read(path, sets)?;
    walk(written.table(), Extent::Whole).map_err(|problem| written.problem(&problem))?;
    let mut table = written.table().clone();
    inherit(&mut table);
    let read: Result<ConfigFile, _> = serde_path_to_error::deserialize(toml::Value::Table(table));
    // Every key was checked above; what is left is a gap between the table of keys and the
    // structures, which a test looks for.
    let mut file = read.map_err(|error| {
        let (key, why) = (error.path().to_string(), error.inner().message().to_owned());
        UserError::new(format!("{}: key `{key}`: {why}", path.display()))
    })?;
    paths::place(&mut file, path, &written);
    Ok((file, written))
}

/// Lays each arm's tables over the file's own.
fn inherit(table: &mut toml::Table) {
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
    fn arms_inherit_what_they_do_not_name() {
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
    fn an_unknown_key_names_the_nearest() {
        let error = read_text("tasks = []\narms = []\n[budget]\nstep = 1\n", &[]).unwrap_err();
        assert!(error.what.contains("budget"), "{}", error.what);
        assert!(error.hint.unwrap().starts_with("did you mean `steps`?"));
    }
}
