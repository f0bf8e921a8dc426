//! Which parts of a task an agent is told besides the work to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[statement]`: a factor of the arm. The task, its id and its tests stay what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StatementSpec {
    /// Whether the statement keeps its interfaces section: the signatures of the code to write (FeatureBench, whose
    /// `--without` omits them; FEA-Bench's definitions).
    #[schemars(example = false)]
    pub interfaces: bool,
    /// Whether the agent can see the fail-to-pass test files. They stay in place, and the statement names them
    /// (FeatureBench's `--white`).
    #[schemars(example = true)]
    pub tests: bool,
    /// Whether the statement is followed by what issues say about the request (FEA-Bench's hints).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub hints: bool,
}

impl Default for StatementSpec {
    fn default() -> Self {
        Self { interfaces: true, tests: false, hints: false }
    }
}

impl StatementSpec {
    /// Whether it is the default, so that arms from before this factor stay the same.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}
