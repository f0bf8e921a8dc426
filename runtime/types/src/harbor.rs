//! A Harbor task folder's properties, beyond what every task has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Environment;

/// The rules by which Harbor folders are loaded and graded.
pub const HARBOR_RULES: &str = "harbor-0.26";

/// What only a Harbor task has. The folder itself is that of the task's file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Harbor {
    /// The digest of the folder, `sha256:` and 64 hex digits, as Harbor computes it.
    pub digest: String,
    /// The work directory that `task.toml` names. Absent: that of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Seconds that the agent may take, by the wall clock. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_seconds: Option<f64>,
    /// The network of the reference solution. An arm's own network counts for every other agent.
    #[serde(default)]
    pub agent_network: HarborNetwork,
    /// How the result is graded.
    #[serde(default)]
    pub verifier: HarborVerifier,
    /// Variables of `solution/solve.sh`. Absent where the folder has no solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution: Option<BTreeMap<String, String>>,
}

/// `[verifier]` of `task.toml`. Its timeout is the task's `grade_seconds`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarborVerifier {
    /// Variables of `tests/test.sh`. `${NAME}` and `${NAME:-default}` stand for variables of this machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Who runs `tests/test.sh`. Absent: the user of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it may reach.
    #[serde(default)]
    pub network: HarborNetwork,
    /// Present where it runs in an environment of its own, to which only artifacts come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separate: Option<HarborSeparate>,
}

/// The environment of a verifier that is not the agent's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarborSeparate {
    /// What it starts from. Absent: a fresh copy of the task's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Its variables, in place of those of the task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where commands start. Absent: the image's `WORKDIR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// What comes to it of the agent's result, by path: absolute, or relative to where the agent started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Its image holds `/tests`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bundled: bool,
}

/// What a phase of a Harbor task may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HarborNetwork {
    /// Every public address.
    #[default]
    Public,
    /// Nothing.
    NoNetwork,
    /// These hosts: names, and `*.` before a name for every name below it.
    Allowlist(Vec<String>),
}
