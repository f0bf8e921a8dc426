//! Whether a task's repository may configure an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `repository_settings` of an arm: how to handle an agent's own settings files in the task's repository.
///
/// Such files hold permissions, hooks, limits and MCP servers (`.claude/settings.json`, `opencode.json`). Knowledge
/// files such as `AGENTS.md` stay visible in both cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepositorySettings {
    /// Hide the repository's settings files from the agent.
    #[default]
    Ignore,
    /// Let the agent read the repository's settings files as it would outside Proctor.
    Use,
}

impl RepositorySettings {
    /// The key in the settings of an arm.
    pub const KEY: &'static str = "repository_settings";

    /// Whether this is the default, in which case Serde omits the key. Arms planned before the key
    /// existed therefore keep their ids.
    pub fn is_ignore(&self) -> bool {
        *self == Self::Ignore
    }

    /// Returns the name used in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Use => "use",
        }
    }
}
