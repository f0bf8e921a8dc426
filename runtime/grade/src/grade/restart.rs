//! A second start of the tests, isolated from the first.
//!
//! Graded code ran in the sandbox of the first start and may have left a file that identifies a
//! second start. Canaries could then fail, or tests pass, because of that file.

use async_trait::async_trait;
use proctor_sandbox_api::{Sandbox, SandboxHandle, wire::RawPath};
use proctor_setup::{ApplyError, apply_parts};
use proctor_types::{Evidence, Fault, FromScratch, Layer};

use super::Grading;
use crate::{
    TestRun, exhausted,
    paths::Guard,
    pristine::Laid,
    records::Records,
    restore::restore,
    scratch::{Original, Submission},
    session::TestSession,
    shadow::remove_shadows,
};

/// Opens sandboxes in the state that a grading's first sandbox had before anything was applied.
#[async_trait]
pub trait FreshSandboxes: Send + Sync {
    async fn open(&self) -> Result<Box<dyn Sandbox>, Fault>;
}

/// What is applied for a start.
pub(super) enum Laying<'a> {
    Patch(&'a [u8]),
    Submission { start: &'a FromScratch, patch: &'a [u8], original: &'a Original },
}

impl Grading<'_> {
    /// Starts the tests again. Returns evidence in place of a run if the sandbox did not survive
    /// it.
    pub(super) async fn start_again(
        &self,
        session: &TestSession<'_>,
        laid: &Laid<'_>,
        laying: &Laying<'_>,
    ) -> Result<Result<(TestRun, Records), Evidence>, Fault> {
        let Some(fresh) = self.fresh else {
            let (run, records, _) = session.run(self.handle).await?;
            return Ok(Ok((run, records)));
        };
        // The first sandbox stays open, because the counters read at the end are in it. Nothing
        // runs there any more.
        let mut sandbox = fresh.open().await?;
        let started = self.start_in(sandbox.handle(), session, laid, laying).await;
        let started = match started {
            Ok(started) => Ok(Ok(started)),
            Err(fault) => exhausted::judge(sandbox.handle(), fault).await.map(Err),
        };
        // Dropping it ends it as well. The findings are kept.
        let _ = sandbox.close().await;
        started
    }

    async fn start_in(
        &self,
        handle: &SandboxHandle,
        session: &TestSession<'_>,
        laid: &Laid<'_>,
        laying: &Laying<'_>,
    ) -> Result<(TestRun, Records), Fault> {
        let task = self.task;
        let Laid { pristine, paths, roots, changed } = *laid;
        let defences = self.options.defences;
        let absent = self.set_up(handle, pristine, paths).await?;
        if let Laying::Submission { original, .. } = laying
            && defences.guard_original
        {
            original.remove(handle, task, pristine, paths).await?;
        }
        if let Laying::Patch(patch) = laying {
            if !patch.trim_ascii().is_empty() {
                let (root, owner) = (RawPath::from(task.workdir.as_str()), task.user.as_deref());
                let applied = apply_parts(handle, &root, patch, owner).await;
                applied.map_err(|error| self.not_laid(error))?;
            }
            if defences.remove_shadowing {
                let imported = changed
                    .iter()
                    .filter(|path| paths.guard(path) != Some(Guard::SelfLoading))
                    .cloned()
                    .collect();
                remove_shadows(handle, &task.workdir, pristine, roots, &imported).await?;
            }
        }
        restore(handle, &task.workdir, pristine, paths, changed, &absent, defences).await?;
        if let (Laying::Submission { start, patch, .. }, Some(submitted)) =
            (laying, &session.submitted)
        {
            let folder = RawPath::from(submitted.folder.as_str());
            let laid = Submission::lay(handle, folder, start, patch).await;
            laid.map_err(|error| self.not_laid(error))?;
        }
        let (run, records, _) = session.run(handle).await?;
        Ok((run, records))
    }

    /// What applied at the first start must apply again.
    fn not_laid(&self, error: ApplyError) -> Fault {
        match error {
            ApplyError::Patch(error) => {
                let what = format!(
                    "{}: the patch applies in one sandbox but not in another",
                    self.task.id
                );
                Fault::new(Layer::Grade, format!("{what}: {error}"))
            }
            ApplyError::SandboxHandle(error) => error.fault("applying the patch again"),
        }
    }
}
