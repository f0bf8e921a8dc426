use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// A regular expression over single lines; null lists files.
    pub(crate) pattern: Option<String>,
    /// Only files that match, such as `*.py` or `src/**/test_*.py`.
    pub(crate) glob: Option<String>,
    /// The folder or file to search; null for the whole repository.
    pub(crate) path: Option<String>,
    /// Ignore upper and lower case.
    pub(crate) ignore_case: Option<bool>,
}
