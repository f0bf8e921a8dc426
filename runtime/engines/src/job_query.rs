//! Asks the scheduler how a worker's job ended.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{Job, JobHistory, JobReport, Submissions, cluster_settings, find_engine};

/// Queries the schedulers to which a run was submitted. Sends at most one query every few seconds
/// per submission.
#[derive(Debug)]
pub struct JobQuery {
    run_dir: PathBuf,
    /// Cached responses, by the submission's job id.
    cached_replies: Mutex<HashMap<String, CachedReply>>,
}

/// One start of a worker's job. A requeued job has several starts.
#[derive(Debug, Clone, Copy)]
pub struct JobStart<'a> {
    /// The job id from `PROCTOR_JOB`.
    pub job: &'a str,
    /// How many times the scheduler had restarted the job before this start.
    pub restarts: u32,
    pub node: &'a str,
}

#[derive(Debug, Clone)]
struct CachedReply {
    received: Instant,
    jobs: Vec<Job>,
    history: JobHistory,
}

impl JobQuery {
    pub fn for_run(run_dir: &Path) -> Self {
        Self { run_dir: run_dir.to_owned(), cached_replies: Mutex::default() }
    }

    /// Returns how this start of the job ended, in the scheduler's terms, such as `NODE_FAIL` or
    /// `OUT_OF_MEMORY`. If the scheduler does not report an end, returns the job's current state.
    /// Returns `None` if the scheduler does not know the job or does not respond.
    pub fn end_state(&self, start: &JobStart<'_>) -> Option<String> {
        let submissions = Submissions::read(&self.run_dir).ok()?;
        let owns =
            |prefix: &str| start.job.strip_prefix(prefix).is_some_and(|it| it.starts_with('_'));
        let submission = submissions.submissions.iter().find(|one| owns(&one.job))?;
        let every = Duration::from_secs(cluster_settings().ok()?.poll_seconds);
        // Hold the lock during the query, so that other callers wait for the same response.
        let mut answers = self.cached_replies.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |answer: &&CachedReply| answer.received.elapsed() < every;
        if let Some(answer) = answers.get(&submission.job).filter(is_fresh) {
            return answer.end_state(start);
        }
        let engine = find_engine(&submission.engine).ok()?;
        // Stop after the first failed query, because a controller that is down would not answer the
        // others either.
        let JobReport::Known(jobs) = engine.query_jobs(submission) else { return None };
        let answer = CachedReply {
            received: Instant::now(),
            jobs,
            history: engine.query_history(submission),
        };
        let ending = answer.end_state(start);
        answers.insert(submission.job.clone(), answer);
        ending
    }
}

impl CachedReply {
    fn end_state(&self, start: &JobStart<'_>) -> Option<String> {
        let Self { jobs, history, .. } = self;
        let mut starts = history.ended_starts.iter().filter(|one| one.id == start.job);
        if let Some(ended) = starts.nth(usize::try_from(start.restarts).ok()?) {
            return Some(describe_job(ended));
        }
        let now = jobs.iter().find(|one| one.id == start.job);
        let restarts = history.restarts.get(start.job).copied().unwrap_or_default();
        let state = if restarts > start.restarts {
            // If the site has no accounting, the scheduler doesn't remember how the earlier start
            // ended.
            "REQUEUED".to_owned()
        } else {
            let now = now?;
            if now.has_ended() {
                return Some(describe_job(now));
            }
            describe_job(now)
        };
        let node = history.nodes.get(start.node).filter(|node| is_lost_node_state(node));
        Some(match node {
            Some(node) => format!("{state}, node {} is {node}", start.node),
            None => state,
        })
    }
}

/// Returns whether a node is lost. An asterisk means that the node does not respond.
fn is_lost_node_state(node_state: &str) -> bool {
    node_state.ends_with('*') || node_state.starts_with("down") || node_state.starts_with("fail")
}

