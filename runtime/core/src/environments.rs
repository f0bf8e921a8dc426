//! Environments, built once a run and back end however many trials ask at once.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};

use proctor_sandbox_api::{Backend, Prepared};
use proctor_setup::Sources;
use proctor_types::{Fault, Task};
use tokio::sync::{Mutex, OnceCell};

type Cell = Arc<OnceCell<Result<Prepared, Fault>>>;

/// Prepared environments by back end and task.
///
/// The back end has its own cache on disk; this one keeps a run from asking it twice and makes a
/// build that failed fail once, for every trial that needs it.
pub struct Environments {
    sources: Sources,
    cells: Mutex<BTreeMap<(&'static str, String), Cell>>,
}

impl Environments {
    pub fn new(sources: Sources) -> Self {
        Self { sources, cells: Mutex::default() }
    }

    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The environment of a task, and the seconds that building it took, if it was built now.
    pub async fn get(
        &self,
        backend: &dyn Backend,
        task: &Task,
        base_dir: &Path,
    ) -> Result<(Prepared, Option<f64>), Fault> {
        let key = (backend.name(), task.id.to_string());
        let cell = Arc::clone(self.cells.lock().await.entry(key).or_default());
        let mut built = None;
        let prepared = cell
            .get_or_init(|| async {
                let begun = Instant::now();
                let spec = proctor_setup::layer_spec(task, &self.sources, base_dir).await?;
                let prepared = backend.prepare(&spec).await?;
                if prepared.built {
                    built = Some(begun.elapsed().as_secs_f64());
                }
                Ok(prepared)
            })
            .await;
        prepared.clone().map(|prepared| (prepared, built))
    }
}
