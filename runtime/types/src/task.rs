//! A task: one benchmark instance, in Proctor's own format. Proctor converts every dataset to this
//! format.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    Details, Harbor, ImageInheritance, MAX_CPUS, MAX_SECONDS, MAX_SIZE_MB, MIN_CPUS, MIN_MEMORY_MB,
    TaskId, TestFormat, TestResults, canonical_json, sha256_hex,
};

/// The version of the task format. Other versions are rejected.
pub const TASK_SCHEMA_VERSION: u32 = 1;

/// One benchmark instance: the task statement, its environment, and the tests that decide whether a
/// patch resolves it.
///
/// Proctor's own format stores one instance as JSON or TOML; `docs/reference/tasks.md` explains each key.
///
/// ```
/// use proctor_types::Task;
///
/// let row = r#"{"schema_version": 1, "id": "demo__roman-1", "statement": "Implement `to_roman`.",
///     "environment": {"base": "host", "setup": ["python3 -m venv /venv"]},
///     "fail_to_pass": ["tests/test_roman.py::test_round_trip"],
///     "test_command": ["/venv/bin/python", "-m", "pytest", "-q"]}"#;
/// let task: Task = serde_json::from_str(row).unwrap();
/// assert_eq!(task.workdir, "/testbed");
/// assert_eq!(task.timeouts.grade_seconds, 600.0);
/// // The digest identifies the content: key order and whitespace do not matter.
/// let again: Task = serde_json::from_str(&serde_json::to_string_pretty(&task).unwrap()).unwrap();
/// assert_eq!(again.digest(), task.digest());
/// // A mistyped key is an error.
/// assert!(serde_json::from_str::<Task>(&row.replace("statement", "statment")).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    description = "One benchmark instance: the task statement, its environment, and the tests that decide whether a patch resolves it."
)]
pub struct Task {
    /// Version of the format: 1.
    pub schema_version: u32,
    /// The task's id, unique within the dataset. The trial's folder has this name, escaped.
    pub id: TaskId,
    /// The task's repository, as `owner/name`. Reports group tasks by repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// FeatureBench level: 1 extends a code base, 2 writes it from scratch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// The task description for the agent, in Markdown.
    pub statement: String,
    /// The environment that the sandbox starts from.
    pub environment: Environment,
    /// The source code, unless the environment's image already contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Absolute path of the code in the sandbox. The agent starts there, and the patch is relative
    /// to it. If the path is empty, it becomes the image's `WORKDIR`, or else `/testbed`. An empty
    /// path is the default for rows that have an image or a Dockerfile.
    #[serde(default = "default_workdir")]
    pub workdir: String,
    /// The patch that removes the feature before the agent starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// Paths below `workdir` that are removed before the agent starts and restored for grading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// URL patterns that the egress proxy denies in every network mode. Proctor derives the aliases
    /// of these URLs and denies them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_urls: Vec<String>,
    /// Ids of tests that fail before the solution and pass after it.
    pub fail_to_pass: Vec<String>,
    /// Ids of tests that pass before and after the solution.
    #[serde(default)]
    pub pass_to_pass: Vec<String>,
    /// The test runner as an argument vector, without test ids.
    pub test_command: Vec<String>,
    /// How to read the results of a test runner other than pytest. Absent if `test_command` starts
    /// pytest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_results: Option<TestResults>,
    /// A patch that is applied only for grading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_patch: Option<String>,
    /// Time limits for one command of the agent and for one run of the tests.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The patch that solves the task. Default: the reversed mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold: Option<String>,
    /// Environment variables of all commands in the sandbox, for the agent and the tests. These
    /// variables override an image's `ENV`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The time at which each command starts, for the agent and the tests, in RFC 3339:
    /// `2024-05-01T00:00:00Z`. Use it for tests that depend on the date (`docs/reference/clock.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// The user of the agent's commands and the tests: a name in the sandbox or numeric `uid[:gid]`. Default: the
    /// image's `USER`, or else root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The platform of the task in Docker's notation: `linux/amd64`. The platform does not select a
    /// back end, but native sandboxes reject tasks for other platforms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Resources that the task needs. If the arm's limits are smaller, they are raised to the
    /// ceiling. Each grading sandbox reserves at least the floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Patches that must not resolve the task: known wrong solutions or cheats. `proctor tasks validate --attack`
    /// grades them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cheats: Vec<Cheat>,
    /// Present if one expectation of a fail-to-pass test was deliberately made wrong. No honest solution resolves such
    /// a task, so a resolved verdict is suspect. `proctor tasks impossible` derives these tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<Impossible>,
    /// Labels that reports use to group tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// Whether a collected task has the size that FeatureBench requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meets_minima: Option<bool>,
    /// Time of the change that solves the task, in RFC 3339: `2024-05-01T12:00:00Z`. Reports compare it with
    /// `models.NAME.cutoff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Present if the agent starts with an empty directory instead of a masked source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_scratch: Option<FromScratch>,
    /// Information from `collect` about the solution, in the fields of `benchmark.details`: new
    /// functions and classes, documentation, discussion. `single-shot` scaffolds and reports use
    /// this information.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
    /// The benchmark of the task. Absent for Proctor's own tasks, which have no official policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<Benchmark>,
    /// Present if the task is a Harbor folder, which is graded by its own verifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harbor: Option<Harbor>,
    /// What the task inherited from its image. Never recorded.
    #[serde(skip)]
    pub from_image: ImageInheritance,
}

