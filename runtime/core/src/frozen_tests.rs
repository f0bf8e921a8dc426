//! The tests that a row's files stand for on the unmasked source: run once, before any grading.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use proctor_grade::{Frozen, GRADER, needs_freezing};
use proctor_types::{Fault, Task, canonical, sha256_hex};
use serde_json::json;
use tokio::sync::{Mutex, OnceCell};

use crate::{GradingSandbox, grading::prepared_place, recorder::record_fault};

/// A fault is not kept: whatever asks next tries again, as after any other fault.
type Cell = Arc<OnceCell<Arc<Frozen>>>;

/// Frozen tests by task, environment, back end, limits and grader.
pub struct FrozenTests {
    /// Absent: frozen anew in every run.
    folder: Option<PathBuf>,
    cells: Mutex<BTreeMap<String, Cell>>,
}

impl FrozenTests {
    /// `folder` is made where it is missing.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, cells: Mutex::default() }
    }

    /// What the task's files hold; nothing for a task that names its tests. The first to ask opens
    /// a sandbox for it; the others wait.
    ///
    /// # Errors
    ///
    /// A fault of the sandbox, or of the grade where the unmasked source does not pass its tests.
    pub async fn get(
        &self,
        handle: &GradingSandbox<'_>,
        task: &Task,
    ) -> Result<Option<Frozen>, Fault> {
        if !needs_freezing(task) {
            return Ok(None);
        }
        let all = json!({
            "grader": GRADER,
            "place": prepared_place(handle.backend, handle.environment, handle.findings),
            "limits": handle.limits,
            "task": serde_json::to_value(task).map_err(record_fault)?,
        });
        let key = sha256_hex(canonical(&all).as_bytes());
        let cell = Arc::clone(self.cells.lock().await.entry(key.clone()).or_default());
        let frozen = cell.get_or_try_init(|| async {
            if let Some(kept) = self.read(&key) {
                return Ok(Arc::new(kept));
            }
            let frozen = handle.freeze(task).await?;
            self.keep(&key, &frozen);
            Ok(Arc::new(frozen))
        });
        frozen.await.map(|frozen| Some(Frozen::clone(frozen)))
    }

    fn read(&self, key: &str) -> Option<Frozen> {
        let file = self.folder.as_ref()?.join(key).with_extension("json");
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// What cannot be written is only lost. Whole or not at all: another run may read it now.
    fn keep(&self, key: &str, frozen: &Frozen) {
        let Some(folder) = &self.folder else { return };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let file = tempfile::NamedTempFile::new_in(folder)?;
            fs::write(file.path(), serde_json::to_vec(frozen)?)?;
            file.persist(folder.join(key).with_extension("json"))?;
            Ok(())
        };
        let _ = write();
    }
}
