//! `proctor grade`: grades existing patches in fresh sandboxes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
};

use proctor_plan::{PlannedRun, Purpose, ReadConfig, ResolvedConfig};
use proctor_record::{RunDir, now, trial_lookup::planned_trials};
use proctor_run::Capacity;
use proctor_types::RunRecord;

use crate::{
    args::GradeArgs,
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::{
        execute::{PreparedRun, execute_and_report},
        grade_log, predictions,
        resume::{ResumeOptions, resume},
    },
    config::{self, ConfigFile},
    error::{CommandError, INCOMPLETE_STATUS, UserError},
    workers,
};

pub async fn grade(args: GradeArgs) -> Result<ExitCode, CommandError> {
    if let (Some(log), Some(task)) = (&args.log, &args.task) {
        return grade_log::grade_log(log, task);
    }
    let mut args = args;
    // `--tasks` consumes all following words. The last one may be the run directory.
    if args.run.is_none()
        && args.predictions.is_none()
        && args.tasks.last().is_some_and(|last| Path::new(last).join("run.json").is_file())
    {
        args.run = args.tasks.pop().map(PathBuf::from);
    }
    if args.run.is_some() && !args.tasks.is_empty() {
        tell!("note: ignoring --tasks: a run is graded with the tasks in its own plan");
    }
    match (&args.run, &args.predictions) {
        (Some(run), None) => match &args.out {
            Some(out) => {
                copy_run(run, out)?;
                regrade_run(out).await
            }
            None => regrade_run(run).await,
        },
        (None, Some(file)) => grade_predictions(&args, file).await,
        _ => Err(UserError::new("nothing to grade")
            .hint(
                "use `proctor grade RUN`, `proctor grade --predictions FILE --tasks DATASET` or \
                   `proctor grade --log FILE --task ROW`",
            )
            .into()),
    }
}

/// Copies a run, so that regrading does not change the original's verdicts.
fn copy_run(run: &Path, out: &Path) -> Result<(), CommandError> {
    // Opening the run ensures that the directory is a run and that no process writes to it during
    // the copy.
    let _held = RunDir::open(run).map_err(CommandError::from_record_error)?;
    if std::fs::read_dir(out).is_ok_and(|mut found| found.next().is_some()) {
        return Err(UserError::new(format!("--out: {} is not empty", out.display()))
            .hint("choose a new folder")
            .into());
    }
    let done = Command::new("cp").arg("-a").arg(run.join(".")).arg(out).output();
    let failed = |why: String| anyhow::anyhow!("failed to copy {}: {why}", run.display());
    let done = done.map_err(|error| failed(error.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()).into())
}

/// Grades every recorded patch of a run again.
///
/// The old verdicts are withdrawn first. If the process is killed, `resume` grades the trials whose
/// verdicts are missing. A trial with a corrupt record keeps its verdict until the record is
/// restored. A trial that cannot be graded gets its old verdict back.
async fn regrade_run(path: &Path) -> Result<ExitCode, CommandError> {
    let (mut kept, mut withdrawn) = (Vec::new(), Vec::new());
    {
        let run = RunDir::open(path).map_err(CommandError::from_record_error)?;
        workers::reject_live_workers(path)?;
        let record: RunRecord = run.read_run()?;
        // Verify the whole record, not only what a report needs: a trial that cannot be graded must
        // keep its verdict.
        let mut verifier = run.verifier();
        for found in planned_trials(&record) {
            let id = found.id();
            let checked = verifier.verify_trial(&id);
            if checked.verdict.is_some() {
                run.trial_dir(&id).withdraw_verdict("`proctor grade` regrades the run")?;
                withdrawn.push(id);
            } else if run.trial_dir(&id).verdict_path().exists() {
                let lost = checked.corruptions.iter().filter(|one| one.withholds_verdict());
                kept.extend(lost.map(|one| format!("{id}: {one}; {}", one.remedy.hint())));
            }
        }
    }
    let done = resume(path, &[], ResumeOptions::default(), RegradePolicy::GradeAgain).await;
    if done.is_err() {
        // Regrading failed for all trials, so restore their verdicts.
        let run = RunDir::open(path).map_err(CommandError::from_record_error)?;
        for id in &withdrawn {
            run.trial_dir(id).restore_verdict()?;
        }
    }
    let done = done?;
    for damage in &kept {
        tell!("not graded again: {damage}");
    }
    Ok(if done == ExitCode::SUCCESS && !kept.is_empty() {
        ExitCode::from(INCOMPLETE_STATUS)
    } else {
        done
    })
}

async fn grade_predictions(args: &GradeArgs, file: &str) -> Result<ExitCode, CommandError> {
    if args.tasks.is_empty() {
        return Err(UserError::new("--predictions needs --tasks")
            .hint("add --tasks DATASET")
            .into());
    }
    let (cache, catalog) = (cache_dir::default_cache_dir()?, assemble::scaffold_catalog()?);
    let world = assemble::plan_context(&cache, &catalog);
    let sandbox = args.sandbox_spec();
    let grading = config::GradingSettings {
        certificate: args.certificate.clone(),
        flaky: args.flaky.into(),
        wide: args.wide,
        harbor_shared: false,
        cpus: args.cpus,
        memory_mb: args.memory_mb,
    };
    let plain = config::plain_config(args.tasks.clone(), &sandbox, Vec::new());
    let config = ConfigFile { grading: grading.clone(), ..plain };
    // `gold` and `noop` name scaffolds. Anything else is the path of a predictions file.
    let (resolved, taken) = if matches!(file, "gold" | "noop") {
        let arms = vec![config::plain_arm(file, &sandbox)];
        let read = ReadConfig::from_arguments(
            ConfigFile { arms, ..config },
            assemble::SANDBOX_OPTION_HINT,
        );
        (read.resolve(world)?, None)
    } else {
        let taken = predictions::load_predictions(Path::new(file), args.include_failed)?;
        let config = ConfigFile { attempts: taken.attempt_count(), ..config };
        let arms = taken.to_arms(&sandbox);
        (ResolvedConfig::from_patches(config, arms, assemble::SANDBOX_OPTION_HINT), Some(taken))
    };
    let loaded = resolved.load(world, Purpose::Run, &[], None).await?;
    let backend = assemble::start_backend(sandbox.kind, &cache).await?;
    let backends = BTreeMap::from([(sandbox.kind, Arc::clone(&backend))]);
    let jobs = args.jobs.map_or_else(
        || Capacity::new(&assemble::grading_capacity(&grading, &backends)).max_sandboxes(&sandbox),
        |jobs| jobs as usize,
    );
    let ready =
        loaded.jobs(jobs)?.build_bundles(world).await?.build_recipes(world, &backend).await?;
    if let Some(taken) = &taken {
        taken.report_unknown_tasks(ready.tasks())?;
        taken.report_ungradable_tasks(ready.tasks())?;
        taken.report_missing_predictions(ready.tasks());
    }
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/grade-{}", now())));
    let PlannedRun { run, record, plan } =
        ready.create_run(&out, proctor_embedded_agent::agent_digest())?;
    if let Some(taken) = &taken {
        taken.record_trials(&run, &plan.arms, &plan.tasks)?;
    }
    let flakes = FlakyTests::from_record(&record, &assemble::print_message);
    let (cache, grading) = (cache.as_path(), RegradePolicy::ReuseVerdict);
    execute_and_report(PreparedRun {
        run,
        plan,
        jobs,
        backends,
        cache,
        regrade_policy: grading,
        flaky_tests: flakes,
    })
    .await
}
