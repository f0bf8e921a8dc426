//! Stub solutions contain everything that the statement requests, but their functions only return
//! `None` or another constant. If a stub solution resolves a task, the task is useless, because its
//! tests check nothing.

use std::{collections::BTreeSet, time::Duration};

use proctor_grade::TestPlan;
use proctor_sandbox_api::PreparedEnvironment;
use proctor_setup::LayerFindings;
use proctor_types::{Cheat, Task, TestStatus};

use super::{context::CandidateContext, outcome::StopReason};
use crate::{
    Carving,
    carve::{FIRST_ARGUMENT, NONE_VALUE, replace_bodies},
    freeze::{complete_statuses, run_patched_tests},
};

/// In a task's `cheats`, the name of the solution whose functions do nothing.
const DO_NOTHING_NAME: &str = "functions that do nothing";

/// Returns the name of the solution whose functions all return the same value.
pub(super) fn stub_name(returns: &str) -> String {
    format!("functions that return {}", returns.replace(FIRST_ARGUMENT, "their first argument"))
}

pub(super) fn empty_stub_cheat(patch: String) -> Cheat {
    Cheat { name: DO_NOTHING_NAME.to_owned(), patch }
}

/// Returns a patch, to be applied on top of the mask, that restores all the removed code but leaves
/// the function bodies empty.
pub(super) fn empty_stub_patch(carving: &Carving) -> String {
    constant_stub_patch(carving, NONE_VALUE)
}

/// Returns a patch, to be applied on top of the mask, that restores all the removed code but makes
/// every function do nothing except return `returns`.
fn constant_stub_patch(carving: &Carving, returns: &str) -> String {
    let idle = carving.files.iter().map(|(file, (before, after))| {
        let paths: BTreeSet<&str> = carving
            .objects
            .iter()
            .filter(|object| object.file == *file)
            .map(|object| object.path.as_str())
            .collect();
        let idle = replace_bodies(before, returns, &|path| paths.contains(path));
        (file.clone(), (after.clone(), idle.unwrap_or_else(|| before.clone())))
    });
    // Reuse `mask`, which returns the diff between each file's first and second text.
    Carving { objects: Vec::new(), files: idle.collect() }.mask()
}

/// Time limit for runs with stub solutions, which may never end: a minimum in seconds plus a
/// multiple of the whole suite's duration.
const MIN_STUB_SECONDS: f64 = 30.0;
const STUB_SUITE_FACTOR: f64 = 10.0;

impl CandidateContext<'_> {
    /// Returns the time limit for running tests with a stub solution.
    pub(super) fn stub_time_limit(&self, plan: &TestPlan) -> Duration {
        plan.time_limit
            .min(Duration::from_secs_f64(MIN_STUB_SECONDS + STUB_SUITE_FACTOR * self.suite.seconds))
    }

    /// Returns how many of the given tests pass with a stub solution.
    ///
    /// # Errors
    /// A rejection if the solution resolves the task, or a sandbox fault.
    pub(super) async fn count_passing_stub(
        &self,
        task: &Task,
        environment: &PreparedEnvironment,
        findings: &LayerFindings,
        (cheat, ids): (&Cheat, &[String]),
    ) -> Result<usize, StopReason> {
        let mut plan = self.test_plan(task, ids.to_vec());
        plan.time_limit = self.stub_time_limit(&plan);
        let mask = task.mask.clone().unwrap_or_default().into_bytes();
        let patches: [&[u8]; 2] = [&mask, cheat.patch.as_bytes()];
        let ran =
            run_patched_tests((self.backend, environment, findings), task, &plan, &patches).await?;
        // A stub solution whose run timed out does not resolve the task.
        let Ok(statuses) = complete_statuses(ran, "stubs") else { return Ok(0) };
        let passes = |id: &&String| statuses.get(*id) == Some(&TestStatus::Passed);
        if task.fail_to_pass.iter().all(|id| passes(&id)) {
            return Err(StopReason::Reject("verify", format!("{} resolve the task", cheat.name)));
        }
        Ok(ids.iter().filter(passes).count())
    }

    /// Checks that no solution whose functions return a constant resolves the task. Some tests fail
    /// with `None` but pass with any truthy value.
    ///
    /// # Errors
    /// A rejection if one of these solutions resolves the task, or a sandbox fault.
    pub(super) async fn reject_constant_stubs(
        &self,
        task: &Task,
        environment: &PreparedEnvironment,
        findings: &LayerFindings,
        carving: &Carving,
    ) -> Result<(), StopReason> {
        for returns in &self.settings.idle.returns {
            let patch = constant_stub_patch(carving, returns);
            let cheat = Cheat { name: stub_name(returns), patch };
            let solution = (&cheat, &task.fail_to_pass[..]);
            self.count_passing_stub(task, environment, findings, solution).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Kind, Object};

    #[test]
    fn empty_stub_patch_restores_everything_with_empty_functions() {
        let before = "import x\n\n\ndef f(a):\n    return x.go(a)\n\n\ndef kept():\n    return 1\n";
        let after = "import x\n\n\ndef kept():\n    return 1\n";
        let files = BTreeMap::from([
            ("p/a.py".to_owned(), (before.to_owned(), after.to_owned())),
            ("p/__init__.py".to_owned(), ("from .a import f\n".to_owned(), String::new())),
        ]);
        let object = Object {
            file: "p/a.py".into(),
            path: "f".into(),
            kind: Kind::Function,
            aliases: Vec::new(),
            stub: String::new(),
        };
        let carving = Carving { objects: vec![object], files };
        let patch = empty_stub_patch(&carving);
        assert!(patch.contains("+def f(a):\n+    pass\n"), "{patch}");
        assert!(patch.contains("+from .a import f\n"), "{patch}");
        assert!(!patch.contains("x.go") && !patch.contains("-def kept"), "{patch}");
        let constant = constant_stub_patch(&carving, FIRST_ARGUMENT);
        assert!(constant.contains("+def f(a):\n+    return a\n"), "{constant}");
        assert_eq!(stub_name(FIRST_ARGUMENT), "functions that return their first argument");
    }
}
