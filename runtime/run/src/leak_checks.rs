//! Finds copies of a task's hidden content in each environment layer. Each layer is scanned once,
//! before any trial's clock starts.

use std::{path::PathBuf, sync::Arc};

use proctor_grade::{GRADER, find_leaks};
use proctor_sandbox_api::{Backend, PreparedEnvironment};
use proctor_setup::{LayerFindings, Memo};
use proctor_types::{Fault, SandboxSpec, Task};

use crate::FaultPolicy;

/// Leak checks by back end and layer content. They are cached on disk across runs.
pub struct LeakChecks {
    folder: PathBuf,
    checks: Memo<(&'static str, String), Arc<LayerFindings>>,
}

impl LeakChecks {
    /// Creates `folder` if it is missing.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, checks: Memo::default() }
    }

    /// Returns the leak check of a task's layer. The first caller runs the check in a sandbox, and
    /// the others wait for its result.
    pub async fn get(
        &self,
        backend: &dyn Backend,
        environment: &PreparedEnvironment,
        task: &Task,
        limits: &SandboxSpec,
        policy: &FaultPolicy,
    ) -> Result<Arc<LayerFindings>, Fault> {
        // The grader version is part of the key, because it determines how tools are inspected.
        let place = format!("{} {GRADER}", environment.digest);
        let look = async || find_leaks(backend, environment, task, limits).await;
        self.get_or_search(backend, &place, task, policy, look).await
    }

    /// Returns the leak check of a sandbox other than the task's own. `content_key` identifies the
    /// sandbox's content.
    pub(crate) async fn get_for_sandbox(
        &self,
        backend: &dyn Backend,
        content_key: &str,
        task: &Task,
        policy: &FaultPolicy,
        search: impl AsyncFnOnce() -> Result<LayerFindings, Fault>,
    ) -> Result<Arc<LayerFindings>, Fault> {
        self.get_or_search(backend, &format!("own {content_key}"), task, policy, search).await
    }

    async fn get_or_search(
        &self,
        backend: &dyn Backend,
        content_key: &str,
        task: &Task,
        policy: &FaultPolicy,
        search: impl AsyncFnOnce() -> Result<LayerFindings, Fault>,
    ) -> Result<Arc<LayerFindings>, Fault> {
        let key = LayerFindings::cache_key(task, content_key, &backend.agent_digest())?;
        let folder = self.folder.join(backend.name());
        let work = async || {
            if let Some(kept) = LayerFindings::read(&folder, &key) {
                return Ok(Arc::new(kept));
            }
            let leak_check = search().await?;
            leak_check.write(&folder, &key)?;
            Ok(Arc::new(leak_check))
        };
        let name = (backend.name(), key.clone());
        self.checks.get_or_compute(name, |fault| policy.is_retryable(fault), work).await
    }
}