/// A patch that must score zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cheat {
    /// The cheat's name in certificates. Unique within the task.
    pub name: String,
    /// The patch as an agent would submit it, relative to the source that it starts from.
    pub patch: String,
}

/// The expectation that was deliberately made wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Impossible {
    /// The original task's id.
    pub of: String,
    /// The test with the expectation: `file.py::name`, without parameters.
    pub test: String,
    /// The expectation's line number in the test's file, counted from 1.
    pub line: usize,
    /// The line's original text.
    pub was: String,
    /// The line's changed text.
    pub now: String,
}

/// The suffix of an impossible variant's id.
pub const IMPOSSIBLE_ID_SUFFIX: &str = ".impossible";

/// The name prefix of attacks from a task's own `cheats`.
pub const CHEAT_ATTACK_PREFIX: &str = "cheat: ";

impl Cheat {
    /// Returns the cheat's name in the list of attacks.
    pub fn attack_name(&self) -> String {
        format!("{CHEAT_ATTACK_PREFIX}{}", self.name)
    }
}

/// The benchmark that a task was loaded from, which determines the official grading policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// A name in `configs/benchmarks/`: `featurebench`, `fea-bench`, `swe-bench`, ...
    pub name: String,
    /// The version of the benchmark's own harness whose rules apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `lite`, `full`, `verified`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The dataset's revision: a tag or a commit of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Benchmark-specific fields of the row that grading or reports need.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
}

/// Settings for a task that starts without source code, as in FeatureBench's level 2. The
/// environment contains the whole source, but the agent gets an empty `workdir` and writes a
/// package. For grading, the package is installed and the source is restored around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromScratch {
    /// The content of every file in `workdir` when the agent starts, by path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Shell command that installs the agent's package. The command runs in `workdir` before the
    /// source is restored.
    pub install: String,
}

impl Task {
    /// Returns the details of the benchmark's row or, for a native task, the task's own `details`.
    /// `None` if a native task has none.
    pub fn details(&self) -> Option<&Details> {
        match &self.benchmark {
            Some(benchmark) => Some(&benchmark.details),
            None => Some(&self.details).filter(|details| !details.is_empty()),
        }
    }

    /// Returns the date of the change that solves the task, as `2024-05-01`: from the task's own
    /// `created_at`, or else from the row's. `None` if the value does not start with a date.
    pub fn date(&self) -> Option<&str> {
        let of_row = || self.details().and_then(|details| details.created_at.non_empty_text());
        let day = self.created_at.as_deref().or_else(of_row)?.get(..DATE_LEN)?;
        is_iso_date(day).then_some(day)
    }

    /// Returns how to read the results that `test_command` reports, or `None` if the command starts
    /// pytest with Proctor's recorder.
    pub fn command_test_results(&self) -> Option<&TestResults> {
        self.test_results.as_ref().filter(|results| results.format != TestFormat::Pytest)
    }

    /// Whether test ids start with the test's file.
    pub fn test_ids_start_with_file(&self) -> bool {
        self.command_test_results().is_none_or(|results| results.format == TestFormat::Jest)
    }

    /// Returns the SHA-256 of the task's canonical JSON.
    pub fn digest(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        sha256_hex(canonical_json(&value).as_bytes())
    }
}

/// The length of `2024-05-01`.
const DATE_LEN: usize = 10;

/// Whether a string has the form `2024-05-01`. Dates in this form sort as text.
///
/// ```
/// use proctor_types::is_iso_date;
///
/// assert!(is_iso_date("2024-05-01"));
/// assert!(!is_iso_date("2024-13-01") && !is_iso_date("2024-5-1") && !is_iso_date("May 2024"));
/// ```
pub fn is_iso_date(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    let separated = text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let month = number(5..7).is_some_and(|month| (1..=12).contains(&month));
    let day = number(8..10).is_some_and(|day| (1..=31).contains(&day));
    text.len() == DATE_LEN && separated && number(0..4).is_some() && month && day
}

