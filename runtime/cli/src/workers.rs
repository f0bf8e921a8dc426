//! Workers of a run, on this machine and on others.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use proctor_cluster::Member;
use proctor_core::{Capacity, Until};
use proctor_engines::{EngineError, Submissions, table};
use proctor_sandbox_api::Machine;
use proctor_types::{RunRecord, plural};

use crate::{
    checks::first_of,
    error::{CommandError, UserError},
};

/// An engine's error, for the user.
pub fn user(error: EngineError) -> UserError {
    UserError { what: error.what, hint: error.hint }
}

/// The live workers of a run.
pub fn live(run: &Path) -> Result<Vec<Member>, CommandError> {
    Ok(proctor_cluster::live(run)?)
}

/// Rejects changes to a run while workers use it.
pub fn expect_none(run: &Path) -> Result<(), CommandError> {
    let live = live(run)?;
    if live.is_empty() {
        return Ok(());
    }
    let name = |one: &Member| match &one.job {
        Some(job) => format!("job {job} on {}", one.host),
        None => format!("process {} on {}", one.pid(), one.host),
    };
    let what = format!(
        "{}: {} of the run: {}",
        run.display(),
        match live.len() {
            1 => "1 worker runs trials".to_owned(),
            many => format!("{many} workers run trials"),
        },
        first_of(live.iter().map(name).collect())
    );
    let hint = format!(
        "wait for them, stop them (`proctor cancel {0}`), or help them with `proctor worker {0}`",
        run.display()
    );
    Err(UserError::new(what).hint(hint).into())
}

/// Rejects running trials on this machine if an engine's workers run them.
pub fn expect_no_engine(run: &Path) -> Result<(), CommandError> {
    let submissions = Submissions::of(run).map_err(user)?;
    let Some(last) = submissions.open().last() else { return Ok(()) };
    let what = format!("{}: {} runs the trials of this run", run.display(), last.engine);
    let hint = format!(
        "`proctor submit {0} --engine {1} --workers N` adds workers; `proctor resume {0} --here` runs the rest here",
        run.display(),
        last.engine
    );
    Err(UserError::new(what).hint(hint).into())
}

/// Rejects working next to workers of another version.
pub fn expect_this_version(run: &Path) -> Result<(), CommandError> {
    let own = env!("CARGO_PKG_VERSION");
    let Some(other) = live(run)?.into_iter().find(|one| one.version != own) else { return Ok(()) };
    let what = format!(
        "this is proctor {own}, and a worker on {} is proctor {}",
        other.host, other.version
    );
    Err(UserError::new(what).hint("use one version on all machines of a run").into())
}

/// The moment at which a process with this much time left must have ended.
pub fn until(left: Duration) -> Result<Until, CommandError> {
    let table = table().map_err(user)?;
    let overhead = Duration::from_secs(table.overhead_seconds);
    let at = Instant::now().checked_add(left);
    let at = at.ok_or_else(|| UserError::new("--time-left: too long").hint("use UNLIMITED"))?;
    Ok(Until { at, overhead })
}

/// Concurrent trials of a worker: as many of the largest sandboxes as fit in its CPUs and memory,
/// but at most the run's `jobs`.
pub fn jobs(record: &RunRecord) -> usize {
    let here = Machine::here();
    let memory_mb = memory_limit_mb().map_or(here.memory_mb, |limit| limit.min(here.memory_mb));
    let capacity = Capacity::of(&Machine { memory_mb, ..here });
    let fit = record.arms.iter().map(|arm| capacity.sandboxes(&arm.sandbox)).min();
    let jobs = fit.unwrap_or(1).min(record.jobs).max(1);
    tell!("{} at once", plural(jobs, "trial"));
    jobs
}

/// The memory limit of this process's control groups. `None`: no limit.
fn memory_limit_mb() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let above = Path::new(path).ancestors().filter_map(|path| path.strip_prefix("/").ok());
        let limit = |path: &Path| {
            let text = fs::read_to_string(Path::new(root).join(path).join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        above.filter_map(limit).collect()
    });
    limits.min().map(|bytes| bytes >> 20)
}
