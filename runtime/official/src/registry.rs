//! Finds the policy, the parser and the test command for grading a task.

use std::{fmt, sync::LazyLock};

use proctor_types::{Benchmark, Commands, Task, from_toml};
use serde_json::Value;

use crate::{
    OfficialPolicy, RowText, Subject,
    parsers::{ParserName, RowFacts},
    policy::LogPart,
};

/// The built-in policies. To add one, add a file and a line here.
const POLICY_FILES: &[(&str, &str)] = &[
    ("fea-bench", include_str!("../../../configs/benchmarks/policies/fea-bench.toml")),
    ("featurebench", include_str!("../../../configs/benchmarks/policies/featurebench.toml")),
    ("swe-bench-3.0.4", include_str!("../../../configs/benchmarks/policies/swe-bench-3.0.4.toml")),
    ("swe-bench-4.1.0", include_str!("../../../configs/benchmarks/policies/swe-bench-4.1.0.toml")),
    ("swe-bench-5.0.2", include_str!("../../../configs/benchmarks/policies/swe-bench-5.0.2.toml")),
    ("swe-bench-live", include_str!("../../../configs/benchmarks/policies/swe-bench-live.toml")),
    ("swe-gym", include_str!("../../../configs/benchmarks/policies/swe-gym.toml")),
    ("swe-rebench", include_str!("../../../configs/benchmarks/policies/swe-rebench.toml")),
    ("swe-smith", include_str!("../../../configs/benchmarks/policies/swe-smith.toml")),
];

static POLICIES: LazyLock<Result<Vec<OfficialPolicy>, PolicyError>> = LazyLock::new(|| {
    POLICY_FILES
        .iter()
        .map(|(name, text)| {
            from_toml(text).map_err(|error| PolicyError {
                message: format!("configs/benchmarks/policies/{name}.toml: {error}"),
                hint: "this build of Proctor is broken".into(),
            })
        })
        .collect()
});

/// Maximum number of characters that an error shows of a parser's name.
const MAX_SHOWN_NAME_CHARS: usize = 80;
/// Maximum number of parsers listed in a hint.
const MAX_LISTED_PARSERS: usize = 12;

/// The reason why no official policy can grade a task, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    pub message: String,
    pub hint: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.hint)
    }
}

impl std::error::Error for PolicyError {}

/// Returns the facts about a task's row that parsers need.
pub(crate) fn row_facts(task: &Task) -> RowFacts<'_> {
    let version = task.details().and_then(|details| details.version.non_empty_text());
    RowFacts { id: task.id.as_str(), version }
}

