//! Runs tests a second time, isolated from the first run.
//!
//! Graded code ran in the sandbox of the first run and may have left a file there. With that file,
//! the code could recognize the second run and make canaries fail or tests pass.

use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_setup::{ApplyError, apply_graded_patch};
use proctor_types::{Evidence, Fault, FaultLayer, FromScratch};

use super::Grading;
use crate::{
    TestRun, exhaustion,
    patched_tree::PatchedTree,
    path_rules::GuardReason,
    records::Records,
    restore::restore_guarded_paths,
    scratch::{OriginalLibrary, Submission},
    session::TestSession,
    shadow::remove_shadows,
};

/// The model's work, which is applied again before a second run.
pub(super) enum Solution<'a> {
    Patch(&'a [u8]),
    Submission { start: &'a FromScratch, patch: &'a [u8], original: &'a OriginalLibrary },
}

impl Grading<'_> {
    /// Runs the tests again. Returns evidence instead of results if the run made the sandbox
    /// unusable.
    pub(super) async fn rerun(
        &self,
        session: &TestSession<'_>,
        patched_tree: &PatchedTree<'_>,
        solution: &Solution<'_>,
    ) -> Result<Result<(TestRun, Records), Evidence>, Fault> {
        let Some(fresh) = self.fresh_sandboxes else {
            let (run, records, _) = session.run(self.handle).await?;
            return Ok(Ok((run, records)));
        };
        // Keep the first sandbox open, because its counters are read at the end. No process runs in
        // it anymore.
        let mut sandbox = fresh.open().await?;
        let started =
            self.rerun_in_sandbox(sandbox.handle(), session, patched_tree, solution).await;
        let started = match started {
            Ok(started) => Ok(Ok(started)),
            Err(fault) => exhaustion::exhaustion_evidence(sandbox.handle(), fault).await.map(Err),
        };
        // Keep the results even if closing fails: dropping the sandbox also shuts it down.
        let _ = sandbox.close().await;
        started
    }

    async fn rerun_in_sandbox(
        &self,
        handle: &SandboxHandle,
        session: &TestSession<'_>,
        patched_tree: &PatchedTree<'_>,
        solution: &Solution<'_>,
    ) -> Result<(TestRun, Records), Fault> {
        let task = self.task;
        let PatchedTree { pristine, paths, roots, changed_paths: changed } = *patched_tree;
        let defenses = self.options.defenses;
        let absent = self.strip_sandbox(handle, pristine, paths).await?;
        if let Solution::Submission { original, .. } = solution
            && defenses.guard_original
        {
            original.remove(handle, task, pristine, paths).await?;
        }
        if let Solution::Patch(patch) = solution {
            if !patch.trim_ascii().is_empty() {
                let (root, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
                let applied = apply_graded_patch(handle, &root, patch, owner).await;
                applied.map_err(|error| self.apply_fault(error))?;
            }
            if defenses.remove_shadowing {
                let imported = changed
                    .iter()
                    .filter(|path| paths.guard_reason(path) != Some(GuardReason::SelfLoading))
                    .cloned()
                    .collect();
                remove_shadows(handle, &task.workdir, pristine, roots, &imported).await?;
            }
        }
        restore_guarded_paths(handle, &task.workdir, pristine, paths, changed, &absent, defenses)
            .await?;
        if let (Solution::Submission { start, patch, .. }, Some(submitted)) =
            (solution, &session.origin_options)
        {
            let folder = RawPath::from(submitted.folder.as_str());
            let laid = Submission::write(handle, folder, start, patch).await;
            laid.map_err(|error| self.apply_fault(error))?;
        }
        let (run, records, _) = session.run(handle).await?;
        Ok((run, records))
    }

    /// Converts an error from applying the solution again to a fault. The solution applied in the
    /// first run, so it must also apply now.
    fn apply_fault(&self, error: ApplyError) -> Fault {
        match error {
            ApplyError::Patch(error) => {
                let what = format!(
                    "{}: the patch applies in one sandbox but not in another",
                    self.task.id
                );
                Fault::new(FaultLayer::Grade, format!("{what}: {error}"))
            }
            ApplyError::Sandbox(error) => error.to_fault("applying the patch again"),
        }
    }
}