fn describe_job(job: &Job) -> String {
    match job.reason.as_str() {
        "" | "None" => job.state.clone(),
        reason => format!("{}, {reason}", job.state),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::slurm::{parse_ended_starts, parse_jobs, parse_node_states, parse_restarts};

    /// The recorded output of one Slurm version's programs, for seven jobs on two nodes.
    struct Recorded {
        squeue: &'static str,
        sacct: &'static str,
        scontrol: &'static str,
        sinfo: &'static str,
    }

    macro_rules! recorded {
        ($version:literal, $moment:literal) => {
            Recorded {
                squeue: recorded!($version, "squeue", $moment),
                sacct: recorded!($version, "sacct", $moment),
                scontrol: recorded!($version, "scontrol", $moment),
                sinfo: recorded!($version, "sinfo", $moment),
            }
        };
        ($version:literal, $program:literal, $moment:literal) => {
            include_str!(concat!("../tests/slurm-", $version, "/", $program, "-", $moment, ".txt"))
        };
    }

    /// Output that was recorded seconds after the second node lost power, before Slurm noticed.
    const UNNOTICED_NODE_LOSS: [Recorded; 2] =
        [recorded!("22.05", "silent"), recorded!("24.11", "silent")];
    /// Output that was recorded minutes later, when Slurm had noticed.
    const NOTICED_NODE_LOSS: [Recorded; 2] = [recorded!("22.05", "end"), recorded!("24.11", "end")];

    impl Recorded {
        /// Returns the job's end state according to the recorded output. `has_accounting` says
        /// whether the site uses accounting. Without accounting, `sacct` prints nothing.
        fn end_state(&self, start: &JobStart<'_>, has_accounting: bool) -> Option<String> {
            let ended = if has_accounting { parse_ended_starts(self.sacct) } else { Vec::new() };
            let history = JobHistory {
                ended_starts: ended,
                restarts: parse_restarts(self.scontrol),
                nodes: parse_node_states(self.sinfo),
            };
            CachedReply { received: Instant::now(), jobs: parse_jobs(self.squeue), history }
                .end_state(start)
        }
    }

    #[test]
    fn end_states_of_recorded_jobs_match_slurm() {
        for recorded in NOTICED_NODE_LOSS {
            for (job, node, with_accounts, without) in [
                ("1_0", "n1", "TIMEOUT", "TIMEOUT, TimeLimit"),
                ("2_0", "n1", "OUT_OF_MEMORY", "OUT_OF_MEMORY, OutOfMemory"),
                ("3_0", "n2", "NODE_FAIL", "NODE_FAIL, NodeDown"),
                // The job was requeued when its node was lost, and is pending.
                ("4_0", "n2", "NODE_FAIL", "REQUEUED, node n2 is down*"),
                // The job was preempted and requeued, and is running again.
                ("5_0", "n1", "PREEMPTED", "REQUEUED"),
                ("6_0", "n1", "PREEMPTED", "PREEMPTED"),
                ("7_0", "n1", "CANCELLED, by 0", "CANCELLED"),
            ] {
                let start = JobStart { job, restarts: 0, node };
                assert_eq!(
                    recorded.end_state(&start, true).as_deref(),
                    Some(with_accounts),
                    "{job}"
                );
                assert_eq!(recorded.end_state(&start, false).as_deref(), Some(without), "{job}");
            }
            let again = JobStart { job: "5_0", restarts: 1, node: "n1" };
            assert_eq!(recorded.end_state(&again, true).as_deref(), Some("RUNNING"));
        }
    }

    #[test]
    fn end_state_names_a_node_that_does_not_respond() {
        for recorded in UNNOTICED_NODE_LOSS {
            let start = JobStart { job: "4_0", restarts: 0, node: "n2" };
            let ending = Some("RUNNING, node n2 is mixed*");
            assert_eq!(recorded.end_state(&start, true).as_deref(), ending);
            assert_eq!(recorded.end_state(&start, false).as_deref(), ending);
        }
    }

    fn new_job(id: &str, state: &str, reason: &str) -> Job {
        let (id, state, reason) = (id.into(), state.into(), reason.into());
        Job { id, state, reason, node: String::new() }
    }

    fn job_start(job: &str, restarts: u32) -> JobStart<'_> {
        JobStart { job, restarts, node: "n1" }
    }

    #[test]
    fn end_state_is_none_for_jobs_of_other_submissions() {
        let run = tempfile::tempdir().unwrap();
        let submitted = r#"[{"engine": "kubernetes", "job": "12", "workers": 2, "proctor": "0.1.0", "submitted": 1, "command": []}]"#;
        fs::write(run.path().join("engine.json"), submitted).unwrap();
        let inquiry = JobQuery::for_run(run.path());
        let jobs = vec![
            new_job("12_0", "OUT_OF_MEMORY", "OutOfMemory"),
            new_job("12_1", "NODE_FAIL", "None"),
        ];
        let answer = CachedReply { received: Instant::now(), jobs, history: JobHistory::default() };
        inquiry.cached_replies.lock().unwrap().insert("12".into(), answer);
        let ending = |job: &str| inquiry.end_state(&job_start(job, 0));
        assert_eq!(ending("12_0").as_deref(), Some("OUT_OF_MEMORY, OutOfMemory"));
        assert_eq!(ending("12_1").as_deref(), Some("NODE_FAIL"));
        assert_eq!(ending("12_2"), None);
        assert_eq!(ending("1_2"), None, "job of another submission");
    }

    #[test]
    fn end_state_is_that_of_the_requested_start() {
        let jobs = vec![new_job("7_0", "PENDING", "BeginTime")];
        let ended = vec![new_job("7_0", "PREEMPTED", ""), new_job("7_0", "NODE_FAIL", "")];
        let restarts = [("7_0".to_owned(), 2)].into();
        let history = JobHistory { ended_starts: ended, restarts, ..JobHistory::default() };
        let answer = CachedReply { received: Instant::now(), jobs, history };
        let endings =
            [0, 1, 2].map(|restarts| answer.end_state(&job_start("7_0", restarts)).unwrap());
        assert_eq!(endings, ["PREEMPTED", "NODE_FAIL", "PENDING, BeginTime"]);
    }

    #[test]
    fn end_state_without_accounting_shows_requeues_and_lost_nodes() {
        let jobs = vec![new_job("7_0", "RUNNING", "None"), new_job("7_1", "RUNNING", "None")];
        let restarts = [("7_0".to_owned(), 1), ("7_1".to_owned(), 0)].into();
        let nodes = [("n1".to_owned(), "down*".to_owned())].into();
        let history = JobHistory { ended_starts: Vec::new(), restarts, nodes };
        let mut answer = CachedReply { received: Instant::now(), jobs, history };
        let ending = |answer: &CachedReply, job| answer.end_state(&job_start(job, 0)).unwrap();
        assert_eq!(ending(&answer, "7_0"), "REQUEUED, node n1 is down*");
        assert_eq!(ending(&answer, "7_1"), "RUNNING, node n1 is down*");
        answer.history.nodes = [("n1".to_owned(), "idle".to_owned())].into();
        assert_eq!(ending(&answer, "7_0"), "REQUEUED");
    }
}
