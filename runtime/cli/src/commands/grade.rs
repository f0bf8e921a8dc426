//! `proctor grade`: grades existing patches in fresh sandboxes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
};

use proctor_record::{RunDir, find::planned, now};
use proctor_run::{Capacity, Plan, PlannedTask};
use proctor_types::{
    Arm, ArmId, Budget, LeakCheckSpec, NetworkPolicy, RunRecord, SandboxSpec, StatementSpec,
};
use serde_json::Value;

use crate::{
    args::GradeArgs,
    assemble::{self, Grading},
    checks,
    commands::{
        carry_out::carry_out,
        grade_log, predictions,
        resume::{ResumeOptions, resume},
    },
    config::{self, ConfigFile},
    error::{CommandError, INCOMPLETE, UserError},
    home, open_files, tasks, workers,
};

pub async fn grade(args: GradeArgs) -> Result<ExitCode, CommandError> {
    if let (Some(log), Some(task)) = (&args.log, &args.task) {
        return grade_log::grade_log(log, task);
    }
    let mut args = args;
    // `--tasks` takes all following words, including a run directory.
    if args.run.is_none()
        && args.predictions.is_none()
        && args.tasks.last().is_some_and(|last| Path::new(last).join("run.json").is_file())
    {
        args.run = args.tasks.pop().map(PathBuf::from);
    }
    if args.run.is_some() && !args.tasks.is_empty() {
        tell!("note: ignoring --tasks: a run has its tasks in its plan");
    }
    match (&args.run, &args.predictions) {
        (Some(run), None) => match &args.out {
            Some(out) => {
                copy_run(run, out)?;
                regrade(out).await
            }
            None => regrade(run).await,
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
    // Ensures that it is a run and that nothing writes to it meanwhile.
    let _held = RunDir::open(run).map_err(CommandError::of_run)?;
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

/// Grades every recorded patch of a run again. The old verdicts are withdrawn first, so that a
/// killed regrading is a run with missing verdicts, which `resume` completes. A trial with a
/// damaged record keeps its verdict until the record is restored, and a trial that cannot be graded
/// gets its verdict back.
async fn regrade(path: &Path) -> Result<ExitCode, CommandError> {
    let (mut kept, mut withdrawn) = (Vec::new(), Vec::new());
    {
        let run = RunDir::open(path).map_err(CommandError::of_run)?;
        workers::expect_none(path)?;
        let record: RunRecord = run.read_run()?;
        // Read everything, not only what a report relies on: what cannot be graded keeps its
        // verdict.
        let mut verifier = run.verifier();
        for found in planned(&record) {
            let id = found.id();
            let checked = verifier.check(&id);
            if checked.verdict.is_some() {
                run.trial_path(&id).withdraw_verdict("`proctor grade` regrades the run")?;
                withdrawn.push(id);
            } else if run.trial_path(&id).verdict().exists() {
                let lost = checked.damage.iter().filter(|one| one.withholds_the_verdict());
                kept.extend(lost.map(|one| format!("{id}: {one}; {}", one.remedy.hint())));
            }
        }
    }
    let done = resume(path, &[], ResumeOptions::default(), Grading::Anew).await;
    if done.is_err() {
        // Nothing was graded, for a reason that affects all trials.
        let run = RunDir::open(path).map_err(CommandError::of_run)?;
        for id in &withdrawn {
            run.trial_path(id).give_verdict_back()?;
        }
    }
    let done = done?;
    for damage in &kept {
        tell!("not graded again: {damage}");
    }
    Ok(if done == ExitCode::SUCCESS && !kept.is_empty() {
        ExitCode::from(INCOMPLETE)
    } else {
        done
    })
}

/// Rejects tasks that cannot be graded.
fn check(file: &str, sandbox: &SandboxSpec, planned: &[PlannedTask]) -> Result<(), UserError> {
    let arm = Arm {
        control: false,
        forked_from: None,
        id: ArmId::new(""),
        name: file.to_owned(),
        scaffold: file.to_owned(),
        model: None,
        budget: Budget::default(),
        sandbox: sandbox.clone(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        statement: StatementSpec::default(),
        prompts: Value::Null,
        settings: Value::Null,
    };
    checks::plan(&assemble::catalog()?, &[arm], planned, "use --sandbox docker", &|_, _, error| {
        error
    })
}

async fn grade_predictions(args: &GradeArgs, file: &str) -> Result<ExitCode, CommandError> {
    if args.tasks.is_empty() {
        return Err(UserError::new("--predictions needs --tasks")
            .hint("add --tasks DATASET")
            .into());
    }
    let cache = home::cache()?;
    let sandbox = args.sandbox_spec();
    let loaded = tasks::whole(&args.tasks, &cache, &assemble::say).await?;
    check(file, &sandbox, &tasks::planned(&loaded)?)?;
    let backend = assemble::backend(sandbox.kind, &cache).await?;
    let planned = tasks::built(loaded, &cache, &backend, &assemble::say).await?;
    let backends = BTreeMap::from([(sandbox.kind, backend)]);
    let grading = config::GradingFile {
        certificate: args.certificate.clone(),
        flaky: args.flaky.into(),
        wide: args.wide,
        harbor_shared: false,
        cpus: args.cpus,
        memory_mb: args.memory_mb,
    };
    let jobs = args.jobs.map_or_else(
        || Capacity::of(&assemble::capacity(&grading, &backends)).sandboxes(&sandbox),
        |jobs| jobs as usize,
    );
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/grade-{}", now())));
    let plain = config::plain_config(args.tasks.clone(), &sandbox, Vec::new());
    let config = ConfigFile { jobs, grading, ..plain };
    // `gold` and `noop` are scaffolds; anything else is a file of patches.
    if matches!(file, "gold" | "noop") {
        let arms = vec![config::plain_arm(file, &sandbox)];
        let config = ConfigFile { arms, ..config };
        let resolved = assemble::resolve(config, &config::Written::default())?;
        open_files::check(jobs, planned.len(), resolved.arms.iter())?;
        let (run, flakes) =
            assemble::start(&out, &resolved.file, resolved.arms.clone(), &planned, None)?;
        let arms = resolved.arms.into_iter().map(Arc::new).collect();
        let plan = Plan { tasks: planned, arms, attempts: 1, ..Plan::default() };
        return carry_out(run, plan, jobs, backends, &cache, Grading::Once, flakes).await;
    }
    let taken = predictions::read(Path::new(file), args.include_failed)?;
    taken.tell_strangers(&planned)?;
    let arms: Vec<_> = taken.arms(&sandbox).into_iter().map(Arc::new).collect();
    let attempts = taken.attempts();
    let config = ConfigFile { attempts, ..config };
    let bare: Vec<_> = arms.iter().map(|arm| arm.as_ref().clone()).collect();
    let trials = planned.len() * bare.len() * attempts as usize;
    open_files::check(jobs, trials, bare.iter())?;
    let (run, flakes) = assemble::start(&out, &config, bare, &planned, None)?;
    taken.record(&run, &arms, &planned)?;
    let plan = Plan { tasks: planned, arms, attempts, ..Plan::default() };
    carry_out(run, plan, jobs, backends, &cache, Grading::Once, flakes).await
}
