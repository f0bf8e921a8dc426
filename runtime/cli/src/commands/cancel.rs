//! `proctor cancel`: stops the workers that `proctor submit` queued. The run can still be resumed.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use proctor_cluster::Member;
use proctor_engines::{Submission, Submissions, find_engine};
use proctor_record::{RunDir, now};
use tokio::time::sleep;

use crate::{
    error::{CommandError, UserError},
    workers::{live_workers, submit_command, user_error},
};

/// How long workers may take to stop after a cancel request. A worker closes its sandboxes within
/// 15 s. Workers that are still live after the timeout are killed by the scheduler.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for killed workers. A killed worker counts as live until its lease expires.
const KILL_TIMEOUT: Duration = Duration::from_secs(90);
/// Interval between two checks of the run directory.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub async fn cancel(run: &Path) -> Result<ExitCode, CommandError> {
    RunDir::open_read_only(run).map_err(CommandError::from_record_error)?;
    let mut submissions = Submissions::read(run).map_err(user_error)?;
    if submissions.submissions.is_empty() {
        let what = format!("{}: no workers were submitted for this run", run.display());
        let hint = "press Ctrl-C in the terminal that runs it, or send SIGTERM to the process";
        return Err(UserError::new(what).hint(hint).into());
    }
    let jobs: Vec<String> =
        submissions.submissions.iter().map(|one| format!("{}_", one.job)).collect();
    for one in submissions.active_submissions().cloned().collect::<Vec<_>>() {
        tokio::task::spawn_blocking(move || request_stop(&one)).await?.map_err(user_error)?;
    }
    wait_for_workers_to_end(run, &jobs, STOP_TIMEOUT).await?;
    for one in submissions.submissions.iter_mut().filter(|one| one.cancelled.is_none()) {
        let cancelled = one.clone();
        tokio::task::spawn_blocking(move || cancel_jobs(&cancelled)).await?.map_err(user_error)?;
        one.cancelled = Some(now());
        tell!("cancelled {} job {}", one.engine, one.job);
    }
    submissions.write().map_err(user_error)?;
    for one in wait_for_workers_to_end(run, &jobs, KILL_TIMEOUT).await? {
        let job = one.job.as_deref().unwrap_or("started by hand");
        tell!("note: a worker on {} (process {}, {job}) is still running", one.host, one.pid());
    }
    let again = submissions.submissions.last().map(|last| submit_command(run, &last.engine));
    let again = again.unwrap_or_default();
    tell!("`{again}` or `proctor resume {} --here` continues the run", run.display());
    Ok(ExitCode::SUCCESS)
}

/// Waits until no worker of the given jobs is live, or until the timeout. Returns the workers that
/// are still live.
async fn wait_for_workers_to_end(
    run: &Path,
    jobs: &[String],
    timeout: Duration,
) -> Result<Vec<Member>, CommandError> {
    let is_submitted = |one: &Member| {
        one.job.as_ref().is_some_and(|job| jobs.iter().any(|id| job.starts_with(id)))
    };
    let began = Instant::now();
    let mut left = live_workers(run)?;
    while left.iter().any(is_submitted) && began.elapsed() < timeout {
        sleep(POLL_INTERVAL).await;
        left = live_workers(run)?;
    }
    Ok(left)
}

fn request_stop(submission: &Submission) -> Result<(), proctor_engines::EngineError> {
    find_engine(&submission.engine)?.request_stop(submission)
}

fn cancel_jobs(submission: &Submission) -> Result<(), proctor_engines::EngineError> {
    find_engine(&submission.engine)?.cancel(submission)
}
