//! A task: one benchmark instance, in Proctor's own format. Every dataset is converted to it.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    Details, FromImage, Harbor, LEAST_CPUS, LEAST_MEMORY_MB, MOST_CPUS, MOST_MB, MOST_SECONDS,
    TaskId, TestFormat, TestResults, canonical, sha256_hex,
};

/// The version of the task format. Other versions are rejected.
pub const TASK_SCHEMA: u32 = 1;

/// One benchmark instance: what is asked, where it runs, and the tests that decide.
///
/// A row of Proctor's own format is one of these as JSON or TOML; `docs/tasks.md` explains each key.
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
/// // The digest names the content: the order of keys and white space do not count.
/// let again: Task = serde_json::from_str(&serde_json::to_string_pretty(&task).unwrap()).unwrap();
/// assert_eq!(again.digest(), task.digest());
/// // A key that is mistyped is an error.
/// assert!(serde_json::from_str::<Task>(&row.replace("statement", "statment")).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    description = "One benchmark instance: what is asked, where it runs, and the tests that decide."
)]
pub struct Task {
    /// The version of the format: 1.
    pub schema_version: u32,
    /// Unique within its dataset. It names the trial's folder, escaped.
    pub id: TaskId,
    /// The repository that the task is from, as `owner/name`. Reports group by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// FeatureBench's level: 1 extends a code base, 2 writes from scratch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// What the agent is asked to do, in Markdown.
    pub statement: String,
    /// What the sandbox starts from.
    pub environment: Environment,
    /// The code, where the environment's image does not hold it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Where the code is in the sandbox, absolute. The agent starts there, and the patch is relative to
    /// it. Empty: the image's `WORKDIR`, or `/testbed` where it has none. A row that names an image or a
    /// Dockerfile and no `workdir` means that.
    #[serde(default = "default_workdir")]
    pub workdir: String,
    /// The patch that takes the feature away before the agent starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// Paths below `workdir`, removed before the agent starts and restored for grading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// URL patterns that the egress proxy denies in every network mode. Aliases of them are derived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_urls: Vec<String>,
    /// Ids of tests that fail before the solution and pass after it.
    pub fail_to_pass: Vec<String>,
    /// Ids of tests that pass before and after.
    #[serde(default)]
    pub pass_to_pass: Vec<String>,
    /// The test runner as an argument vector, without test ids.
    pub test_command: Vec<String>,
    /// Where the results of other runners than pytest are. Absent: `test_command` starts pytest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_results: Option<TestResults>,
    /// Applied for grading only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_patch: Option<String>,
    /// Limits on one command of the agent and on one run of the tests.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Absent: the mask reversed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold: Option<String>,
    /// Variables of every command in the sandbox, the agent's and the tests'. An image's `ENV` is merged: a
    /// value here wins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The moment at which each command begins, the agent's and the tests', as RFC 3339 writes it:
    /// `2024-05-01T00:00:00Z`. For tests that depend on the date (`docs/clock.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Who runs the agent's commands and the tests: a name in the sandbox or numeric `uid[:gid]`. Absent:
    /// the image's `USER`, else root of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The platform of the task, as Docker writes it: `linux/amd64`. No back end chooses by it; native
    /// sandboxes refuse a task of another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// What the task needs. Smaller limits of the arm are raised to the ceiling; what gradings set apart, to the floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Patches that must not be resolved: answers that are known to be wrong, or to cheat. `proctor tasks validate
    /// --attack` grades them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cheats: Vec<Cheat>,
    /// Present where one expectation of a fail-to-pass test was made wrong: no honest solution resolves the task, and a
    /// verdict that does is suspect. `proctor tasks impossible` derives such tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<Impossible>,
    /// Labels. Reports group by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// Whether a collected task has the size that FeatureBench asks of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meets_minima: Option<bool>,
    /// When the change that solves the task was made, as RFC 3339 writes it: `2024-05-01T12:00:00Z`. Reports compare it
    /// with `models.NAME.cutoff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Present where the agent starts from nothing instead of from a masked source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_scratch: Option<FromScratch>,
    /// What a collection knows of the solution of a task of its own, in the fields of `benchmark.details`: new functions and
    /// classes, documentation, discussion. Scaffolds of one answer and reports read it.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
    /// Absent for tasks of our own: they have no official policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<Benchmark>,
    /// Present where the task is a Harbor folder, which its own verifier grades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harbor: Option<Harbor>,
    /// What was taken from the image. Never recorded.
    #[serde(skip)]
    pub from_image: FromImage,
}

/// A patch that must score zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cheat {
    /// What certificates call it. Unique within the task.
    pub name: String,
    /// As an agent would leave it, on the source that it starts from.
    pub patch: String,
}

/// The expectation that was made wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Impossible {
    /// The task that this is a variant of.
    pub of: String,
    /// Whose expectation it is: `file.py::name`, without parameters.
    pub test: String,
    /// The line in that file, counted from one.
    pub line: usize,
    /// The line as it was.
    pub was: String,
    /// The line as it is now.
    pub now: String,
}

/// The suffix of an impossible variant's id.
pub const IMPOSSIBLE: &str = ".impossible";

/// The prefix of the name of a task's own attack.
pub const CHEAT: &str = "cheat: ";

impl Cheat {
    /// Its name in the list of attacks.
    pub fn attack(&self) -> String {
        format!("{CHEAT}{}", self.name)
    }
}

/// The benchmark that a task was loaded from, which names the official grading policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// Of `configs/benchmarks/`: `featurebench`, `fea-bench`, `swe-bench`, ...
    pub name: String,
    /// The version of the benchmark's own harness whose rules count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `lite`, `full`, `verified`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The dataset's revision: a tag or a commit of its hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Fields of the row that its grading or its reports need and no other benchmark has.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
}

