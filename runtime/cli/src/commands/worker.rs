//! `proctor worker`: runs trials of a run alongside other workers.

use std::process::ExitCode;

use proctor_engines::parse_slurm_duration;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::WorkerArgs,
    commands::{ResumeOptions, join_run},
    error::{CommandError, UserError},
};

/// Slurm's values for a job without a time limit, or with a limit that is not known yet.
const NO_TIME_LIMIT_VALUES: [&str; 3] = ["UNLIMITED", "NOT_SET", "INVALID"];

pub async fn run_worker(args: WorkerArgs) -> Result<ExitCode, CommandError> {
    // SIGUSR1 kills the process by default. Register a handler now, until the run handles the
    // signal itself.
    let _listens = signal(SignalKind::user_defined1());
    let left = match args.time_left.as_deref().map(str::trim) {
        None => None,
        Some(text) if NO_TIME_LIMIT_VALUES.contains(&text) => None,
        Some(text) => Some(parse_slurm_duration(text).ok_or_else(|| {
            UserError::new(format!("--time-left {text}: not a duration"))
                .hint("use minutes, hours:minutes:seconds, days-hours:minutes:seconds or UNLIMITED")
        })?),
    };
    let jobs = args.jobs.map(|jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
    let options = ResumeOptions { jobs, confirms_rerun: args.confirm, runs_locally: true };
    join_run(&args.run, options, left).await
}
