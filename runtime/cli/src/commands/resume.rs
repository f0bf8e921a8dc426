//! `proctor resume` continues a run. Workers use the same code to join a run.

use std::{collections::BTreeSet, path::Path, process::ExitCode, time::Duration};

use proctor_engines::{JobQuery, JobStart};
use proctor_plan::{Continuation, PlannedRun, ReopenedRun};
use proctor_record::RunDir;
use proctor_run::{Deadline, Plan};
use proctor_types::{RunRecord, count_with_noun, join_first_few};

use crate::{
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::execute::{PreparedRun, execute_and_report},
    error::CommandError,
    workers,
};

/// The user's options for resuming a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResumeOptions {
    /// Number of parallel trials. Default: the planned number.
    pub jobs: Option<usize>,
    /// Whether finished trials whose records are gone may run again.
    pub confirms_rerun: bool,
    /// Run the trials on this machine, even if the run was submitted to an engine.
    pub runs_locally: bool,
}

/// Continues the plan in the run directory without reading the datasets again. `overrides` may
/// change limits that trials share, and the models' endpoints (see `proctor_plan::resume_set`).
pub async fn resume(
    path: &Path,
    overrides: &[String],
    options: ResumeOptions,
    regrade_policy: RegradePolicy,
) -> Result<ExitCode, CommandError> {
    let continuation = match regrade_policy {
        RegradePolicy::ReuseVerdict => Continuation::MissingTrials,
        RegradePolicy::GradeAgain => Continuation::Gradings,
    };
    let mut reopened = ReopenedRun::open(path, continuation, &assemble::print_message)?;
    if regrade_policy == RegradePolicy::ReuseVerdict && !options.runs_locally {
        workers::reject_engine_run(path, overrides)?;
    }
    // Regrading runs no agent, so no trial runs again.
    let gone = match regrade_policy {
        RegradePolicy::ReuseVerdict => {
            reopened.find_lost_finished_trials(options.confirms_rerun, &assemble::print_message)?
        }
        RegradePolicy::GradeAgain => BTreeSet::new(),
    };
    reopened.apply_overrides(overrides)?;
    if !gone.is_empty() {
        // Record which trials run again. Otherwise, a user could delete results until the new ones
        // look better, without leaving a trace.
        let names = gone.iter().map(ToString::to_string).collect();
        let trials = count_with_noun(gone.len(), "trial");
        let change =
            format!("re-run: {trials} whose records were removed ({})", join_first_few(names));
        tell!("{change}");
        reopened.add_note(change)?;
    }
    continue_run(reopened, options, regrade_policy, None).await
}

/// Runs trials together with other workers until no trials are left. Doesn't rewrite the plan. The
/// process must exit within `time_left`.
pub async fn join_run(
    path: &Path,
    options: ResumeOptions,
    time_left: Option<Duration>,
) -> Result<ExitCode, CommandError> {
    let inquiry = JobQuery::for_run(path);
    let run = RunDir::join(path).map_err(CommandError::from_record_error)?;
    let run = run.with_job_lookup(move |worker| {
        let job = worker.job.as_deref()?;
        inquiry.end_state(&JobStart { job, restarts: worker.restarts, node: &worker.host })
    });
    workers::reject_other_versions(path)?;
    let reopened = ReopenedRun::open_shared(run)?;
    reopened.find_lost_finished_trials(options.confirms_rerun, &assemble::print_message)?;
    let until = time_left.map(workers::process_deadline).transpose()?;
    continue_run(reopened, options, RegradePolicy::ReuseVerdict, until).await
}

async fn continue_run(
    reopened_run: ReopenedRun,
    options: ResumeOptions,
    regrade_policy: RegradePolicy,
    deadline: Option<Deadline>,
) -> Result<ExitCode, CommandError> {
    let record = reopened_run.record();
    let most = if reopened_run.run().is_shared() {
        workers::worker_job_count(record)?
    } else {
        record.jobs
    };
    let jobs = options.jobs.unwrap_or(most);
    let (cache, catalog) = (cache_dir::default_cache_dir()?, assemble::scaffold_catalog()?);
    let planned =
        reopened_run.into_planned_run(None, jobs, assemble::plan_context(&cache, &catalog))?;
    let PlannedRun { run, record, plan } = planned;
    let plan = Plan { deadline, ..plan };
    let flakes = FlakyTests::from_record(&record, &assemble::print_message);
    let backends = assemble::start_backends(&record.arms, &cache, &record.config.cache).await?;
    if let Some(warning) = workers::network_cache_warning(&cache).filter(|_| run.is_shared()) {
        tell!("{warning}");
    }
    execute_and_report(PreparedRun {
        run,
        plan,
        jobs,
        backends,
        cache: &cache,
        regrade_policy,
        flaky_tests: flakes,
    })
    .await
}

/// Returns the plan that a run's record contains.
pub fn plan_from_record(record: &RunRecord) -> Plan {
    Plan::from_record(record)
}
