//! The parts of a task that an attack uses: the task's modules, tests and test runner.

use proctor_patch::{Patch, gold_patch};
use proctor_types::{Fault, FaultLayer, Task, file_from_test_id};

use crate::{
    attack::Runner,
    modules::{Module, ReadInitialFile, find_changed_modules},
};

/// A task as the target of an attack.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub runner: Runner,
    /// The work directory. If only the image defines it, this is `.`, because tests start there.
    pub workdir: String,
    /// The modules that the solution changes, those with the most names first.
    pub modules: Vec<Module>,
    /// The reason why there are no modules. `None` if there are some.
    pub no_modules_reason: Option<&'static str>,
    /// The ids of all expected tests.
    pub tests: Vec<String>,
}

impl Target {
    /// Derives the target from a task.
    ///
    /// # Errors
    /// Returns a fault if the gold patch or the task's initial files cannot be read.
    pub fn from_task(task: &Task, read_initial_file: &ReadInitialFile<'_>) -> Result<Self, Fault> {
        let gold = gold_patch(task).map_err(|error| {
            Fault::new(
                FaultLayer::Setup,
                format!("{}: cannot read the gold patch: {error}", task.id),
            )
        })?;
        let (found, no_modules_reason) = match gold {
            _ if task.from_scratch.is_some() => (
                Vec::new(),
                Some("the agent starts from an empty directory, so there is no module to change"),
            ),
            None => (Vec::new(), Some("the task has no gold patch")),
            Some(gold) => {
                let found = find_changed_modules(task, &Patch::parse(&gold), read_initial_file)?;
                let none = found.is_empty().then_some("the solution changes no Python module");
                (found, none)
            }
        };
        let workdir = if task.workdir.is_empty() { "." } else { &task.workdir };
        let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        Ok(Self {
            runner: detect_runner(task),
            workdir: workdir.to_owned(),
            modules: found,
            no_modules_reason,
            tests: ids.cloned().collect(),
        })
    }

    /// Returns the first fail-to-pass test's file.
    pub fn test_file(&self) -> Option<&str> {
        let file = file_from_test_id(self.tests.first()?);
        file.ends_with(".py").then_some(file)
    }
}

/// Determines the runner from the test command: the benchmark's own if the row has one, otherwise
/// the task's.
fn detect_runner(task: &Task) -> Runner {
    let own = task.test_command.join(" ");
    let theirs = task.details().and_then(|details| serde_json::to_value(details).ok());
    let theirs = theirs.and_then(|details| details.get("test_cmd").map(ToString::to_string));
    let is = |words: &[&str]| {
        [Some(&own), theirs.as_ref()]
            .into_iter()
            .flatten()
            .any(|line| words.iter().any(|word| line.contains(word)))
    };
    if is(&["pytest"]) {
        Runner::Pytest
    } else if is(&["unittest", "runtests.py", "bin/test"]) {
        Runner::Unittest
    } else {
        Runner::Other
    }
}
