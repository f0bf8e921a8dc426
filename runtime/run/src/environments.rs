//! Caches environments. Each environment is built once per run and back end, even if many trials
//! request it concurrently.

use std::{collections::BTreeMap, path::Path, time::Instant};

use proctor_sandbox_api::{Backend, LayerSpec, PreparedEnvironment};
use proctor_setup::{Memo, Sources, sandbox_base, with_image_settings};
use proctor_types::{Fault, FaultCause, FaultLayer, ImageSettings, Task, TaskId};

use crate::FaultPolicy;

/// Prepared environments by back end and task.
///
/// The back end has its own cache on disk. With this additional cache, a run asks the back end for
/// each environment only once. If a build fails permanently, every trial that needs the environment
/// gets the same fault, without another build.
pub struct Environments {
    sources: Sources,
    /// Content digests of the local sources that the run was planned with.
    planned_digests: BTreeMap<TaskId, String>,
    built_environments: Memo<(&'static str, String), (PreparedEnvironment, ImageSettings)>,
}

impl Environments {
    pub fn new(sources: Sources) -> Self {
        Self { sources, planned_digests: BTreeMap::new(), built_environments: Memo::default() }
    }

    /// Requires each task's source to match the digest that the run was planned with.
    #[must_use]
    pub fn with_planned_digests(self, planned_digests: BTreeMap<TaskId, String>) -> Self {
        Self { planned_digests, ..self }
    }

    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the environment of a task, the settings declared by its image, and the build time
    /// in seconds if this call built it.
    pub async fn get(
        &self,
        backend: &dyn Backend,
        task: &Task,
        base_dir: &Path,
        policy: &FaultPolicy,
    ) -> Result<(PreparedEnvironment, ImageSettings, Option<f64>), Fault> {
        let key = (backend.name(), task.id.to_string());
        let mut built = None;
        let work = async || {
            let begun = Instant::now();
            let image = backend.image_settings(&sandbox_base(task, base_dir)?).await?;
            let task = &with_image_settings(task, &image)?;
            let spec = proctor_setup::resolve_layer_spec(task, &self.sources, base_dir).await?;
            self.check_planned_digest(task, &spec)?;
            let prepared = backend.prepare(&spec).await?;
            if prepared.was_built {
                built = Some(begun.elapsed().as_secs_f64());
            }
            Ok((prepared, image))
        };
        let (prepared, image) = self
            .built_environments
            .get_or_compute(key, |fault| policy.is_retryable(fault), work)
            .await?;
        Ok((prepared, image, built))
    }

    /// Returns a fault if the source has changed since planning, because a run must not compare
    /// trials of two versions.
    fn check_planned_digest(&self, task: &Task, spec: &LayerSpec) -> Result<(), Fault> {
        let (Some(planned), Some(found)) = (self.planned_digests.get(&task.id), &spec.source)
        else {
            return Ok(());
        };
        if *planned == found.digest {
            return Ok(());
        }
        let what = format!("{}: the task's source has changed since the run was planned", task.id);
        Err(Fault::new(FaultLayer::Environment, what)
            .cause(FaultCause::Invalid)
            .hint("restore the source, or start a new run")
            .into_permanent())
    }

    /// Returns the environment for programs that do not belong to a task. All such programs share
    /// one environment.
    pub(crate) async fn get_shared(
        &self,
        backend: &dyn Backend,
        spec: &LayerSpec,
        policy: &FaultPolicy,
    ) -> Result<PreparedEnvironment, Fault> {
        // No task has an empty name, so this key is free.
        let key = (backend.name(), String::new());
        let work = async || Ok((backend.prepare(spec).await?, ImageSettings::default()));
        let (prepared, _) = self
            .built_environments
            .get_or_compute(key, |fault| policy.is_retryable(fault), work)
            .await?;
        Ok(prepared)
    }

    /// Whether the task's environment is already built.
    pub(crate) async fn is_built(&self, backend: &dyn Backend, task: &Task) -> bool {
        self.built_environments.contains(&(backend.name(), task.id.to_string())).await
    }

    /// Drops the cached environment so that the next caller rebuilds it. Call this if the layer
    /// was removed during the run.
    pub(crate) async fn forget(&self, backend: &dyn Backend, task: &Task) {
        self.built_environments.forget(&(backend.name(), task.id.to_string())).await;
    }
}
