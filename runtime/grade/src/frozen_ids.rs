//! Determines the expected tests of a task that lists whole files. Runs the files on the unmasked
//! source.
//!
//! The graded run must not define which tests a file has, because the code under test could change
//! the parameters, the skipped tests and the collected tests.

use std::time::Duration;

use proctor_official::OfficialPolicy;
use proctor_sandbox_api::SandboxHandle;
use proctor_setup::HiddenCopies;
use proctor_types::{Fault, FaultCause, FaultLayer, Task, TestStatus};
use serde::{Deserialize, Serialize};

use crate::{TestPlan, TestRun, paths::file_from_test_id, run_tests};

/// The tests that passed on the unmasked source, from the files that a task expects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenIds {
    pub fail_to_pass: Vec<String>,
    pub pass_to_pass: Vec<String>,
}

/// Whether the task expects whole files instead of tests. If so, call [`freeze_ids`] before grading
/// with the strict policy.
pub fn needs_frozen_ids(task: &Task) -> bool {
    let mut ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
    OfficialPolicy::expects_files(task) && ids.any(|id| !id.contains("::"))
}

/// Runs the task's test files in a fresh sandbox with the environment and its unmasked source.
/// Returns the tests that passed. The sandbox cannot be reused.
///
/// Tests that fail on this source are left out, because no patch is required to fix them. For a
/// task that starts from scratch, the test patch is not applied.
///
/// # Errors
///
/// A grading fault if no test of a fail-to-pass file passes or the run does not end properly,
/// because then no patch can resolve the task. A sandbox fault if the sandbox fails.
pub async fn freeze_ids(
    handle: &SandboxHandle,
    task: &Task,
    hidden_copies: &HiddenCopies,
    time_limit: Option<Duration>,
) -> Result<FrozenIds, Fault> {
    let own = Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0));
    let named = || task.fail_to_pass.iter().chain(&task.pass_to_pass);
    let plan = TestPlan {
        command: task.test_command.clone(),
        workdir: task.workdir.clone(),
        files: named().map(|id| file_from_test_id(id).to_owned()).collect(),
        ids: None,
        env: task.command_env(),
        time_limit: time_limit.map_or(own, |limit| limit.min(own)),
        user: task.user.clone(),
    };
    let run = run_tests(handle, &plan, hidden_copies).await?;
    let frozen = FrozenIds {
        fail_to_pass: passed_tests(&run, &task.fail_to_pass),
        pass_to_pass: passed_tests(&run, &task.pass_to_pass),
    };
    // Tests that the test patch adds don't exist in this sandbox, so a file may have no passing
    // test.
    if task.from_scratch.is_some() {
        return Ok(frozen);
    }
    let of = |file: &&String| {
        frozen.fail_to_pass.iter().any(|id| file_from_test_id(id) == file_from_test_id(file))
    };
    let empty = task.fail_to_pass.iter().find(|file| !of(file));
    let what = match empty {
        _ if !run.is_complete => {
            "the test run does not end properly on the unmasked source".to_owned()
        }
        Some(file) => format!("no test of {file} passes on the unmasked source"),
        None => return Ok(frozen),
    };
    let last = String::from_utf8_lossy(&run.log);
    let last = last.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    Err(Fault::new(
        FaultLayer::Grade,
        format!("{}: {what}; last line of the output: {last}", task.id),
    )
    .cause(FaultCause::Invalid)
    .hint("the environment is incomplete: run `proctor tasks validate`"))
}

/// Runs every test below the work directory in a fresh sandbox with the environment and its
/// unmasked source, and returns the tests that passed. Returns an empty list if the run does not
/// end properly. The sandbox cannot be reused.
///
/// # Errors
///
/// A sandbox fault if the sandbox fails.
pub async fn run_full_suite(
    handle: &SandboxHandle,
    task: &Task,
    hidden_copies: &HiddenCopies,
) -> Result<Vec<String>, Fault> {
    // A file that cannot be collected, for example because an optional dependency is missing, must
    // not end the run.
    let on = "--continue-on-collection-errors".to_owned();
    let plan = TestPlan {
        command: task.test_command.iter().cloned().chain([on]).collect(),
        workdir: task.workdir.clone(),
        files: vec![".".to_owned()],
        ids: None,
        env: task.command_env(),
        time_limit: Duration::from_secs_f64(task.timeouts.grade_seconds.max(0.0)),
        user: task.user.clone(),
    };
    let run = run_tests(handle, &plan, hidden_copies).await?;
    let passed = run.tests.into_iter().filter(|(_, status)| *status == TestStatus::Passed);
    Ok(if run.is_complete { passed.map(|(id, _)| id).collect() } else { Vec::new() })
}

/// Returns the tests that passed in the files that `expected_ids` lists, and the ids in
/// `expected_ids` that passed.
fn passed_tests(run: &TestRun, expected_ids: &[String]) -> Vec<String> {
    let is_named = |id: &String| {
        expected_ids
            .iter()
            .any(|name| id == name || (!name.contains("::") && file_from_test_id(id) == name))
    };
    let ids = run.tests.iter().filter(|(_, status)| **status == TestStatus::Passed);
    ids.map(|(id, _)| id.clone()).filter(is_named).collect()
}

impl FrozenIds {
    /// Returns the task with test ids instead of files.
    pub(crate) fn replace_files_with_tests(&self, task: &Task) -> Task {
        Task {
            fail_to_pass: self.fail_to_pass.clone(),
            pass_to_pass: self.pass_to_pass.clone(),
            ..task.clone()
        }
    }
}
