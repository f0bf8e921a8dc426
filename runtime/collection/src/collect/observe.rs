//! Runs a project's tests in a sandbox, and reads the records that `python/observe.py` writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proctor_sandbox_api::{
    Backend, Command, PreparedEnvironment, SandboxHandle, SandboxRequest, describe_exit,
};
use proctor_types::{Fault, FaultCause, FaultLayer, SandboxSpec};
use serde::{Deserialize, Serialize};

use super::{
    calls::Calls,
    environment::{
        InstalledPackages, PYTHON, WORKDIR, env_vars, list_build_packages_command,
        parse_build_pins, parse_pins,
    },
    project::Project,
    records::Record,
    settings::Settings,
    stable_message::stable_message,
};

const COLLECTOR_DIR: &str = "/tmp/collector";
pub(super) static COLLECTOR_SCRIPTS: [(&str, &str); 3] = [
    ("observe.py", include_str!("../../python/observe.py")),
    ("calls.py", include_str!("../../python/calls.py")),
    ("child/sitecustomize.py", include_str!("../../python/child/sitecustomize.py")),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    Collect,
    Run,
    Trace,
}

/// The input of `observe.py`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ObserveRequest<'a> {
    mode: Mode,
    arguments: &'a [String],
    plugin_arguments: &'a BTreeMap<String, Vec<String>>,
    test_seconds: f64,
    file_seconds: f64,
    pub(super) files: Vec<String>,
    pub(super) deselect: BTreeSet<String>,
    pub(super) seed: Option<u64>,
    /// Modules to import once, before forking a process for each file.
    pub(super) warm: Vec<String>,
}

impl<'a> ObserveRequest<'a> {
    pub(super) fn new(mode: Mode, settings: &'a Settings, files: Vec<String>) -> Self {
        let runs = &settings.runs;
        Self {
            mode,
            arguments: &runs.arguments,
            plugin_arguments: &runs.plugin_arguments,
            test_seconds: runs.test_seconds,
            file_seconds: runs.file_seconds,
            files,
            deselect: BTreeSet::new(),
            seed: None,
            warm: Vec::new(),
        }
    }
}

/// The inputs that all runs of a test suite share.
#[derive(Debug, Clone, Default)]
pub(super) struct SuiteInputs {
    pub(super) files: Vec<String>,
    pub(super) deselected_tests: BTreeSet<String>,
    pub(super) preloaded_modules: Vec<String>,
}

/// A test's outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TestOutcome {
    pub(super) outcome: String,
    /// The error message, without details that vary between runs.
    pub(super) why: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunResult {
    pub(super) tests: BTreeMap<String, TestOutcome>,
    /// Tests that were running when their file's process was killed.
    pub(super) hung: BTreeSet<String>,
    /// Files without results, and the reason for each.
    #[serde(rename = "broken")]
    pub(super) files_without_results: BTreeMap<String, String>,
    pub(super) seconds: f64,
}

/// Runs tests in sandboxes with the same environment.
pub(super) struct TestRunner<'a> {
    backend: &'a dyn Backend,
    prepared_environment: &'a PreparedEnvironment,
    project: &'a Project,
    settings: &'a Settings,
}

impl<'a> TestRunner<'a> {
    pub(super) fn new(
        backend: &'a dyn Backend,
        prepared_environment: &'a PreparedEnvironment,
        project: &'a Project,
        settings: &'a Settings,
    ) -> Self {
        Self { backend, prepared_environment, project, settings }
    }