fn default_workdir() -> String {
    "/testbed".into()
}

/// What a sandbox starts from: exactly one of `image`, `dockerfile` and `base`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// A Docker image reference, or the path of an OCI or `docker save` archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// A folder with a `Dockerfile` (the build context), absolute or relative to the task file's folder. Docker
    /// sandboxes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// `host`, or the path of a root file system directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Shell commands that run once, before the agent and with network access. Their result is
    /// cached as a layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
}

/// Where the code comes from. Proctor places the code at `workdir` before the setup commands run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Source {
    /// A source distribution from the Python Package Index.
    Pypi {
        /// The distribution's name.
        pypi: String,
        /// The exact version.
        version: String,
        /// Digest of the archive (hex). Any other archive is rejected.
        sha256: String,
    },
    /// A folder, usually next to the task file.
    Path {
        /// Relative to the task file's folder, or absolute.
        path: String,
    },
    /// A `.tar.gz` file.
    Archive {
        /// Relative to the task file's folder, or absolute.
        archive: String,
        /// Digest of the archive (hex). If set, any other archive is rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// A commit of a Git repository.
    Git {
        /// A URL, or the path of a clone.
        git: String,
        /// The full commit hash.
        commit: String,
    },
}

/// Time limits in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Limit for one command of the agent. The smaller of this limit and the arm's
    /// `command_seconds` applies. Default: 120.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_SECONDS))]
    pub command_seconds: f64,
    /// Limit for one run of the tests. Default: 600.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_SECONDS))]
    pub grade_seconds: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { command_seconds: 120.0, grade_seconds: 600.0 }
    }
}

/// The resources that a task needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Number of CPUs, enforced as a quota: a number, or a `floor` and a `ceiling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cpus_schema")]
    pub cpus: Option<ResourceAmount<f64>>,
    /// Memory in MiB: a number, or a `floor` and a `ceiling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "memory_schema")]
    pub memory_mb: Option<ResourceAmount<u64>>,
}

/// An amount of a resource. The floor is reserved for the sandbox; the ceiling is the most that it
/// may use.
///
/// ```
/// use proctor_types::ResourceAmount;
///
/// let plain: ResourceAmount<u64> = serde_json::from_str("2048").unwrap();
/// assert_eq!((plain.floor(), plain.ceiling()), (2048, 2048));
/// let both: ResourceAmount<u64> = serde_json::from_str(r#"{"floor": 1024, "ceiling": 4096}"#).unwrap();
/// assert_eq!((both.floor(), both.ceiling()), (1024, 4096));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or a table with `floor` and `ceiling`")]
pub enum ResourceAmount<T> {
    /// Floor and ceiling are equal.
    Plain(T),
    /// Floor and ceiling differ.
    Span(ResourceRange<T>),
}

/// [`ResourceAmount`] as two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceRange<T> {
    /// The reserved amount.
    pub floor: T,
    /// The amount at which commands are slowed down or killed.
    pub ceiling: T,
}

impl<T: Copy> ResourceAmount<T> {
    /// The reserved amount.
    pub fn floor(&self) -> T {
        match self {
            Self::Plain(one) => *one,
            Self::Span(span) => span.floor,
        }
    }

    /// The amount at which commands are slowed down or killed.
    pub fn ceiling(&self) -> T {
        match self {
            Self::Plain(one) => *one,
            Self::Span(span) => span.ceiling,
        }
    }
}

fn cpus_schema(_: &mut SchemaGenerator) -> Schema {
    resource_amount_schema(
        json_schema!({ "type": "number", "minimum": MIN_CPUS, "maximum": MAX_CPUS }),
    )
}

fn memory_schema(_: &mut SchemaGenerator) -> Schema {
    resource_amount_schema(
        json_schema!({ "type": "integer", "minimum": MIN_MEMORY_MB, "maximum": MAX_SIZE_MB }),
    )
}

fn resource_amount_schema(number: Schema) -> Schema {
    json_schema!({
        "anyOf": [
            number,
            {
                "type": "object",
                "additionalProperties": false,
                "properties": { "floor": number, "ceiling": number },
                "required": ["floor", "ceiling"],
            },
        ],
    })
}

/// Returns the file of a test id: everything before the first `::`.
pub fn file_from_test_id(id: &str) -> &str {
    id.split("::").next().unwrap_or(id)
}
