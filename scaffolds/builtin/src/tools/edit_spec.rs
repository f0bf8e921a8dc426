use schemars::JsonSchema;
use serde::Deserialize;

/// A single flat object, although each command uses only some of the fields, because a root schema
/// must be an object. Models know these names from other harnesses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArguments {
    pub(crate) command: EditCommand,
    /// The file or folder; relative paths start at the repository.
    pub(crate) path: String,
    /// For view: the first and the last line, counted from 1; -1 as the last is the end.
    pub(crate) view_range: Option<Vec<i64>>,
    /// For create: the whole content.
    pub(crate) file_text: Option<String>,
    /// For replace: the exact text to be replaced, unique in the file.
    pub(crate) old_str: Option<String>,
    /// For replace: what takes its place; null or empty deletes.
    pub(crate) new_str: Option<String>,
    /// For insert: the line after which to insert; 0 is the top.
    pub(crate) insert_line: Option<u64>,
    /// For insert: the lines to insert.
    pub(crate) insert_text: Option<String>,
}

// Don't add doc comments to the variants: they would turn the plain `enum` into a `oneOf` of
// subschemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EditCommand {
    View,
    Create,
    Replace,
    Insert,
    Undo,
}
