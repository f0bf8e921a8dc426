//! Optional parts of a task that the agent receives in addition to the work to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table `[statement]` of a configuration: which parts of the statement the agent sees. It is a
/// factor of the arm, but does not change the task, its id or its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StatementSpec {
    /// Whether the statement includes its interfaces section: the signatures of the code to write (FeatureBench, whose
    /// `--without` omits them; FEA-Bench's definitions).
    #[schemars(example = false)]
    pub interfaces: bool,
    /// Whether the agent can see the fail-to-pass test files. These files stay in place, and the
    /// statement names them (FeatureBench's `--white`).
    #[schemars(example = true)]
    pub tests: bool,
    /// Whether the statement includes what issues say about the request (FEA-Bench's hints).
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
    /// Whether this is the default, in which case Serde omits the key. Arms planned before this
    /// factor existed therefore keep their ids.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
