//! Caches what Proctor learns by running a task's own tests: the IDs of the tests in the task's
//! files, found on the unmasked source, and the evidence that the gold patch itself produces.

use std::{collections::BTreeSet, fs, path::PathBuf};

use proctor_grade::{
    ExpectedEvidence, FrozenIds, GRADER, GradeOptions, GradingResult, expected_gold_evidence,
    expected_strict_gold_evidence, needs_frozen_ids,
};
use proctor_setup::Memo;
use proctor_types::{Fault, Task, canonical_json, sha256_hex};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    GradingSandbox, error::record_fault, gold_patch::gold_patch, task_sandbox::environment_key,
};

/// Facts about tasks' tests, keyed by task, environment, back end, limits and grader.
pub struct FrozenTests {
    /// Disk cache of results. If `None`, results are determined again in every run.
    folder: Option<PathBuf>,
    frozen_ids: Memo<String, FrozenIds>,
    expected_evidence: Memo<String, ExpectedEvidence>,
    passing_suites: Memo<String, Vec<String>>,
}

impl FrozenTests {
    /// Creates `folder` if it is missing.
    pub fn new(folder: Option<PathBuf>) -> Self {
        let (frozen_ids, expected_evidence, passing_suites) = Default::default();
        Self { folder, frozen_ids, expected_evidence, passing_suites }
    }

    /// Returns the tests in the task's files; `None` for a task that lists its tests. The first
    /// caller opens a sandbox to find them; the others wait.
    ///
    /// # Errors
    ///
    /// Returns a sandbox fault, or a grading fault if the unmasked source fails its tests.
    pub async fn get(
        &self,
        grading_sandbox: &GradingSandbox<'_>,
        task: &Task,
    ) -> Result<Option<FrozenIds>, Fault> {
        if !needs_frozen_ids(task) {
            return Ok(None);
        }
        let key = key("frozen", grading_sandbox, task)?;
        self.find_and_cache(&self.frozen_ids, &key, || grading_sandbox.freeze_tests(task))
            .await
            .map(Some)
    }

    /// Returns the evidence that the gold patch itself produces, if an earlier grading determined
    /// it. If this evidence is known in advance, the patch need not be graded twice.
    ///
    /// # Errors
    ///
    /// Returns a record fault if the task cannot be serialized.
    pub async fn cached_expected_evidence(
        &self,
        grading_sandbox: &GradingSandbox<'_>,
        task: &Task,
    ) -> Result<Option<ExpectedEvidence>, Fault> {
        let key = key("expected", grading_sandbox, task)?;
        match self.expected_evidence.get_cached(&key).await {
            Some(expected) => Ok(Some(expected)),
            None => Ok(self.read_cached(&key)),
        }
    }

    /// Returns the evidence that the gold patch itself produces, if some of it also occurs in the
    /// given grading result. The gold patch is graded at most once per task, and only if a grading
    /// result has evidence that the gold patch could also produce. If the graded patch is the gold
    /// patch, it is not graded again. Without a gold patch, no evidence is excused: the unpatched
    /// source cannot be used instead, because it fails the same tests as a cheat.
    ///
    /// # Errors
    ///
    /// Returns a sandbox or grading fault.
    pub async fn expected_evidence(
        &self,
        grading_sandbox: &GradingSandbox<'_>,
        task: &Task,
        (patch, graded): (&[u8], &GradingResult),
        options: &GradeOptions,
    ) -> Result<Option<ExpectedEvidence>, Fault> {
        let seen = expected_gold_evidence(graded)?;
        if seen.is_empty() {
            return Ok(None);
        }
        let key = key("expected", grading_sandbox, task)?;
        let Ok(gold) = gold_patch(task) else { return Ok(None) };
        let of_gold = || async {
            if patch == gold.as_bytes() {
                return Ok(seen.clone());
            }
            let graded = grading_sandbox.grade_strict(task, gold.as_bytes(), options).await?;
            expected_strict_gold_evidence(&graded)
        };
        let expected = self.find_and_cache(&self.expected_evidence, &key, of_gold).await?;
        Ok(seen.intersects(&expected).then_some(expected))
    }

    /// Returns every test of the repository that passes both on the source and with the gold patch.
    /// The list is empty if the test run crashes or times out. The caller must hold a capacity
    /// permit.
    ///
    /// # Errors
    ///
    /// Returns a sandbox or grading fault.
    pub async fn find_passing_suite(
        &self,
        grading_sandbox: &GradingSandbox<'_>,
        task: &Task,
        options: &GradeOptions,
    ) -> Result<Vec<String>, Fault> {
        let key = key("suite", grading_sandbox, task)?;
        let find = || async {
            let found = grading_sandbox.find_passing_tests(task).await?;
            if found.is_empty() {
                return Ok(found);
            }
            let all = with_whole_suite(task, options, found);
            let options = GradeOptions { frozen_ids: None, ..options.clone() };
            let graded =
                grading_sandbox.grade_strict(&all, gold_patch(task)?.as_bytes(), &options).await?;
            Ok(graded.verdict.pass_to_pass.passed)
        };
        self.find_and_cache(&self.passing_suites, &key, find).await
    }

    /// Returns the cached value for `key`, or computes it with `find` and caches it. Faults are not
    /// cached, so the next caller tries again.
    async fn find_and_cache<T, F>(
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
            if let Some(kept) = self.read_cached(key) {
                return Ok(kept);
            }
            let found = find().await?;
            self.write_cached(key, &found);
            Ok(found)
        };
        memo.get_or_compute(key.to_owned(), |_| true, work).await
    }

    fn read_cached<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let file = self.folder.as_ref()?.join(key).with_extension("json");
        serde_json::from_slice(&proctor_files::read_regular_file(&file).ok()?).ok()
    }

    /// Write errors are ignored, because the value is only cached. The write is atomic, because
    /// another run may read the file at the same time.
    fn write_cached<T: Serialize>(&self, key: &str, value: &T) {
        let Some(folder) = &self.folder else { return };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let file = tempfile::NamedTempFile::new_in(folder)?;
            fs::write(file.path(), serde_json::to_vec(value)?)?;
            file.persist(folder.join(key).with_extension("json"))?;
            Ok(())
        };
        let _ = write();
    }
}

/// Returns the task with the tests of `find_passing_suite` added to its pass-to-pass tests.
pub(crate) fn with_whole_suite(task: &Task, options: &GradeOptions, suite: Vec<String>) -> Task {
    let (fail_to_pass, mut pass_to_pass) = match &options.frozen_ids {
        Some(frozen) => (frozen.fail_to_pass.clone(), frozen.pass_to_pass.clone()),
        None => (task.fail_to_pass.clone(), task.pass_to_pass.clone()),
    };
    let known: BTreeSet<&String> = fail_to_pass.iter().chain(&pass_to_pass).collect();
    let more: Vec<String> = suite.into_iter().filter(|id| !known.contains(id)).collect();
    pass_to_pass.extend(more);
    Task { fail_to_pass, pass_to_pass, ..task.clone() }
}

fn key(kind: &str, grading_sandbox: &GradingSandbox<'_>, task: &Task) -> Result<String, Fault> {
    let all = json!({
        "what": kind,
        "grader": GRADER,
        "place": environment_key(grading_sandbox.backend, grading_sandbox.environment, grading_sandbox.findings),
        "limits": grading_sandbox.limits,
        "task": serde_json::to_value(task).map_err(record_fault)?,
    });
    Ok(sha256_hex(canonical_json(&all).as_bytes()))
}
