//! `proctor submit`: asks a scheduler to start workers that run a run's trials.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proctor_engines::{
    Kubernetes, Submissions, SubmitRequest, cluster_settings, find_engine, parse_slurm_duration,
};
use proctor_plan::{Continuation, ReopenedRun, check_models, resume_set};
use proctor_record::RunDir;
use proctor_run::{Execution, PreflightFinding, RecordedState, max_trial_duration};
use proctor_types::count_with_noun;

use crate::{
    args::{EngineName, SubmitArgs},
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::{
        resume::plan_from_record,
        run::{PrepareOutcome, default_run_dir, prepare_run},
    },
    error::{CommandError, INTERRUPTED_STATUS, UserError},
    print,
    workers::{reject_other_versions, submit_command, user_error},
};

pub async fn submit(args: SubmitArgs) -> Result<ExitCode, CommandError> {
    let (name, workers, settings) = (args.engine, args.workers, args.engine_settings());
    let is_run = args.run.config.join("run.json").exists();
    if let Some(option) = args.first_planning_option().filter(|_| is_run) {
        let what = format!("{option}: {} is already planned", args.run.config.display());
        let hint = "omit the option, or submit a configuration; --set can raise shared limits";
        return Err(UserError::new(what).hint(hint).into());
    }
    let (dry_run, no_preflight) = (args.run.dry_run, args.run.no_preflight);
    let overrides = if is_run { args.run.set.clone() } else { Vec::new() };
    let out = match is_run {
        true => args.run.config.clone(),
        false => args.run.out.clone().unwrap_or_else(|| default_run_dir(&args.run.config)),
    };
    let request = |run: PathBuf| -> Result<SubmitRequest, CommandError> {
        let version = env!("CARGO_PKG_VERSION").into();
        let program = std::env::current_exe()?;
        Ok(SubmitRequest { run_dir: run, program, version, workers, settings: settings.clone() })
    };
    if dry_run && name == EngineName::Kubernetes {
        if let Some(first) = overrides.first() {
            let what = format!("--set {first}: printing a manifest doesn't change the run");
            let hint = format!(
                "`proctor resume {} --set {first}` changes the run and continues it here",
                out.display()
            );
            return Err(UserError::new(what).hint(hint).into());
        }
        let manifest =
            Kubernetes.build_manifest(&request(std::path::absolute(&out)?)?).map_err(user_error)?;
        print::print_result(&format!("{}\n", serde_json::to_string_pretty(&manifest)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let engine = find_engine(name.name()).map_err(user_error)?;
    if !dry_run {
        engine.check_availability(&settings).map_err(user_error)?;
    }
    if !is_run {
        let planned = crate::args::RunArgs { out: Some(out.clone()), ..args.run };
        match prepare_run(planned).await? {
            PrepareOutcome::PlanShown => return Ok(ExitCode::SUCCESS),
            PrepareOutcome::Interrupted => return Ok(ExitCode::from(INTERRUPTED_STATUS)),
            // Drop the run to release its lock. The workers don't need the lock.
            PrepareOutcome::PlanWritten(ready) => drop(ready),
        }
    }
    let run = RunDir::open_read_only(&out).map_err(CommandError::from_record_error)?;
    reject_other_versions(&out)?;
    // After an error, the plan stays on disk. The hint contains the command that submits this plan.
    let kept = |mut error: UserError| {
        if !is_run {
            let kept = format!(
                "the plan is kept in {}; submit it with `{}`",
                out.display(),
                submit_command(&out, name.name())
            );
            error.hint = Some(error.hint.map_or(kept.clone(), |hint| format!("{hint}; {kept}")));
        }
        error
    };
    if !overrides.is_empty() {
        apply_overrides(&run, &overrides, dry_run)?;
    }
    if is_finished(&run)? {
        print::print_result("nothing to do: every trial has a verdict\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(error) = time_limit_error(&run, settings.get("time").map(String::as_str))? {
        return Err(kept(error).into());
    }
    let absolute = out.canonicalize()?;
    if dry_run {
        let waits = "workers would be queued; this dry run submitted none";
        tell!("{}: {workers} {waits}", absolute.display());
        return Ok(ExitCode::SUCCESS);
    }
    if is_run {
        // The workers get this process's environment, so a missing key would end all of them.
        check_models(&run.read_run()?.arms, &assemble::check_script, &|_, error| error)?;
    }
    if !no_preflight && !probe_models(&out).await? {
        let what = "a model failed its test request, so no workers were queued";
        let hint = "fix the error above, or skip the test with --no-preflight";
        return Err(kept(UserError::new(what).hint(hint)).into());
    }
    let request = request(absolute)?;
    let submitted = tokio::task::spawn_blocking(move || engine.submit(&request)).await?;
    let submission = submitted.map_err(|error| kept(user_error(error)))?;
    let mut all = Submissions::read(&out).map_err(user_error)?;
    let (job, count) = (submission.job.clone(), submission.workers);
    all.submissions.push(submission);
    all.write().map_err(user_error)?;
    let name = name.name();
    print::print_result(&format!(
        "{name} job {job}: {}\n",
        count_with_noun(count as usize, "worker")
    ))?;
    tell!("`proctor watch {}` shows progress; `proctor cancel` stops the workers", out.display());
    Ok(ExitCode::SUCCESS)
}

/// Changes shared limits and endpoints, with the same checks as `proctor resume --set`. A dry run
/// checks the settings but doesn't change the run.
fn apply_overrides(run: &RunDir, overrides: &[String], dry_run: bool) -> Result<(), CommandError> {
    if dry_run {
        resume_set::apply_overrides(&mut run.read_run()?, overrides)?;
        return Ok(());
    }
    let say = &assemble::print_message;
    let mut reopened = ReopenedRun::open(run.path(), Continuation::MissingTrials, say)?;
    reopened.find_lost_finished_trials(false, say)?;
    reopened.apply_overrides(overrides)?;
    Ok(())
}

/// Whether workers would find nothing to do.
fn is_finished(run: &RunDir) -> Result<bool, CommandError> {
    let trials = plan_from_record(&run.read_run()?).trials();
    Ok(trials.iter().all(|(id, ..)| {
        RecordedState::from_checked(&run.check_trial(id)) == RecordedState::Finished
    }))
}

/// Sends the preflight's test requests. Returns whether all models can be called.
///
/// This process sends the requests, because every worker would fail with the same bad key, and each
/// would first wait in the queue.
async fn probe_models(run: &Path) -> Result<bool, CommandError> {
    let run = RunDir::open_read_only(run).map_err(CommandError::from_record_error)?;
    let record = run.read_run()?;
    let (cache, catalog) = (cache_dir::default_cache_dir()?, assemble::scaffold_catalog()?);
    let has_failed = AtomicBool::new(false);
    let hear = |finding: PreflightFinding| {
        if matches!(finding, PreflightFinding::ModelFailed { .. }) {
            has_failed.store(true, Ordering::Relaxed);
        }
        assemble::print_preflight(finding);
    };
    let execution = Execution {
        run,
        plan: plan_from_record(&record),
        jobs: record.jobs,
        backends: BTreeMap::new(),
        scaffolds: &catalog,
        cache: &cache,
        regrade_policy: RegradePolicy::ReuseVerdict,
        flaky_tests: FlakyTests::default(),
        say: &assemble::print_message,
        on_preflight: &hear,
    };
    execution.probe_models().await?;
    Ok(!has_failed.load(Ordering::Relaxed))
}

/// Returns an error if the time limit is too short for any trial to start.
fn time_limit_error(run: &RunDir, time: Option<&str>) -> Result<Option<UserError>, CommandError> {
    let Some(text) = time else { return Ok(None) };
    let Some(limit) = parse_slurm_duration(text) else { return Ok(None) };
    let overhead = Duration::from_secs(cluster_settings().map_err(user_error)?.overhead_seconds);
    let plan = plan_from_record(&run.read_run()?);
    let trials = plan.trials();
    let needed =
        trials.iter().map(|(id, planned, arm)| (max_trial_duration(&planned.task, arm), id)).max();
    let Some((needed, id)) = needed.map(|(needed, id)| (needed.saturating_add(overhead), id))
    else {
        return Ok(None);
    };
    if needed <= limit {
        return Ok(None);
    }
    let what = format!(
        "--engine-set time={text}: the trial {id} may take {} minutes, including setup and grading",
        needed.as_secs().div_ceil(60)
    );
    Ok(Some(UserError::new(what).hint("set a longer time, or a smaller budget.wall_seconds")))
}
