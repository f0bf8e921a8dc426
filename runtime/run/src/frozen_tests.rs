//! Results of running a task's own tests once: the tests that a row's files contain on the unmasked
//! source, and the evidence that gold's own run produces.

use std::{fs, path::PathBuf};

use proctor_grade::{
    Expected, Frozen, GRADER, GradeOptions, Graded, expected_of_gold, given_by_gold, needs_freezing,
};
use proctor_setup::Memo;
use proctor_types::{Fault, Task, canonical, sha256_hex};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    GradingSandbox, drive::gold_of, grading::prepared_environment, recorder::record_fault,
    wide::widened,
};

/// Keyed by task, environment, back end, limits and grader.
pub struct FrozenTests {
    /// Absent: determined again in every run.
    folder: Option<PathBuf>,
    frozen: Memo<String, Frozen>,
    expected: Memo<String, Expected>,
    suites: Memo<String, Vec<String>>,
}

impl FrozenTests {
    /// Creates `folder` if it is missing.
    pub fn new(folder: Option<PathBuf>) -> Self {
        let (frozen, expected, suites) = Default::default();
        Self { folder, frozen, expected, suites }
    }

    /// The tests in the task's files; empty for a task that names its tests. The first caller opens
    /// a sandbox to find out; the others wait.
    ///
    /// # Errors
    ///
    /// A fault of the sandbox, or of grading if the unmasked source fails its tests.
    pub async fn get(
        &self,
        handle: &GradingSandbox<'_>,
        task: &Task,
    ) -> Result<Option<Frozen>, Fault> {
        if !needs_freezing(task) {
            return Ok(None);
        }
        let key = key("frozen", handle, task)?;
        self.once(&self.frozen, &key, || handle.freeze(task)).await.map(Some)
    }

    /// The evidence that gold's own run produced, if an earlier grading determined it. A grading
    /// that knows it up front need not be repeated.
    ///
    /// # Errors
    ///
    /// A fault of the record if the task cannot be serialized.
    pub async fn known(
        &self,
        handle: &GradingSandbox<'_>,
        task: &Task,
    ) -> Result<Option<Expected>, Fault> {
        let key = key("expected", handle, task)?;
        match self.expected.known(&key).await {
            Some(expected) => Ok(Some(expected)),
            None => Ok(self.read(&key)),
        }
    }

    /// The part of a grading's evidence that gold's own run produces, too. Gold runs once per task,
    /// and only if a grading has evidence that it could explain. A grading of gold counts as that
    /// run. A task without a gold patch excuses nothing: its unpatched source fails the same tests
    /// as a cheat.
    ///
    /// # Errors
    ///
    /// A fault of the sandbox or of grading.
    pub async fn expected(
        &self,
        handle: &GradingSandbox<'_>,
        task: &Task,
        (patch, graded): (&[u8], &Graded),
        options: &GradeOptions,
    ) -> Result<Option<Expected>, Fault> {
        let seen = expected_of_gold(graded)?;
        if seen.is_empty() {
            return Ok(None);
        }
        let key = key("expected", handle, task)?;
        let Ok(gold) = gold_of(task) else { return Ok(None) };
        let of_gold = || async {
            if patch == gold.as_bytes() {
                return Ok(seen.clone());
            }
            let graded = handle.strict(task, gold.as_bytes(), options).await?;
            given_by_gold(&graded)
        };
        let expected = self.once(&self.expected, &key, of_gold).await?;
        Ok(seen.has_any_of(&expected).then_some(expected))
    }

    /// Every test of the repository that passes on the source and with gold; empty if the suite
    /// does not end properly. The caller holds a share of the machine.
    ///
    /// # Errors
    ///
    /// A fault of the sandbox or of grading.
    pub async fn suite(
        &self,
        handle: &GradingSandbox<'_>,
        task: &Task,
        options: &GradeOptions,
    ) -> Result<Vec<String>, Fault> {
        let key = key("suite", handle, task)?;
        let find = || async {
            let found = handle.suite(task).await?;
            if found.is_empty() {
                return Ok(found);
            }
            let all = widened(task, options, found);
            let options = GradeOptions { frozen: None, ..options.clone() };
            let graded = handle.strict(&all, gold_of(task)?.as_bytes(), &options).await?;
            Ok(graded.verdict.pass_to_pass.passed)
        };
        self.once(&self.suites, &key, find).await
    }

    /// Does not cache faults: the next caller tries again.
    async fn once<T, F>(
        &self,
        memo: &Memo<String, T>,
        key: &str,
        find: impl FnOnce() -> F,
    ) -> Result<T, Fault>
    where
        T: Clone + Serialize + DeserializeOwned,
        F: Future<Output = Result<T, Fault>>,
    {
        let work = async || {
            if let Some(kept) = self.read(key) {
                return Ok(kept);
            }
            let found = find().await?;
            self.keep(key, &found);
            Ok(found)
        };
        memo.get(key.to_owned(), |_| true, work).await
    }

    fn read<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let file = self.folder.as_ref()?.join(key).with_extension("json");
        serde_json::from_slice(&proctor_files::read(&file).ok()?).ok()
    }

    /// Ignores write errors: the value is only a cache. The write is atomic, because another run
    /// may be reading.
    fn keep<T: Serialize>(&self, key: &str, found: &T) {
        let Some(folder) = &self.folder else { return };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let file = tempfile::NamedTempFile::new_in(folder)?;
            fs::write(file.path(), serde_json::to_vec(found)?)?;
            file.persist(folder.join(key).with_extension("json"))?;
            Ok(())
        };
        let _ = write();
    }
}

fn key(what: &str, handle: &GradingSandbox<'_>, task: &Task) -> Result<String, Fault> {
    let all = json!({
        "what": what,
        "grader": GRADER,
        "place": prepared_environment(handle.backend, handle.environment, handle.findings),
        "limits": handle.limits,
        "task": serde_json::to_value(task).map_err(record_fault)?,
    });
    Ok(sha256_hex(canonical(&all).as_bytes()))
}
