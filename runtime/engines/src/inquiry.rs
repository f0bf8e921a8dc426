//! Asks the scheduler how a run's jobs ended.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{Job, Jobs, Submissions, engine, table};

/// Queries a run's schedulers, at most every few seconds per submission.
#[derive(Debug)]
pub struct Inquiry {
    run: PathBuf,
    /// By the submission's job.
    answers: Mutex<HashMap<String, (Instant, Jobs)>>,
}

impl Inquiry {
    pub fn of(run: &Path) -> Self {
        Self { run: run.to_owned(), answers: Mutex::default() }
    }

    /// The state of a worker's job, named as in `PROCTOR_JOB`: `NODE_FAIL`, `OUT_OF_MEMORY`.
    /// `None`: the scheduler doesn't know it or doesn't respond.
    pub fn state(&self, job: &str) -> Option<String> {
        let submissions = Submissions::of(&self.run).ok()?;
        let owns =
            |prefix: &str| job.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_'));
        let submission = submissions.all.iter().find(|one| owns(&one.job))?;
        let every = Duration::from_secs(table().ok()?.poll_seconds);
        // Held during the query: others that need the same answer wait for it.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = answers.get(&submission.job).filter(|(at, _)| at.elapsed() < every);
        let jobs = match known {
            Some((_, jobs)) => jobs.clone(),
            None => {
                let jobs = engine(&submission.engine).ok()?.state(submission);
                answers.insert(submission.job.clone(), (Instant::now(), jobs.clone()));
                jobs
            }
        };
        let Jobs::Known(jobs) = jobs else { return None };
        jobs.iter().find(|one| one.id == job).map(described)
    }
}

fn described(job: &Job) -> String {
    match job.reason.as_str() {
        "" | "None" => job.state.clone(),
        reason => format!("{}, {reason}", job.state),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_job_has_the_state_that_its_submission_reported_and_others_have_none() {
        let run = tempfile::tempdir().unwrap();
        let submitted = r#"[{"engine": "kubernetes", "job": "12", "workers": 2, "proctor": "0.1.0", "submitted": 1, "command": []}]"#;
        fs::write(run.path().join("engine.json"), submitted).unwrap();
        let inquiry = Inquiry::of(run.path());
        let job = |id: &str, state: &str, reason: &str| Job {
            id: id.into(),
            state: state.into(),
            reason: reason.into(),
            node: String::new(),
        };
        let jobs = Jobs::Known(vec![
            job("12_0", "OUT_OF_MEMORY", "OutOfMemory"),
            job("12_1", "NODE_FAIL", "None"),
        ]);
        inquiry.answers.lock().unwrap().insert("12".into(), (Instant::now(), jobs));
        assert_eq!(inquiry.state("12_0").as_deref(), Some("OUT_OF_MEMORY, OutOfMemory"));
        assert_eq!(inquiry.state("12_1").as_deref(), Some("NODE_FAIL"));
        assert_eq!(inquiry.state("12_2"), None);
        assert_eq!(inquiry.state("1_2"), None, "another submission's");
    }
}
