//! What each layer holds of a task's secrets: looked for once, before any trial's clock runs.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use proctor_sandbox_api::{Backend, Prepared, RoomSpec};
use proctor_seat::LayerSeal;
use proctor_types::{Fault, SandboxSpec, Task};
use tokio::sync::{Mutex, OnceCell};

type Cell = Arc<OnceCell<Result<Arc<LayerSeal>, Fault>>>;

/// Seals by back end and by what they were taken of, kept on disk from run to run.
pub struct Seals {
    folder: PathBuf,
    cells: Mutex<BTreeMap<(&'static str, String), Cell>>,
}

impl Seals {
    /// `folder` is made where it is missing.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, cells: Mutex::default() }
    }

    /// The seal of a task's layer. The first to ask opens a room for it; the others wait.
    pub async fn get(
        &self,
        backend: &dyn Backend,
        environment: &Prepared,
        task: &Task,
        limits: &SandboxSpec,
    ) -> Result<Arc<LayerSeal>, Fault> {
        let key = LayerSeal::key(task, &environment.digest)?;
        let cell = {
            let mut cells = self.cells.lock().await;
            Arc::clone(cells.entry((backend.name(), key.clone())).or_default())
        };
        let folder = self.folder.join(backend.name());
        let seal = cell.get_or_init(|| async {
            if let Some(kept) = LayerSeal::read(&folder, &key) {
                return Ok(Arc::new(kept));
            }
            let spec = RoomSpec {
                environment: environment.clone(),
                limits: limits.clone(),
                purpose: format!("the seal of {}", task.id),
            };
            let mut sandbox = backend.open(&spec).await?;
            let taken = LayerSeal::take(sandbox.room(), task).await;
            let closed = sandbox.close().await;
            let seal = taken?;
            closed?;
            seal.write(&folder, &key)?;
            Ok(Arc::new(seal))
        });
        seal.await.clone()
    }
}