/// A start without source, as FeatureBench's level 2 has it: the environment holds the whole source,
/// the agent gets an empty `workdir` and writes a package of its own, and for grading that package
/// is installed and the source put back around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromScratch {
    /// All that `workdir` holds when the agent starts, by path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Shell line that installs what the agent wrote, run in `workdir` before the source is back.
    pub install: String,
}

impl Task {
    /// What its benchmark's row contains beyond the task, or what the collection says about a
    /// native task; `None` if there is neither.
    pub fn details(&self) -> Option<&Details> {
        match &self.benchmark {
            Some(benchmark) => Some(&benchmark.details),
            None => Some(&self.details).filter(|details| !details.is_empty()),
        }
    }

    /// The date of the change that solves the task, `2024-05-01`: the task's own `created_at`, or
    /// its row's. `None` if neither starts with a date.
    pub fn date(&self) -> Option<&str> {
        let of_row = || self.details().and_then(|details| details.created_at.text());
        let day = self.created_at.as_deref().or_else(of_row)?.get(..DAY)?;
        is_day(day).then_some(day)
    }

    /// What `test_command` reports, if it is not pytest under the recorder.
    pub fn report(&self) -> Option<&TestResults> {
        self.test_results.as_ref().filter(|results| results.format != TestFormat::Pytest)
    }

    /// Whether test ids start with the test's file.
    pub fn ids_name_files(&self) -> bool {
        self.report().is_none_or(|results| results.format == TestFormat::Jest)
    }

    /// SHA-256 of the canonical JSON.
    pub fn digest(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        sha256_hex(canonical(&value).as_bytes())
    }
}

/// The length of `2024-05-01`.
const DAY: usize = 10;

/// Whether a text has the form `2024-05-01`. Dates in this form sort as text.
///
/// ```
/// use proctor_types::is_day;
///
/// assert!(is_day("2024-05-01"));
/// assert!(!is_day("2024-13-01") && !is_day("2024-5-1") && !is_day("May 2024"));
/// ```
pub fn is_day(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    let separated = text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let month = number(5..7).is_some_and(|month| (1..=12).contains(&month));
    let day = number(8..10).is_some_and(|day| (1..=31).contains(&day));
    text.len() == DAY && separated && number(0..4).is_some() && month && day
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
    /// A folder with a `Dockerfile`: the context of a build. Docker sandboxes only. Relative to the task file's
    /// folder, or absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// `host`, or the path of a root file system folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Shell lines, run once with network on the trusted side and cached as a layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
}

/// Where the code comes from; placed at `workdir` before the set-up lines run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Source {
    /// A source distribution of the Python Package Index.
    Pypi {
        /// The distribution's name.
        pypi: String,
        /// The exact version.
        version: String,
        /// Of the archive, hex. Another archive is refused.
        sha256: String,
    },
    /// A folder beside the task file.
    Path {
        /// Relative to the task file's folder, or absolute.
        path: String,
    },
    /// A `.tar.gz` file.
    Archive {
        /// Relative to the task file's folder, or absolute.
        archive: String,
        /// Of the archive, hex. Where it is given, another archive is refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// A commit of a Git repository.
    Git {
        /// A URL, or the path of a clone.
        git: String,
        /// The whole hash.
        commit: String,
    },
}

/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// One command of the agent. The smaller of this and the arm's `command_seconds` counts. 120 where it
    /// is not given.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MOST_SECONDS))]
    pub command_seconds: f64,
    /// One run of the tests. 600 where it is not given.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MOST_SECONDS))]
    pub grade_seconds: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { command_seconds: 120.0, grade_seconds: 600.0 }
    }
}

/// What a task needs of its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// CPUs, as a quota: a number, or a `floor` and a `ceiling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cpus_schema")]
    pub cpus: Option<Need<f64>>,
    /// MiB: a number, or a `floor` and a `ceiling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "memory_schema")]
    pub memory_mb: Option<Need<u64>>,
}

/// An amount of a resource: what is reserved for the sandbox, and what it may use if the machine
/// has it.
///
/// ```
/// use proctor_types::Need;
///
/// let plain: Need<u64> = serde_json::from_str("2048").unwrap();
/// assert_eq!((plain.floor(), plain.ceiling()), (2048, 2048));
/// let both: Need<u64> = serde_json::from_str(r#"{"floor": 1024, "ceiling": 4096}"#).unwrap();
/// assert_eq!((both.floor(), both.ceiling()), (1024, 4096));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or a table with `floor` and `ceiling`")]
pub enum Need<T> {
    /// Floor and ceiling are equal.
    Plain(T),
    /// Separate values.
    Span(Span<T>),
}

/// [`Need`] as two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span<T> {
    /// The reserved amount.
    pub floor: T,
    /// The amount at which commands are slowed down or killed.
    pub ceiling: T,
}

impl<T: Copy> Need<T> {
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
    need_schema(json_schema!({ "type": "number", "minimum": LEAST_CPUS, "maximum": MOST_CPUS }))
}

fn memory_schema(_: &mut SchemaGenerator) -> Schema {
    need_schema(json_schema!({ "type": "integer", "minimum": LEAST_MEMORY_MB, "maximum": MOST_MB }))
}

fn need_schema(number: Schema) -> Schema {
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

/// The file of a test id: everything before the first `::`.
pub fn file_of(id: &str) -> &str {
    id.split("::").next().unwrap_or(id)
}