impl OfficialPolicy {
    /// Returns the policy for the task's benchmark; `None` for a task without a benchmark.
    ///
    /// # Errors
    ///
    /// There is no policy for the benchmark or its version.
    pub fn for_task(task: &Task) -> Result<Option<&'static Self>, PolicyError> {
        let Some(benchmark) = &task.benchmark else { return Ok(None) };
        Self::for_benchmark(benchmark).map(Some)
    }

    /// Whether a task expects whole test files.
    pub fn expects_files(task: &Task) -> bool {
        Self::for_task(task)
            .is_ok_and(|policy| policy.is_some_and(|policy| policy.subject == Subject::File))
    }

    fn for_benchmark(benchmark: &Benchmark) -> Result<&'static Self, PolicyError> {
        let all = POLICIES.as_ref().map_err(Clone::clone)?;
        let of_name: Vec<&Self> =
            all.iter().filter(|policy| policy.benchmark == benchmark.name).collect();
        if of_name.is_empty() {
            let mut known: Vec<&str> = all.iter().map(|policy| policy.benchmark.as_str()).collect();
            known.dedup();
            return Err(PolicyError {
                message: format!("benchmark.name: {:?} has no grading policy", benchmark.name),
                hint: format!("use one of {}, or remove `benchmark`", known.join(", ")),
            });
        }
        let found = match &benchmark.version {
            None => of_name.iter().find(|policy| policy.current),
            Some(version) => of_name
                .iter()
                .find(|policy| policy.version == *version || policy.also_named.contains(version)),
        };
        found.copied().ok_or_else(|| PolicyError {
            message: format!(
                "benchmark.version: Proctor has no rules for version {} of {}",
                benchmark.version.as_deref().unwrap_or("none"),
                benchmark.name
            ),
            hint: format!(
                "known versions: {}",
                of_name.iter().map(|policy| policy.version.as_str()).collect::<Vec<_>>().join(", ")
            ),
        })
    }

    /// Returns all policies, sorted by benchmark.
    ///
    /// # Errors
    ///
    /// A policy cannot be read, which means that the build is defective.
    pub fn all() -> Result<&'static [Self], PolicyError> {
        POLICIES.as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns the parser for a task's log: the parser that the row names, or else the repository's
    /// parser, or else the default.
    ///
    /// # Errors
    ///
    /// The row names an unknown parser, or no parser is specified.
    pub fn parser_for(&self, task: &Task) -> Result<ParserName, PolicyError> {
        let rules = &self.parser;
        self.check_parser_is_supported(task)?;
        if let Some((key, named)) = self.parser_named_by_row(task) {
            return self.find_parser(&named).map_err(|error| PolicyError {
                message: format!("benchmark.details.{}: {}", key.key(), error.message),
                hint: error.hint,
            });
        }
        let repo = task.repo.as_deref().unwrap_or_default();
        let fits = |name: &str| {
            if rules.ignore_case {
                name.to_lowercase() == repo.to_lowercase()
            } else {
                name == repo
            }
        };
        let of_repo = rules.repositories.iter().find(|(name, _)| fits(name));
        of_repo.map(|(_, parser)| *parser).or(rules.default).ok_or_else(|| PolicyError {
            message: format!(
                "repo: no log parser for {repo:?} in {} {}",
                self.benchmark, self.version
            ),
            hint: match rules.details.first() {
                Some(key) => format!("set a parser in benchmark.details.{}", key.key()),
                None => "use another version of the benchmark".into(),
            },
        })
    }

    /// Returns the parser that the row names, and the key of that field.
    fn parser_named_by_row(&self, task: &Task) -> Option<(RowText, Value)> {
        let details = task.details()?;
        self.parser.details.iter().find_map(|key| Some((*key, key.value_in(details)?)))
    }

    fn find_parser(&self, parser_name: &Value) -> Result<ParserName, PolicyError> {
        let names = &self.parser.names;
        let found = parser_name.as_str().and_then(|named| names.get(named.trim()));
        found.copied().ok_or_else(|| {
            let shown: String =
                parser_name.to_string().chars().take(MAX_SHOWN_NAME_CHARS).collect();
            let list = || names.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            PolicyError {
                message: format!("{} {} has no parser {shown}", self.benchmark, self.version),
                hint: match names.len() {
                    many if many > MAX_LISTED_PARSERS => {
                        format!(
                            "see the {many} parsers in its policy under configs/benchmarks/policies"
                        )
                    }
                    _ => format!("known parsers: {}", list()),
                },
            }
        })
    }

    /// Returns the parser names that a row may use.
    pub fn parser_names(&self) -> impl Iterator<Item = &str> {
        self.parser.names.keys().map(String::as_str)
    }

    /// Checks that the parser named in the task's dataset row exists and supports that row.
    /// Succeeds if the row names no parser.
    ///
    /// # Errors
    ///
    /// The key of the field that names the parser, and the error.
    pub fn check_named_parser(&self, task: &Task) -> Result<(), (RowText, PolicyError)> {
        let Some((key, named)) = self.parser_named_by_row(task) else { return Ok(()) };
        let parser = self.find_parser(&named).map_err(|error| (key, error))?;
        self.check_row(parser, task).map_err(|error| (key, error))
    }

    fn check_row(&self, parser: ParserName, task: &Task) -> Result<(), PolicyError> {
        parser.check_row(row_facts(task)).map_err(|crash| PolicyError {
            message: format!(
                "{} of {} cannot read this row: {crash}",
                parser.name(),
                self.benchmark
            ),
            hint: "fix the row's `instance_id` and `version`, or use another parser".into(),
        })
    }

    /// Checks that the policy can read a task's logs, that is, that [`Self::grade_log`] has
    /// everything it needs except a log.
    ///
    /// # Errors
    ///
    /// There is no parser, the parser does not support the row, or there is no test command
    /// although only the log after the command is read.
    pub fn check_task(&self, task: &Task) -> Result<(), PolicyError> {
        self.check_row(self.parser_for(task)?, task)?;
        match (self.subject, self.log.part) {
            (Subject::Id, LogPart::AfterTestCommand) => self.test_command_for(task).map(drop),
            _ => Ok(()),
        }
    }

    /// Checks that Proctor can read the task's logs as the harness does.
    ///
    /// # Errors
    ///
    /// The harness reads the task's logs in a way that Proctor does not reproduce.
    fn check_parser_is_supported(&self, task: &Task) -> Result<(), PolicyError> {
        let rules = &self.parser;
        let hint = "remove the task from the dataset, or remove its `benchmark` to grade only with the strict policy";
        let holds_code =
            |key: &RowText| task.details().is_some_and(|details| key.value_in(details).is_some());
        if let Some(key) = rules.code.filter(holds_code) {
            let key = key.key();
            let what = format!(
                "benchmark.details.{key}: contains a parser as code, which Proctor never runs"
            );
            return Err(PolicyError { message: what, hint: hint.into() });
        }
        let repo = task.repo.as_deref().unwrap_or_default();
        match rules.refused.get(repo) {
            None => Ok(()),
            Some(why) => {
                let what = format!("repo: no parser for {repo} in {}: {why}", self.benchmark);
                Err(PolicyError { message: what, hint: hint.into() })
            }
        }
    }

    /// Returns the test command. Only the log after the command's last occurrence is read.
    ///
    /// # Errors
    ///
    /// Neither the row nor the policy has a test command.
    pub fn test_command_for(&self, task: &Task) -> Result<String, PolicyError> {
        let rules = &self.test_command;
        let details = task.details();
        let of_row = details.filter(|_| rules.of_row).and_then(|details| {
            match details.test_cmd.get()? {
                Commands::One(command) => Some(command).filter(|command| !command.is_empty()),
                // The harness uses the last command of a list.
                Commands::Several(commands) => commands.last(),
            }
        });
        let version =
            details.and_then(|details| details.version.non_empty_text()).unwrap_or_default();
        let of_repo = || {
            rules.repositories.iter().find(|rule| {
                Some(rule.repository.as_str()) == task.repo.as_deref()
                    && rule
                        .versions
                        .as_ref()
                        .is_none_or(|versions| versions.iter().any(|known| known == version))
            })
        };
        of_row
            .cloned()
            .or_else(|| of_repo().map(|rule| rule.command.clone()))
            .or_else(|| rules.default.clone())
            .filter(|command| !command.is_empty())
            .ok_or_else(|| PolicyError {
                message: match &task.repo {
                    Some(repo) => format!("repo: {repo} has no test command"),
                    None => "repo: missing, so there is no test command".into(),
                },
                hint: "set it in benchmark.details.test_cmd".into(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(benchmark: &str, version: Option<&str>, details: Value) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {}, "repo": "a/b",
            "fail_to_pass": ["f"], "test_command": [],
            "benchmark": {"name": benchmark, "version": version, "details": details}
        }))
        .unwrap()
    }

    /// Each benchmark and version has one file, which is named after them and included in the
    /// build.
    #[test]
    fn policy_files_match_their_content_and_are_shipped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/benchmarks/policies");
        let files = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let shipped: Vec<String> =
            POLICY_FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        assert_eq!(files, shipped, "POLICY_FILES lists every file, sorted by name");
        let all = OfficialPolicy::all().unwrap();
        for ((name, _), policy) in POLICY_FILES.iter().zip(all) {
            let versions = all.iter().filter(|other| other.benchmark == policy.benchmark).count();
            let expected = match versions {
                1 => policy.benchmark.clone(),
                _ => format!("{}-{}", policy.benchmark, policy.version),
            };
            assert_eq!(*name, expected);
        }
    }

    #[test]
    fn every_benchmark_has_one_current_policy() {
        let all = OfficialPolicy::all().unwrap();
        for policy in all {
            let current = all
                .iter()
                .filter(|other| other.benchmark == policy.benchmark && other.current)
                .count();
            assert_eq!(current, 1, "{}", policy.benchmark);
            let named = task(&policy.benchmark, Some(&policy.version), serde_json::json!({}));
            let found = OfficialPolicy::for_task(&named).unwrap().unwrap();
            assert_eq!(found.version, policy.version);
        }
    }

    #[test]
    fn unknown_name_errors_list_known_names() {
        let error =
            OfficialPolicy::for_task(&task("swe-bunch", None, serde_json::json!({}))).unwrap_err();
        assert!(error.to_string().contains("swe-bunch"), "{error}");
        let error = OfficialPolicy::for_task(&task("swe-bench", Some("9"), serde_json::json!({})))
            .unwrap_err();
        assert!(error.hint.contains("5.0.2"), "{error}");
        let unknown = task("swe-bench", None, serde_json::json!({"log_parser": "parse_log_zig"}));
        let policy = OfficialPolicy::for_task(&unknown).unwrap().unwrap();
        let error = policy.parser_for(&unknown).unwrap_err();
        assert!(error.message.contains("parse_log_zig"), "{error}");
        let bare = task("swe-bench", None, serde_json::json!({}));
        assert!(policy.parser_for(&bare).unwrap_err().message.contains("a/b"));
    }

    #[test]
    fn parsers_as_code_are_rejected() {
        let code = serde_json::json!({"log_parser_code": "def parse(log):\n    return {}"});
        let code = task("swe-bench-live", None, code);
        let policy = OfficialPolicy::for_task(&code).unwrap().unwrap();
        assert!(policy.parser_for(&code).unwrap_err().message.contains("log_parser_code"));

        let mut smith = task("swe-smith", None, serde_json::json!({}));
        let policy = OfficialPolicy::for_task(&smith).unwrap().unwrap();
        assert_eq!(policy.parser_for(&smith).unwrap(), ParserName::Smith);
        smith.repo = Some("swesmith/paramiko__paramiko.23f92003".into());
        assert!(policy.parser_for(&smith).unwrap_err().message.contains("short summary"));
    }

    #[test]
    fn check_task_rejects_a_row_that_its_parser_does_not_support() {
        let row = |parser: &str, version: &str| {
            let details = serde_json::json!({"log_parser": parser, "version": version});
            let task = task("swe-bench", None, details);
            OfficialPolicy::for_task(&task).unwrap().unwrap().check_task(&task)
        };
        assert!(row("parse_log_jest", "1").is_ok() && row("parse_log_lighthouse", "2.7").is_ok());
        assert!(row("parse_log_lighthouse", "x").unwrap_err().message.contains("ValueError"));
        assert!(row("parse_log_jekyll", "1").unwrap_err().message.contains("instance t"));
    }

    #[test]
    fn nested_detail_may_be_json_text() {
        let row =
            serde_json::json!({"install_config": "{\"log_parser\": \"parse_log_pytest_v2\"}"});
        let task = task("swe-rebench", None, row);
        let policy = OfficialPolicy::for_task(&task).unwrap().unwrap();
        assert_eq!(policy.parser_for(&task).unwrap(), ParserName::PytestV2);
    }
}
