//! `benchmark.details`: what a benchmark's row contains beyond the task itself.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error},
};
use serde_json::{Map, Number, Value};

/// Fields of a row that the benchmark's official rules, grading or reports need.
///
/// Most fields are copied from third-party rows, so no value is rejected. A value of an unexpected
/// type is kept unchanged but not used, and unknown keys are kept in `other`. Deserializing a row
/// and serializing it again keeps its digest.
///
/// ```
/// use proctor_types::Details;
///
/// let row = r#"{"version":"4.3","difficulty":3,"language":"js"}"#;
/// let details: Details = serde_json::from_str(row).unwrap();
/// assert_eq!(details.version.non_empty_text(), Some("4.3"));
/// assert_eq!(details.difficulty.non_empty_text(), None, "a number is kept but is not text");
/// assert_eq!(details.other["language"], "js");
/// assert_eq!(serde_json::to_string(&details).unwrap(), row);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", default)]
pub struct Details {
    /// The commit of the repository that the task starts from.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub base_commit: DetailField<String>,
    /// The library's version. SWE-bench uses it to select test commands.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub version: DetailField<String>,
    /// The commit that the benchmark's image was built for. Unused.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub environment_setup_commit: DetailField<String>,
    /// When the pull request was opened, according to the row. This is the task's date if the task
    /// has no `created_at`.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub created_at: DetailField<String>,
    /// Difficulty according to the benchmark's authors (`<15 min fix`). Unused.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub difficulty: DetailField<String>,
    /// The number of the pull request; some rows store it as text. FEA-Bench's loader uses it to
    /// find commits.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub pull_number: DetailField<NumberOrText>,
    /// URL of the pull request. Unused.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub url: DetailField<String>,
    /// The pull request's changes outside Python files, as a diff.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub non_py_patch: DetailField<String>,

    /// The harness's own test command. If the value is a list, its last command is the test
    /// command. If the row has no test command, the benchmark's own procedure does not run, and
    /// only the strict policy grades the task.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub test_cmd: DetailField<Commands>,
    /// The harness's complete script, which checks out the tests and runs them (SWE-bench 5.x).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub eval_script: DetailField<String>,
    /// `fail_only` counts tests that are missing from the log as passed; `pass_and_fail` does not.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub eval_type: DetailField<String>,
    /// The log parser's name in the official policy.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub log_parser: DetailField<String>,
    /// Source code of a log parser. Proctor never runs it, so rows with such a parser have no
    /// official verdict.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub log_parser_code: DetailField<String>,
    /// Alias of `log_parser`, used if `log_parser` is absent (SWE-bench-Live).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub parser: DetailField<String>,
    /// SWE-rebench's settings for the repository, as an object or as JSON text.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub install_config: DetailField<InstallConfig>,

    /// Files that contain the tests, relative to `workdir`.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub test_files: DetailField<Vec<String>>,
    /// Arguments appended to `test_cmd`: files or modules. Empty for the whole suite.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub test_directives: DetailField<Vec<String>>,
    /// Files that contain the pass-to-pass tests (FeatureBench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub p2p_files: DetailField<Vec<String>>,
    /// Whether expected test ids name tests (`ids`) or whole files (`files`).
    #[serde(rename = "match", skip_serializing_if = "DetailField::is_absent")]
    pub matching: DetailField<String>,
    /// Whether the agent can see the fail-to-pass files (FeatureBench's `--white`).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub white: DetailField<bool>,
    /// Whether the row's test patch deletes the tests instead of adding them (FeatureBench, level 1).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub test_patch_deletes: DetailField<bool>,
    /// Time limit of each test file in seconds, above 0 (FeatureBench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub timeout_run: DetailField<Number>,
    /// Time limit of each test in whole seconds, passed to pytest's `--timeout`. 0 or less means no limit
    /// (FeatureBench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub timeout_one: DetailField<i64>,
    /// Whether the tests are started with `uv run` (FeatureBench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub use_uv: DetailField<bool>,
    /// The size of `/dev/shm` that the harness requests from Docker (`16g`). Unused.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub shm_size: DetailField<String>,
    /// Number of GPUs that the harness gives to a test run. Proctor does not provide GPUs.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub gpus: DetailField<u64>,
    /// The library that the feature belongs to (FeatureBench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub library_name: DetailField<String>,