    /// Runs `observe.py` in a fresh sandbox without network access.
    pub(super) async fn observe(
        &self,
        request: &ObserveRequest<'_>,
        purpose: &str,
    ) -> Result<Vec<Record>, Fault> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| Fault::new(FaultLayer::Environment, format!("{purpose}: {error}")))?;
        line.push(b'\n');
        let done = self
            .run_in_sandbox(purpose, async |handle| {
                for (name, text) in &COLLECTOR_SCRIPTS {
                    let path = format!("{COLLECTOR_DIR}/{name}");
                    handle
                        .write(&path.as_str().into(), text.as_bytes(), Some(0o644))
                        .await
                        .map_err(|error| error.to_fault("writing the collector's scripts"))?;
                }
                let mut command =
                    self.build_command([PYTHON, &format!("{COLLECTOR_DIR}/observe.py")]);
                command.stdin.clone_from(&line);
                command.has_results_pipe = true;
                handle.run(command).await.map_err(|error| error.to_fault(purpose))
            })
            .await?;
        let records: Vec<Record> = done
            .results
            .split(|&byte| byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        if matches!(records.last(), Some(Record::End)) {
            return Ok(records);
        }
        let said = [done.stdout.text(), done.stderr.text()].concat();
        let tail: Vec<&str> = said.lines().rev().take(12).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let what = format!("{purpose}: {}:\n{}", describe_exit(&done.exit), tail.join("\n"));
        Err(Fault::new(FaultLayer::Environment, what).cause(FaultCause::SetupLine))
    }

    pub(super) async fn list_packages(&self) -> Result<InstalledPackages, Fault> {
        let message = "listing installed packages";
        // Use `-I`, because `PYTHONPATH` contains the source tree, and metadata in the source tree
        // would hide installed packages.
        let pip = [PYTHON, "-I", "-m", "pip", "--disable-pip-version-check"];
        self.run_in_sandbox(message, async |handle| {
            let ask = async |argv: &[&str]| {
                let done = handle.run(self.build_command(argv.iter().copied())).await;
                let done = done.map_err(|error| error.to_fault(message))?;
                match done.success() {
                    true => Ok(done.stdout.text()),
                    false => Err(Fault::new(
                        FaultLayer::Environment,
                        format!("{message}: {}", done.stderr.text()),
                    )),
                }
            };
            let frozen =
                ask(&[&pip[..], &["freeze", "--all", "--exclude-editable"]].concat()).await?;
            let editable =
                ask(&[&pip[..], &["list", "--editable", "--format=json"]].concat()).await?;
            let built = ask(&["/bin/sh", "-c", &list_build_packages_command()]).await?;
            let python = ask(&[PYTHON, "--version"]).await?;
            Ok(InstalledPackages {
                pins: parse_pins(&frozen, self.project),
                is_editable: editable.contains("\"name\""),
                build_pins: parse_build_pins(&built, self.project),
                python: python.trim().to_owned(),
            })
        })
        .await
    }

    /// Runs the test suite. If a test hangs, its file is run again without that test, up to the
    /// maximum number of restarts.
    pub(super) async fn run(
        &self,
        mode: Mode,
        selection: &SuiteInputs,
        seed: Option<u64>,
        purpose: &str,
    ) -> Result<(RunResult, Calls), Fault> {
        let mut order = ObserveRequest::new(mode, self.settings, selection.files.clone());
        (order.deselect, order.seed) = (selection.deselected_tests.clone(), seed);
        order.warm.clone_from(&selection.preloaded_modules);
        let (mut ran, mut calls) = (RunResult::default(), Calls::default());
        for start in 0..=self.settings.runs.restarts {
            let records = self.observe(&order, purpose).await?;
            let killed = ran.add_records(&records);
            calls.add_records(&records);
            let files_to_rerun: Vec<String> = killed
                .into_iter()
                .filter_map(|(file, test)| match test {
                    Some(test) if start < self.settings.runs.restarts => {
                        order.deselect.insert(test);
                        Some(file)
                    }
                    _ => {
                        ran.files_without_results
                            .insert(file, "its tests do not terminate".to_owned());
                        None
                    }
                })
                .collect();
            if files_to_rerun.is_empty() {
                break;
            }
            order.files = files_to_rerun;
        }
        Ok((ran, calls))
    }

    fn build_command<I>(&self, argv: I) -> Command
    where
        I: IntoIterator,
        I::Item: Into<proctor_sandbox_api::wire::RawPath>,
    {
        let mut command = Command::new(argv).cwd(WORKDIR);
        for (key, value) in env_vars(self.project) {
            command = command.env(&key, value.as_str());
        }
        for (key, value) in
            [("PYTHONNOUSERSITE", "1"), ("PYTHONHASHSEED", "0"), ("PYTHONIOENCODING", "utf-8")]
        {
            command = command.env(key, value);
        }
        command.time_limit = Some(Duration::from_secs_f64(self.settings.runs.seconds));
        command.reap_all = true;
        command
    }

    async fn run_in_sandbox<T>(
        &self,
        purpose: &str,
        action: impl AsyncFnOnce(&SandboxHandle) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let request = SandboxRequest {
            environment: self.prepared_environment.clone(),
            limits: SandboxSpec {
                memory_mb: self.settings.runs.memory_mb,
                ..SandboxSpec::default()
            },
            mounts: Vec::new(),
            purpose: format!("collecting: {purpose}"),
        };
        let mut sandbox = self.backend.open(&request).await?;
        let result = action(sandbox.handle()).await;
        let closed = sandbox.close().await;
        let done = result?;
        closed?;
        Ok(done)
    }
}

