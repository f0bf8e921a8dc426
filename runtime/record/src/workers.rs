//! Describes workers, both for messages and for the run's list of workers.

use std::{fmt, fs, path::Path, time::Duration};

use proctor_cluster::{Member, read_members};
use proctor_types::ShippedTable;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct ClusterTable {
    lease_seconds: f64,
}

/// Describes this process as a worker. If a cluster engine started the process, the engine provides
/// the names of the job and node.
pub(crate) fn describe_this_worker() -> Result<Member, String> {
    static TABLE: ShippedTable<ClusterTable> = ShippedTable::new(
        "tables/cluster.toml",
        include_str!("../../../configs/tables/cluster.toml"),
    );
    let seconds = match std::env::var("PROCTOR_LEASE_SECONDS") {
        Ok(text) => text
            .parse::<f64>()
            .map_err(|_| format!("PROCTOR_LEASE_SECONDS={text}: not a number"))?,
        Err(_) => TABLE.get()?.lease_seconds,
    };
    let lease = Duration::try_from_secs_f64(seconds).ok().filter(|lease| !lease.is_zero());
    let lease =
        lease.ok_or_else(|| format!("PROCTOR_LEASE_SECONDS={seconds}: not a positive duration"))?;
    let from_engine = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = from_engine("PROCTOR_NODE").unwrap_or_else(|| {
        fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
    });
    let restarts = from_engine("PROCTOR_JOB_RESTARTS").and_then(|times| times.parse().ok());
    let mut member =
        Member::current(&host, env!("CARGO_PKG_VERSION"), from_engine("PROCTOR_JOB"), lease);
    member.restarts = restarts.unwrap_or_default();
    Ok(member)
}

/// Looks up the state of a worker's job in the scheduler.
type JobLookup = dyn Fn(&Member) -> Option<String> + Send + Sync;

/// Looks up the states of workers' jobs, if a scheduler started them.
#[derive(Default)]
pub(crate) struct SchedulerJobs(Option<Box<JobLookup>>);

impl SchedulerJobs {
    pub(crate) fn new(lookup: impl Fn(&Member) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(lookup)))
    }

    /// Describes a worker of the run in the directory `run_dir`.
    pub(crate) fn describe_worker(&self, run_dir: &Path, worker_id: &str) -> String {
        let all = read_members(run_dir).unwrap_or_default();
        let Some((member, _)) = all.into_iter().find(|(member, _)| member.id == worker_id) else {
            return format!("worker {worker_id}");
        };
        let Some(job) = &member.job else {
            return format!("worker {worker_id} on {}", member.host);
        };
        let state = self.0.as_ref().and_then(|ask| ask(&member));
        let state = state.unwrap_or_else(|| "state unknown".to_owned());
        format!("worker {worker_id} on {}, job {job} ({state})", member.host)
    }
}

impl fmt::Debug for SchedulerJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Jobs").field(&self.0.is_some()).finish()
    }
}
