//! Engines start a run's workers on other machines. Each worker claims its own trials (`proctor
//! worker RUN`). An engine only starts N identical jobs, reports their state, and stops them.

mod command;
mod job_query;
mod kubernetes;
mod logs;
mod settings;
mod slurm;
mod submissions;
mod time;

use std::{collections::BTreeMap, fmt, path::PathBuf};

pub use job_query::{JobQuery, JobStart};
pub use kubernetes::Kubernetes;
pub use logs::failure_messages;
pub use settings::{ClusterSettings, cluster_settings};
pub use slurm::Slurm;
pub use submissions::{Submission, Submissions};
pub use time::parse_slurm_duration;

/// Exit status of a worker that was asked to stop before all trials had run.
pub const UNFINISHED_EXIT_STATUS: u8 = 75;

/// A request to submit workers.
#[derive(Debug, Clone)]
pub struct SubmitRequest {
    /// Absolute path of the run directory.
    pub run_dir: PathBuf,
    /// Absolute path of the `proctor` program that nodes start.
    pub program: PathBuf,
    /// The program's version, which every node must have.
    pub version: String,
    pub workers: u32,
    /// Engine-specific settings, such as a partition.
    pub settings: BTreeMap<String, String>,
}

/// A scheduler that can run workers.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Returns the name used on the command line.
    fn name(&self) -> &'static str;

    /// Checks whether workers can be queued from this machine with these settings. Called before a
    /// run is planned.
    ///
    /// # Errors
    /// Returns an error if the scheduler is unavailable or does not support a setting.
    fn check_availability(&self, settings: &BTreeMap<String, String>) -> Result<(), EngineError>;

    /// Queues the workers.
    ///
    /// # Errors
    /// Returns an error if the scheduler is unavailable or rejects the request. In that case
    /// nothing is queued.
    fn submit(&self, request: &SubmitRequest) -> Result<Submission, EngineError>;

    /// Returns the state of a submission's jobs.
    fn query_jobs(&self, submission: &Submission) -> JobReport;

    /// Returns more information about a submission's jobs and nodes, such as how earlier starts of
    /// a job ended.
    fn query_history(&self, _submission: &Submission) -> JobHistory {
        JobHistory::default()
    }

    /// Asks a submission's workers to close their sandboxes and exit. Prevents pending workers from
    /// starting. Kills no process.
    ///
    /// # Errors
    /// Returns an error if the scheduler is unavailable or rejects the request.
    fn request_stop(&self, submission: &Submission) -> Result<(), EngineError>;

    /// Cancels a submission's jobs. Needs only the submission's id. Ignores jobs that have already
    /// ended.
    ///
    /// # Errors
    /// Returns an error if the scheduler is unavailable or rejects the request.
    fn cancel(&self, submission: &Submission) -> Result<(), EngineError>;
}

/// Returns the engine with this name.
///
/// # Errors
/// Returns an error if there is no such engine.
pub fn find_engine(name: &str) -> Result<Box<dyn Engine>, EngineError> {
    match name {
        "slurm" => Ok(Box::new(Slurm)),
        "kubernetes" => Ok(Box::new(Kubernetes)),
        other => {
            Err(EngineError::new(format!("unknown engine {other:?}"))
                .hint("use slurm or kubernetes"))
        }
    }
}

/// The scheduler's report about jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum JobReport {
    /// The submission's jobs, except those that the scheduler no longer remembers.
    Known(Vec<Job>),
    /// The scheduler did not respond, so the state of the jobs is unknown. Contains the reason.
    Unknown(String),
}

/// One worker's job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The id, in the format of [`Submission::job_name`].
    pub id: String,
    /// The scheduler's term, such as `RUNNING`, `PENDING` or `NODE_FAIL`.
    pub state: String,
    /// Why the job is pending or failed. May be empty.
    pub reason: String,
    /// The node that runs the job. May be empty.
    pub node: String,
}

/// Further information about a submission, in addition to the current state of its jobs. Fields are
/// empty if the scheduler doesn't provide them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobHistory {
    /// The starts of jobs that have ended, oldest first. A requeued job has several starts.
    pub ended_starts: Vec<Job>,
    /// How often each job was restarted.
    pub restarts: BTreeMap<String, u32>,
    /// The state of each node.
    pub nodes: BTreeMap<String, String>,
}

/// States of jobs that have not ended.
const OPEN_STATES: [&str; 8] = [
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "SUSPENDED",
    "STOPPED",
    "RESIZING",
    "SIGNALING",
    "COMPLETING",
];

/// States of jobs that are pending, running, completed, or cancelled on request.
const HEALTHY_STATES: [&str; 9] = [
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "COMPLETED",
    "CANCELLED",
    "PREEMPTED",
    "REQUEUED",
];

impl Job {
    /// Returns whether the job ended unsuccessfully and was not cancelled.
    pub fn has_failed(&self) -> bool {
        !HEALTHY_STATES.contains(&self.state.as_str())
    }

    /// Returns whether the job has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        !OPEN_STATES.contains(&self.state.as_str())
    }
}

impl JobReport {
    /// Describes the number of jobs per state, such as `3 RUNNING, 5 PENDING (Resources)`.
    pub fn state_summary(&self) -> String {
        let jobs = match self {
            Self::Known(jobs) if jobs.is_empty() => {
                return "unknown to the scheduler".into();
            }
            Self::Known(jobs) => jobs,
            Self::Unknown(why) => return format!("state unknown: {why}"),
        };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for job in jobs {
            let waits = job.state == "PENDING" && !matches!(job.reason.as_str(), "" | "None");
            let state = match waits {
                true => format!("{} ({})", job.state, job.reason),
                false => job.state.clone(),
            };
            *counts.entry(state).or_default() += 1;
        }
        let parts: Vec<_> =
            counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
        parts.join(", ")
    }
}

/// An error from an engine, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineError {
    pub message: String,
    pub hint: Option<String>,
}

impl EngineError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EngineError {}

/// Rejects settings that an engine does not support.
pub(crate) fn reject_unknown_keys(
    engine: &str,
    settings: &BTreeMap<String, String>,
    known_keys: &[&str],
) -> Result<(), EngineError> {
    match settings.keys().find(|key| !known_keys.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(EngineError::new(format!("--engine-set {key}: unknown setting of {engine}"))
                .hint(format!("{engine} supports these settings: {}", known_keys.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_states_and_reasons_of_pending_jobs() {
        let job = |state: &str, reason: &str| Job {
            id: String::new(),
            state: state.into(),
            reason: reason.into(),
            node: String::new(),
        };
        let jobs = JobReport::Known(vec![
            job("RUNNING", "None"),
            job("PENDING", "Resources"),
            job("RUNNING", "None"),
            job("PENDING", "None"),
        ]);
        assert_eq!(jobs.state_summary(), "1 PENDING, 1 PENDING (Resources), 2 RUNNING");
        assert!(JobReport::Unknown("no answer".into()).state_summary().contains("unknown"));
    }
}
