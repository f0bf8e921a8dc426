//! Environments: each is built once per run and back end, even if many trials request it at the
//! same time.

use std::{collections::BTreeMap, path::Path, time::Instant};

use proctor_sandbox_api::{Backend, LayerSpec, Prepared};
use proctor_setup::{Memo, Sources, base_of, on_image};
use proctor_types::{Cause, Fault, ImageSettings, Layer, Task, TaskId};

use crate::FaultPolicy;

/// Prepared environments by back end and task.
///
/// The back end has its own cache on disk. This one keeps a run from asking the back end twice, and
/// reports a permanent build failure to every trial that needs the environment without building
/// again.
pub struct Environments {
    sources: Sources,
    /// Content digests of the local sources that the run was planned with.
    planned: BTreeMap<TaskId, String>,
    built: Memo<(&'static str, String), (Prepared, ImageSettings)>,
}

impl Environments {
    pub fn new(sources: Sources) -> Self {
        Self { sources, planned: BTreeMap::new(), built: Memo::default() }
    }

    /// Requires tasks to use the sources that their run was planned with.
    #[must_use]
    pub fn planned(self, planned: BTreeMap<TaskId, String>) -> Self {
        Self { planned, ..self }
    }

    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the environment of a task, what its image declares, and the build time in seconds if
    /// it was built now.
    pub async fn get(
        &self,
        backend: &dyn Backend,
        task: &Task,
        base_dir: &Path,
        policy: &FaultPolicy,
    ) -> Result<(Prepared, ImageSettings, Option<f64>), Fault> {
        let key = (backend.name(), task.id.to_string());
        let mut built = None;
        let work = async || {
            let begun = Instant::now();
            let image = backend.image_settings(&base_of(task, base_dir)?).await?;
            let task = &on_image(task, &image)?;
            let spec = proctor_setup::layer_spec(task, &self.sources, base_dir).await?;
            self.is_as_planned(task, &spec)?;
            let prepared = backend.prepare(&spec).await?;
            if prepared.built {
                built = Some(begun.elapsed().as_secs_f64());
            }
            Ok((prepared, image))
        };
        let (prepared, image) = self.built.get(key, |fault| policy.may_pass(fault), work).await?;
        Ok((prepared, image, built))
    }

    /// A run must not compare trials of two versions of a source.
    fn is_as_planned(&self, task: &Task, spec: &LayerSpec) -> Result<(), Fault> {
        let (Some(planned), Some(found)) = (self.planned.get(&task.id), &spec.source) else {
            return Ok(());
        };
        if *planned == found.digest {
            return Ok(());
        }
        let what = format!("{}: its source has changed since the run was planned", task.id);
        Err(Fault::new(Layer::Environment, what)
            .cause(Cause::Invalid)
            .hint("restore the source, or start a new run")
            .lasting())
    }

    /// The environment of programs that do not belong to a task. There is one for all of them.
    pub(crate) async fn own(
        &self,
        backend: &dyn Backend,
        spec: &LayerSpec,
        policy: &FaultPolicy,
    ) -> Result<Prepared, Fault> {
        // The empty name is free: no task has it.
        let key = (backend.name(), String::new());
        let work = async || Ok((backend.prepare(spec).await?, ImageSettings::default()));
        let (prepared, _) = self.built.get(key, |fault| policy.may_pass(fault), work).await?;
        Ok(prepared)
    }

    /// Whether the environment of a task exists.
    pub(crate) async fn has(&self, backend: &dyn Backend, task: &Task) -> bool {
        self.built.has(&(backend.name(), task.id.to_string())).await
    }

    /// Call this if the layer was removed during the run: the next caller builds it again.
    pub(crate) async fn forget(&self, backend: &dyn Backend, task: &Task) {
        self.built.forget(&(backend.name(), task.id.to_string())).await;
    }
}
