//! The verdict cache. Its keys cover everything that a verdict depends on. They contain no paths of
//! the host.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use proctor_grade::{GRADER, GradingResult, SANDBOX_KILLED, TIMED_OUT};
use proctor_types::{Fault, SandboxSpec, Task, canonical_json, sha256_hex};
use serde_json::json;

use crate::error::record_fault;

/// A directory of verdicts. Each is keyed by the SHA-256 of its task, patch, sandbox, preparation
/// and grader.
///
/// Unreadable entries count as missing, and write errors are ignored, because a cache must never
/// make a run fail.
#[derive(Debug, Clone)]
pub struct VerdictCache {
    folder: PathBuf,
}

impl VerdictCache {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub(crate) fn key(
        environment_key: &str,
        limits: &SandboxSpec,
        task: &Task,
        patch: &[u8],
        (quarantine, is_wide): (&BTreeSet<String>, bool),
    ) -> Result<String, Fault> {
        let task = serde_json::to_value(task).map_err(record_fault)?;
        let all = json!({
            "grader": GRADER,
            "place": environment_key,
            "limits": limits,
            "task": task,
            "patch": sha256_hex(patch),
            "quarantine": quarantine,
            "wide": is_wide,
        });
        Ok(sha256_hex(canonical_json(&all).as_bytes()))
    }

    /// Returns the complete grading for a key: verdict, log and raw results. A corrupt entry
    /// counts as missing.
    pub(crate) fn find(&self, key: &str) -> Option<GradingResult> {
        let folder = self.folder.join(key);
        let read = |name: &str| proctor_files::read_regular_file(&folder.join(name)).ok();
        let (text, log, raw) = (read("verdict.json")?, read("log.txt")?, read("results.jsonl")?);
        if read("sum")? != compute_checksum(&text, &log, &raw).into_bytes() {
            return None;
        }
        Some(GradingResult { verdict: serde_json::from_slice(&text).ok()?, log, raw_results: raw })
    }

    pub(crate) fn store(&self, key: &str, grading_result: &GradingResult) {
        // Don't cache a verdict with evidence of a timeout or a killed sandbox: the next grading
        // run may stay within the time and memory limits.
        let passing = [TIMED_OUT, SANDBOX_KILLED];
        if grading_result
            .verdict
            .evidence
            .iter()
            .any(|found| passing.contains(&found.kind.as_str()))
        {
            return;
        }
        let _ = self.write(&self.folder.join(key), grading_result);
    }

    /// Writes to a temporary directory and renames it, so that readers never see a partial entry.
    fn write(&self, folder: &Path, grading_result: &GradingResult) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let beside = tempfile::tempdir_in(&self.folder)?;
        let text = serde_json::to_vec(&grading_result.verdict)?;
        fs::write(beside.path().join("verdict.json"), &text)?;
        fs::write(
            beside.path().join("sum"),
            compute_checksum(&text, &grading_result.log, &grading_result.raw_results),
        )?;
        fs::write(beside.path().join("log.txt"), &grading_result.log)?;
        fs::write(beside.path().join("results.jsonl"), &grading_result.raw_results)?;
        // The rename fails if the entry already exists, for example because another process wrote
        // the same verdict. In that case, dropping the guard removes the temporary directory.
        fs::rename(beside.path(), folder)
    }
}

fn compute_checksum(verdict: &[u8], log: &[u8], raw: &[u8]) -> String {
    sha256_hex([verdict, log, raw].map(sha256_hex).concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use proctor_types::Evidence;
    use serde_json::json;

    use super::*;

    fn task(statement: &str) -> Task {
        serde_json::from_value(json!({
            "schema_version": 1, "id": "t", "statement": statement, "environment": {},
            "fail_to_pass": ["f"], "test_command": []
        }))
        .unwrap()
    }

    fn sample_grading_result(evidence: &[&str]) -> GradingResult {
        let evidence: Vec<Evidence> =
            evidence.iter().map(|kind| Evidence::new(*kind, "", Vec::new())).collect();
        let verdict = serde_json::from_value(json!({
            "schema_version": 1, "task": "t", "resolved": true, "passed_rate": 1.0,
            "fail_to_pass": {"passed": ["f"], "failed": []},
            "pass_to_pass": {"passed": [], "failed": []}, "tests": {"f": "passed"},
            "policies": {}, "integrity": "clean", "evidence": evidence
        }))
        .unwrap();
        GradingResult { verdict, log: b"log".to_vec(), raw_results: b"raw".to_vec() }
    }

    #[test]
    fn key_covers_every_input_of_a_verdict() {
        let limits = SandboxSpec::default();
        let small = SandboxSpec { memory_mb: 64, ..limits.clone() };
        let key = |place, limits, statement, patch| {
            let apart = BTreeSet::new();
            VerdictCache::key(place, limits, &task(statement), patch, (&apart, false)).unwrap()
        };
        let keys = [
            key("e", &limits, "s", b"p"),
            key("f", &limits, "s", b"p"),
            key("e", &small, "s", b"p"),
            key("e", &limits, "r", b"p"),
            key("e", &limits, "s", b"q"),
        ];
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        assert_eq!(keys[0], key("e", &limits, "s", b"p"));
    }

    #[test]
    fn complete_verdicts_are_cached_but_timeouts_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let verdicts = VerdictCache::new(folder.path().join("verdicts"));
        assert!(verdicts.find("k").is_none());
        verdicts.store("k", &sample_grading_result(&[]));
        verdicts.store("k", &sample_grading_result(&[]));
        let found = verdicts.find("k").unwrap();
        assert_eq!((found.verdict, found.log, found.raw_results), {
            let all = sample_grading_result(&[]);
            (all.verdict, all.log, all.raw_results)
        });
        verdicts.store("late", &sample_grading_result(&["timed_out"]));
        assert!(verdicts.find("late").is_none());
        assert_eq!(fs::read_dir(folder.path().join("verdicts")).unwrap().count(), 1);

        let kept = folder.path().join("verdicts/k/verdict.json");
        let text = fs::read_to_string(&kept).unwrap();
        fs::write(&kept, text.replace("true", "false")).unwrap();
        assert!(verdicts.find("k").is_none(), "modified entries are ignored");
        fs::write(&kept, "{").unwrap();
        assert!(verdicts.find("k").is_none(), "unreadable entries are ignored");
    }

    #[test]
    fn non_regular_cache_files_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["verdict.json", "sum", "log.txt", "results.jsonl"] {
            let verdicts = VerdictCache::new(folder.path().join(name));
            verdicts.store("k", &sample_grading_result(&[]));
            let path = folder.path().join(name).join("k").join(name);
            fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            assert!(verdicts.find("k").is_none(), "{name} is a pipe");
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            assert!(verdicts.find("k").is_none(), "{name} is a device");
        }
    }
}
