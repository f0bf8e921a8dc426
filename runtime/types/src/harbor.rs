//! Properties that only Harbor task folders have.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Environment;

/// The version of the rules for loading and grading Harbor folders.
pub const HARBOR_RULES_VERSION: &str = "harbor-0.26";

/// Harbor-specific properties of a task. The Harbor folder is the folder that contains the task's
/// file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Harbor {
    /// The folder's digest as Harbor computes it: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The work directory in `task.toml`. Default: the image's work directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Wall time limit of the agent in seconds. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_seconds: Option<f64>,
    /// Network access of the reference solution. For other agents, the arm's own network applies.
    #[serde(default)]
    pub agent_network: HarborNetwork,
    /// How the result is graded.
    #[serde(default)]
    pub verifier: HarborVerifier,
    /// Environment variables of `solution/solve.sh`. Absent if the folder has no solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution: Option<BTreeMap<String, String>>,
}

/// `[verifier]` in `task.toml`. The verifier's timeout is the task's `grade_seconds`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarborVerifier {
    /// Environment variables of `tests/test.sh`. `${NAME}` and `${NAME:-default}` refer to variables of this machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// User that runs `tests/test.sh`. Default: the image's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Network access of the verifier.
    #[serde(default)]
    pub network: HarborNetwork,
    /// Present if the verifier runs in a separate environment, which only receives artifacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separate: Option<HarborSeparate>,
}

/// The environment of a verifier that does not run in the agent's environment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarborSeparate {
    /// The environment to start from. Default: a fresh copy of the task's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Environment variables, which replace the task's variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory of commands. Default: the image's `WORKDIR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Paths of the agent's results that the verifier receives, absolute or relative to the agent's start directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Whether the verifier's image contains `/tests`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bundled: bool,
}

/// Network access during a phase of a Harbor task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HarborNetwork {
    /// All public addresses.
    #[default]
    Public,
    /// No network.
    NoNetwork,
    /// Only these hosts. `*.` before a name includes all of its subdomains.
    Allowlist(Vec<String>),
}
