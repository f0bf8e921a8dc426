//! `proctor resume`.

use std::{collections::BTreeSet, path::Path, process::ExitCode, time::Duration};

use proctor_engines::{Inquiry, Start};
use proctor_plan::{Continuation, Planned, Reopened};
use proctor_record::RunDir;
use proctor_run::{Plan, Until};
use proctor_types::{RunRecord, first_of, plural};

use crate::{
    assemble::{self, Flakes, Grading},
    commands::carry_out::{Work, carry_out},
    error::CommandError,
    home, workers,
};

/// The user's options for resuming a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResumeOptions {
    /// Number of parallel trials. Default: the planned number.
    pub jobs: Option<usize>,
    /// Allow re-running finished trials whose records are gone.
    pub confirm: bool,
    /// Run here even if an engine's workers run the trials.
    pub here: bool,
}

/// Continues the plan in the run directory without reading the datasets again. `sets` may change
/// what trials share and the models' endpoints: see `proctor_plan::resume_set`.
pub async fn resume(
    path: &Path,
    sets: &[String],
    options: ResumeOptions,
    grading: Grading,
) -> Result<ExitCode, CommandError> {
    let continuation = match grading {
        Grading::Once => Continuation::Rest,
        Grading::Anew => Continuation::Gradings,
    };
    let mut reopened = Reopened::open(path, continuation, &assemble::say)?;
    if grading == Grading::Once && !options.here {
        workers::expect_no_engine(path)?;
    }
    // Regrading runs no agent.
    let gone = match grading {
        Grading::Once => reopened.gone_trials(options.confirm, &assemble::say)?,
        Grading::Anew => BTreeSet::new(),
    };
    reopened.change(sets)?;
    if !gone.is_empty() {
        // Results that were removed until the new ones looked right would not be a measurement, so
        // the record lists the trials that run again.
        let names = gone.iter().map(ToString::to_string).collect();
        let trials = plural(gone.len(), "trial");
        let change = format!("re-run: {trials} whose records were removed ({})", first_of(names));
        tell!("{change}");
        reopened.note(change)?;
    }
    continue_run(reopened, options, grading, None).await
}

/// Runs trials together with other workers until none are left. Does not rewrite the plan. The
/// process must end within `time_left`.
pub async fn join(
    path: &Path,
    options: ResumeOptions,
    time_left: Option<Duration>,
) -> Result<ExitCode, CommandError> {
    let inquiry = Inquiry::of(path);
    let run = RunDir::join(path).map_err(CommandError::of_run)?;
    let run = run.asking_about_jobs(move |worker| {
        let job = worker.job.as_deref()?;
        inquiry.ending(&Start { job, restarts: worker.restarts, node: &worker.host })
    });
    workers::expect_this_version(path)?;
    let reopened = Reopened::join(run)?;
    reopened.gone_trials(options.confirm, &assemble::say)?;
    let until = time_left.map(workers::until).transpose()?;
    continue_run(reopened, options, Grading::Once, until).await
}

async fn continue_run(
    reopened: Reopened,
    options: ResumeOptions,
    grading: Grading,
    until: Option<Until>,
) -> Result<ExitCode, CommandError> {
    let record = reopened.record();
    let most = if reopened.run().is_shared() { workers::jobs(record)? } else { record.jobs };
    let jobs = options.jobs.unwrap_or(most);
    let (cache, catalog) = (home::cache()?, assemble::catalog()?);
    let planned = reopened.check(None, jobs, assemble::world(&cache, &catalog))?;
    let Planned { run, record, plan } = planned;
    let plan = Plan { until, ..plan };
    let flakes = Flakes::of(&record, &assemble::say);
    let backends = assemble::backends(&record.arms, &cache, &record.config.cache).await?;
    carry_out(Work { run, plan, jobs, backends, cache: &cache, grading, flakes }).await
}

/// Returns the plan in a run directory.
pub fn plan_of(record: &RunRecord) -> Plan {
    Plan::of(record)
}
