//! Engines place a run's workers on machines. A worker finds its trials itself
//! (`proctor worker RUN`), so an engine only starts N identical jobs, reports their state, and ends
//! them.

mod command;
mod inquiry;
mod kubernetes;
mod logs;
mod slurm;
mod submissions;
mod table;
mod time;

use std::{collections::BTreeMap, fmt, path::PathBuf};

pub use inquiry::{Inquiry, Start};
pub use kubernetes::Kubernetes;
pub use logs::failures;
pub use slurm::Slurm;
pub use submissions::{Submission, Submissions};
pub use table::{Table, table};
pub use time::duration;

/// The exit status of a worker that was asked to end while trials are left.
pub const UNFINISHED: u8 = 75;

/// A submission request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The run directory, absolute.
    pub run: PathBuf,
    /// The program that nodes start, absolute.
    pub program: PathBuf,
    /// Its version, which every node must have.
    pub version: String,
    pub workers: u32,
    /// The engine's own settings, such as a partition.
    pub settings: BTreeMap<String, String>,
}

/// A scheduler.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Checks whether workers can be queued from here with these settings. Called before a run is
    /// planned.
    ///
    /// # Errors
    /// The scheduler isn't available, or has no such setting.
    fn check(&self, settings: &BTreeMap<String, String>) -> Result<(), EngineError>;

    /// Queues the workers.
    ///
    /// # Errors
    /// The scheduler isn't available or rejects the request; nothing is queued then.
    fn submit(&self, request: &Request) -> Result<Submission, EngineError>;

    /// The state of a submission's jobs.
    fn state(&self, submission: &Submission) -> Jobs;

    /// What else the scheduler knows about a submission's jobs and nodes, such as how earlier starts of a job ended.
    fn history(&self, _submission: &Submission) -> History {
        History::default()
    }

    /// Asks the workers of a submission to close their sandboxes and end, and keeps waiting ones from starting. Nothing is
    /// killed.
    ///
    /// # Errors
    /// The scheduler isn't here or refuses.
    fn ask_to_end(&self, submission: &Submission) -> Result<(), EngineError>;

    /// Ends the jobs of a submission, by its id alone. Those that ended already are no error.
    ///
    /// # Errors
    /// The scheduler isn't available or rejects the request.
    fn cancel(&self, submission: &Submission) -> Result<(), EngineError>;
}

/// The engine of this name.
///
/// # Errors
/// There is no such engine.
pub fn engine(name: &str) -> Result<Box<dyn Engine>, EngineError> {
    match name {
        "slurm" => Ok(Box::new(Slurm)),
        "kubernetes" => Ok(Box::new(Kubernetes)),
        other => {
            Err(EngineError::new(format!("unknown engine {other:?}"))
                .hint("use slurm or kubernetes"))
        }
    }
}

/// The scheduler's report on jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum Jobs {
    /// Every job that the scheduler still knows.
    Known(Vec<Job>),
    /// The scheduler didn't respond, which says nothing about the jobs.
    Unknown(String),
}

/// One worker's job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// In the form of [`Submission::job_of`].
    pub id: String,
    /// The scheduler's term, such as `RUNNING`, `PENDING` or `NODE_FAIL`.
    pub state: String,
    /// Why it waits or failed; may be empty.
    pub reason: String,
    /// The node where it runs; may be empty.
    pub node: String,
}

/// What a scheduler knows of a submission beside the present state of its jobs. What it doesn't know is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Starts of jobs that have ended, oldest first. A job that was requeued has several.
    pub ended: Vec<Job>,
    /// How often each job was started again.
    pub restarts: BTreeMap<String, u32>,
    /// The state of each node.
    pub nodes: BTreeMap<String, String>,
}

/// States of jobs that have not ended.
const OPEN: [&str; 8] = [
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "SUSPENDED",
    "STOPPED",
    "RESIZING",
    "SIGNALING",
    "COMPLETING",
];

/// States of jobs that wait, run, ended well or were ended on request.
const WELL: [&str; 9] = [
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
    /// Whether it ended by itself, and not well.
    pub fn has_failed(&self) -> bool {
        !WELL.contains(&self.state.as_str())
    }

    /// Whether it has ended in any way.
    pub fn has_ended(&self) -> bool {
        !OPEN.contains(&self.state.as_str())
    }
}

impl Jobs {
    /// The number of jobs per state: `3 RUNNING, 5 PENDING (Resources)`.
    pub fn summary(&self) -> String {
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

/// Why an engine rejects a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineError {
    pub what: String,
    pub hint: Option<String>,
}

impl EngineError {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EngineError {}

/// Rejects settings that an engine doesn't have.
pub(crate) fn expect_keys(
    engine: &str,
    settings: &BTreeMap<String, String>,
    known: &[&str],
) -> Result<(), EngineError> {
    match settings.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(EngineError::new(format!("--engine-set {key}: unknown setting of {engine}"))
                .hint(format!("settings of {engine}: {}", known.join(", "))))
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
        let jobs = Jobs::Known(vec![
            job("RUNNING", "None"),
            job("PENDING", "Resources"),
            job("RUNNING", "None"),
            job("PENDING", "None"),
        ]);
        assert_eq!(jobs.summary(), "1 PENDING, 1 PENDING (Resources), 2 RUNNING");
        assert!(Jobs::Unknown("no answer".into()).summary().contains("unknown"));
    }
}
