//! `proctor export --format swebench-submission`: writes the directories that SWE-bench's
//! experiments repository accepts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proctor_interchange::{
    Fidelity, Submission, Trial, format_compact_date, harness_report, is_resolved, test_output,
};
use proctor_record::trial_lookup::PlannedTrial;
use proctor_types::{RunRecord, Verdict};
use serde_json::Value;

use crate::{error::CommandError, mask::SecretMask};

/// The split to use if a task's dataset does not specify one.
const DEFAULT_SPLIT: &str = "test";

/// Returns `evaluation/SPLIT/YYYYMMDD_NAME`. Each attempt gets its own directory, because a
/// submission contains only one attempt.
pub fn submission_folder(
    record: &RunRecord,
    planned_trial: PlannedTrial<'_>,
    arm: &str,
) -> PathBuf {
    let benchmark = planned_trial.task.task.benchmark.as_ref();
    let split = benchmark.and_then(|benchmark| benchmark.split.as_deref());
    let plain = |split: &&str| split.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let split = split.filter(plain).unwrap_or(DEFAULT_SPLIT);
    let attempt = match record.attempts {
        1 => String::new(),
        _ => format!(".{}", planned_trial.attempt),
    };
    Path::new("evaluation")
        .join(split)
        .join(format!("{}_{arm}{attempt}", format_compact_date(record.created)))
}

/// Returns a trial's files, with paths relative to its directory. A trial with an empty patch has
/// no logs, because the benchmark's harness never runs it.
pub fn trial_files(
    trial: &Trial<'_>,
    trajectory: &Value,
    log: &[u8],
    task: &str,
    fidelity: &mut Fidelity,
) -> Result<Vec<(String, Vec<u8>)>, CommandError> {
    let mut files =
        vec![(format!("trajs/{task}.traj.json"), serde_json::to_vec_pretty(trajectory)?)];
    if trial.patch.trim_ascii().is_empty() {
        return Ok(files);
    }
    files.push((format!("logs/{task}/patch.diff"), trial.patch.to_vec()));
    match harness_report(trial) {
        Some(report) => {
            files.push((format!("logs/{task}/report.json"), serde_json::to_vec_pretty(&report)?));
        }
        None => fidelity.record_omission("trials without a verdict: they have no report.json", 1),
    }
    match trial.verdict.and_then(|verdict| test_output(log, verdict)) {
        Some(output) => files.push((format!("logs/{task}/test_output.txt"), output.to_vec())),
        None => fidelity.record_omission(
            "trials not graded by the benchmark's own procedure: they have no test_output.txt, and the benchmark does not count them",
            1,
        ),
    }
    Ok(files)
}

/// The directories of an export, and a tally of each directory's results.
#[derive(Default)]
pub struct SubmissionFolders<'a>(BTreeMap<PathBuf, ResultTally<'a>>);

struct ResultTally<'a> {
    planned_trial: PlannedTrial<'a>,
    trial_count: usize,
    resolved_count: usize,
}

impl<'a> SubmissionFolders<'a> {
    pub fn count_trial(
        &mut self,
        folder: PathBuf,
        planned_trial: PlannedTrial<'a>,
        verdict: Option<&Verdict>,
    ) {
        let tally = self.0.entry(folder).or_insert(ResultTally {
            planned_trial,
            trial_count: 0,
            resolved_count: 0,
        });
        tally.trial_count += 1;
        tally.resolved_count += usize::from(verdict.is_some_and(is_resolved));
    }

    /// Writes the pages that describe each directory.
    pub fn write_pages(
        &self,
        record: &RunRecord,
        out: &Path,
        secret_mask: &SecretMask,
        files: &mut BTreeSet<PathBuf>,
    ) -> Result<(), CommandError> {
        for (
            folder,
            ResultTally { planned_trial: found, trial_count: trials, resolved_count: resolved },
        ) in &self.0
        {
            let submission = Submission {
                arm: found.arm,
                attempt: found.attempt,
                attempts: record.attempts,
                trial_count: *trials,
                resolved_count: *resolved,
                proctor_version: &record.proctor,
            };
            for (name, text) in
                [("metadata.yaml", submission.metadata()), ("README.md", submission.readme())]
            {
                let file = folder.join(name);
                let path = out.join(&file);
                fs::write(&path, secret_mask.mask_bytes(&file, text.as_bytes()))?;
                files.insert(path);
            }
        }
        Ok(())
    }
}