    /// Number of functions that the gold patch adds. Reports group tasks by this number
    /// (FEA-Bench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub functions_added: DetailField<u64>,
    /// Number of classes that the gold patch adds (FEA-Bench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub classes_added: DetailField<u64>,
    /// The functions and classes that the gold patch adds. The benchmark shows them to the model
    /// (FEA-Bench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub new_components: DetailField<Vec<NewComponent>>,
    /// Discussion of the feature request, such as in issues (FEA-Bench).
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub discussion: DetailField<String>,
    /// Source of the patches in FEA-Bench's loader: `row`, `pull_request` or `commit`.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub problem_source: DetailField<String>,

    /// Short fields of the row that the dataset's shape does not use, under their original names.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub row: DetailField<Map<String, Value>>,
    /// Names of the row's fields that are too long to keep.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub row_left_out: DetailField<Vec<String>>,

    /// All other keys of a task, or of `[details]` in a user-defined shape.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl Details {
    /// Whether all fields are absent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for Details {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Details {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_details(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Not generic, because the compiler would otherwise instantiate this large code for every input
/// format.
fn deserialize_details(value: Value) -> Result<Details, serde_json::Error> {
    Details::deserialize(value)
}

impl From<BTreeMap<String, Value>> for Details {
    fn from(map: BTreeMap<String, Value>) -> Self {
        // No value is rejected, so deserializing cannot fail.
        serde_json::from_value(map.into_iter().collect()).unwrap_or_default()
    }
}

/// A function or class that a gold patch adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewComponent {
    /// Path of the file, relative to the repository.
    pub file: String,
    /// `function` or `class`.
    pub kind: String,
    /// Dotted name.
    pub name: String,
    /// Signature, on one line.
    pub signature: String,
    /// Docstring; may be empty.
    #[serde(default)]
    pub doc: String,
}

/// A field of [`Details`]: absent, of the expected type, or kept as in the row.
///
/// Deserializing never fails, and serializing restores the original value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum DetailField<T> {
    /// The row does not have the field.
    #[default]
    Absent,
    /// The value has the expected type.
    Typed(T),
    /// The value has another type, including `null`.
    Raw(Value),
}

impl<T> DetailField<T> {
    /// Returns the value if it has the expected type.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Typed(value) => Some(value),
            Self::Absent | Self::Raw(_) => None,
        }
    }

    /// Whether the row does not have the field.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl DetailField<String> {
    /// Returns the text, or `None` if it is missing, empty or of another type.
    pub fn non_empty_text(&self) -> Option<&str> {
        self.get().map(String::as_str).filter(|text| !text.is_empty())
    }
}

impl<T> From<T> for DetailField<T> {
    fn from(value: T) -> Self {
        Self::Typed(value)
    }
}

impl<T: Serialize> Serialize for DetailField<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_none(),
            Self::Typed(value) => value.serialize(serializer),
            Self::Raw(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for DetailField<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(T::deserialize(&value).map_or_else(|_| Self::Raw(value), Self::Typed))
    }
}

/// Uses the schema of the expected type, so that editors flag values that Proctor cannot use.
impl<T: JsonSchema> JsonSchema for DetailField<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// A number, as a JSON number or as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NumberOrText {
    /// A JSON number.
    Number(Number),
    /// A JSON string.
    Text(String),
}

impl std::fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// One or more command lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Commands {
    /// A shell line.
    One(String),
    /// Shell lines, run in this order.
    Several(Vec<String>),
}

/// SWE-rebench's `install_config`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InstallConfig {
    /// The settings themselves.
    Settings(InstallSettings),
    /// The settings as JSON text.
    JsonText(String),
}

/// The keys of `install_config`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InstallSettings {
    /// The log parser. Overrides the row's `log_parser`.
    #[serde(skip_serializing_if = "DetailField::is_absent")]
    pub log_parser: DetailField<String>,
    /// How the environment was built. Unused.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl InstallConfig {
    /// Returns the settings, or `None` if the text is not a JSON object.
    pub fn settings(&self) -> Option<InstallSettings> {
        match self {
            Self::Settings(settings) => Some(settings.clone()),
            Self::JsonText(text) => serde_json::from_str(text).ok(),
        }
    }
}
