use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellArguments {
    /// The command line.
    pub(crate) command: String,
    /// Seconds after which the command is killed; null for the longest allowed.
    pub(crate) timeout: Option<u64>,
}
