//! What a task's repository may tell an agent about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `repository_settings` of an arm: what happens to an agent's own settings files in the task's repository.
///
/// Such files hold permissions, hooks, limits and MCP servers (`.claude/settings.json`, `opencode.json`). Knowledge
/// files such as `AGENTS.md` stay visible in both cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepositorySettings {
    /// The agent does not see them.
    #[default]
    Ignore,
    /// The agent reads them as it would outside Proctor.
    Use,
}

impl RepositorySettings {
    /// The key that holds it among the settings of an arm.
    pub const KEY: &'static str = "repository_settings";

    /// Whether it is the default. Serde leaves the key out then, and arms that were planned before there was one keep
    /// their ids.
    pub fn is_ignore(&self) -> bool {
        *self == Self::Ignore
    }

    /// The name that configurations use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Use => "use",
        }
    }
}