impl RunResult {
    /// Adds the records of one run of `observe.py`. Returns the files whose processes were killed,
    /// each with the test that was running.
    fn add_records(&mut self, records: &[Record]) -> Vec<(String, Option<String>)> {
        let mut killed = Vec::new();
        let mut running: Option<&String> = None;
        for record in records {
            match record {
                Record::Start { id } => running = Some(id),
                Record::Test { id, outcome, seconds, why } => {
                    running = None;
                    self.seconds += seconds;
                    let ended = TestOutcome { outcome: outcome.clone(), why: stable_message(why) };
                    self.tests.insert(id.clone(), ended);
                }
                Record::File { file, code: None, .. } => {
                    let test = running.take().cloned();
                    self.hung.extend(test.clone());
                    killed.push((file.clone(), test));
                }
                Record::File { .. } => running = None,
                Record::Error { id, why, .. } => {
                    let file = id.split("::").next().unwrap_or(id);
                    let last = stable_message(why.lines().last().unwrap_or_default());
                    self.files_without_results
                        .insert(file.to_owned(), format!("pytest cannot collect it: {last}"));
                }
                Record::Broken { file, why } => {
                    self.files_without_results.insert(file.clone(), stable_message(why));
                }
                Record::Items { .. }
                | Record::Loaded { .. }
                | Record::Calls { .. }
                | Record::End => {}
            }
        }
        killed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_records(lines: &str) -> Vec<Record> {
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The strings are output from pytest 8.4.2, which failed before running any test.
    #[test]
    fn not_started_record_lists_missing_plugins_and_modules() {
        let told = |said: &str| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("observe.py"), COLLECTOR_SCRIPTS[0].1.as_bytes())
                .unwrap();
            let code =
                "import json, observe, sys; print(json.dumps(observe.not_started(sys.argv[1])))";
            let output = std::process::Command::new("python3")
                .args(["-c", code, said])
                .env("PYTHONPATH", dir.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            match serde_json::from_slice(&output.stdout).unwrap() {
                Record::Error { missing, options, packages, .. } => (missing, options, packages),
                other => panic!("{other:?}"),
            }
        };
        let own = |list: &[&str]| list.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            told(
                "ImportError while loading conftest '/testbed/tests/conftest.py'.\ntests/conftest.py:1: in <module>\n    \
                 import simplejson\nE   ModuleNotFoundError: No module named 'simplejson'\n"
            ),
            (Some("simplejson".to_owned()), own(&[]), own(&[]))
        );
        assert_eq!(
            told("Error importing plugin \"pytest_foo\": No module named 'pytest_foo'").0,
            Some("pytest_foo".to_owned())
        );
        assert_eq!(
            told(
                "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --cov=x --cov-report term -n auto \
                 tests\n  inifile: /testbed/pytest.ini\n"
            ),
            (None, own(&["--cov", "--cov-report", "-n"]), own(&[]))
        );
        assert_eq!(
            told("ERROR: Missing required plugins: pytest-bar>1, pytest-foo\n\n"),
            (None, own(&[]), own(&["pytest-bar>1", "pytest-foo"]))
        );
        assert_eq!(told("ERROR: Unknown config option: asyncio_mode\n").1, ["asyncio_mode"]);
    }

    #[test]
    fn add_records_returns_killed_file_with_hanging_test() {
        let records = read_records(
            "{\"t\": \"start\", \"id\": \"t.py::a\"}\n\
             {\"t\": \"test\", \"id\": \"t.py::a\", \"outcome\": \"passed\", \"seconds\": 0.5}\n\
             {\"t\": \"start\", \"id\": \"t.py::b\"}\n\
             {\"t\": \"te\n\
             {\"t\": \"file\", \"file\": \"t.py\", \"code\": null, \"seconds\": 9}\n\
             {\"t\": \"error\", \"id\": \"u.py\", \"why\": \"x\\nE  No\", \"missing\": \"trio\"}\n",
        );
        let mut ran = RunResult::default();
        let killed = ran.add_records(&records);
        assert_eq!(killed, [("t.py".to_owned(), Some("t.py::b".to_owned()))]);
        assert_eq!(ran.tests["t.py::a"].outcome, "passed");
        assert!(
            ran.hung.contains("t.py::b") && ran.files_without_results["u.py"].ends_with(": No")
        );
    }
}
