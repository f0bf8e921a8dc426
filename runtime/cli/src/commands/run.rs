//! `proctor run`: plans a run, writes the plan and executes it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_plan::{LoadedPlan, PlannedRun, Purpose, ReadConfig, to_run_tasks};
use proctor_record::{RunDir, now};
use proctor_report::wrap_long_lines;
use proctor_run::{Plan, PlannedTask};
use proctor_sandbox_api::Backend;
use proctor_types::{Arm, SandboxKind, count_with_noun};

use crate::{
    args::RunArgs,
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::{
        check_tasks::check_tasks,
        execute::{PreparedRun, execute_and_report},
        resume::plan_from_record,
    },
    config::RunConfig,
    error::{CommandError, INTERRUPTED_STATUS, UserError},
    estimates::{self, PlanSize},
    extend, machine_limits, print, shipped,
};

pub async fn run(args: RunArgs) -> Result<ExitCode, CommandError> {
    match prepare_run(args).await? {
        PrepareOutcome::PlanShown => Ok(ExitCode::SUCCESS),
        PrepareOutcome::Interrupted => Ok(ExitCode::from(INTERRUPTED_STATUS)),
        PrepareOutcome::PlanWritten(ready) => {
            let ReadyRun { run, plan, jobs, backends, cache, flaky_tests: flakes } = *ready;
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
    }
}

/// The result of preparing a configuration.
pub enum PrepareOutcome {
    /// The user only asked to see the plan, and it was printed.
    PlanShown,
    /// The run was interrupted while its tasks were checked. Nothing was written.
    Interrupted,
    /// The plan is in the run directory.
    PlanWritten(Box<ReadyRun>),
}

/// A written plan that has not started.
pub struct ReadyRun {
    pub run: RunDir,
    plan: Plan,
    jobs: usize,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: PathBuf,
    flaky_tests: FlakyTests,
}

/// Plans a run. Writes the plan to the run directory, unless the user only wants to see it.
pub async fn prepare_run(args: RunArgs) -> Result<PrepareOutcome, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let catalog = assemble::scaffold_catalog()?;
    let world = assemble::plan_context(&cache, &catalog);
    let config = shipped::find_config(&args.config, &cache)?;
    let mut read = ReadConfig::from_file(&config, &args.set, &cache)?.select_arms(&args.arms);
    if let Some(model) = &args.model {
        read = read.with_model(model)?;
    }
    if let Some(jobs) = args.jobs {
        read = read.jobs(usize::try_from(jobs).unwrap_or(usize::MAX));
    }
    let resolved = read.resolve(world)?;
    if args.dry_run {
        // List recipes without building them, because showing a plan must not start a sandbox.
        let loaded = resolved.load(world, Purpose::Show, &args.tasks, args.limit).await?;
        print_dry_run(&args, &loaded)?;
        return Ok(PrepareOutcome::PlanShown);
    }
    let loaded = resolved.load(world, Purpose::Run, &args.tasks, args.limit).await?;
    let bundled = loaded.build_bundles(world).await?;
    let extension = match (args.extend, &args.out) {
        (true, Some(out)) => Some(extend::open(out, bundled.config(), &assemble::print_message)?),
        _ => None,
    };
    let arms = match &extension {
        Some(extension) => &extension.record.arms,
        None => &bundled.config().arms,
    };
    let backends = assemble::start_backends(arms, &cache, &bundled.config().file.cache).await?;
    // Build recipes on a back end that the trials use anyway.
    let kind = arms.iter().map(|arm| arm.sandbox.kind).min();
    let Some(first) = kind.and_then(|kind| backends.get(&kind)) else {
        return Err(UserError::new("no arm has a sandbox").into());
    };
    let ready = bundled.build_recipes(world, first).await?;
    if let Some(count) = args.check_tasks {
        let has_ended = check_tasks(&ready.config().arms, ready.tasks(), count, world).await?;
        if !has_ended {
            return Ok(PrepareOutcome::Interrupted);
        }
    }
    let planned = match extension {
        Some(extension) => ready.extend(extension, world)?,
        None => {
            let out = args.out.clone().unwrap_or_else(|| default_run_dir(&args.config));
            let size = plan_size(ready.config(), ready.tasks().len());
            for line in estimates::estimate_lines(&size, &runs_dir(Some(&out)))? {
                tell!("{}", wrap_long_lines(&line));
            }
            for line in machine_limits::limit_warnings(&ready.config().arms, ready.tasks()) {
                tell!("{}", wrap_long_lines(&line));
            }
            ready.create_run(&out, proctor_embedded_agent::agent_digest())?
        }
    };
    let PlannedRun { run, record, plan } = planned;
    let plan = Plan { preflight: !args.no_preflight, ..plan };
    let (jobs, flakes) = (record.jobs, FlakyTests::from_record(&record, &assemble::print_message));
    Ok(PrepareOutcome::PlanWritten(Box::new(ReadyRun {
        run,
        plan,
        jobs,
        backends,
        cache,
        flaky_tests: flakes,
    })))
}

fn print_dry_run(args: &RunArgs, loaded_plan: &LoadedPlan) -> Result<(), CommandError> {
    let (config, ids) = (loaded_plan.config(), loaded_plan.task_ids());
    if let (true, Some(out)) = (args.extend, &args.out) {
        return show_extension(out, config, loaded_plan.tasks());
    }
    show_plan(&config.arms, &ids, config.file.attempts)?;
    let size = plan_size(config, ids.len());
    for line in estimates::estimate_lines(&size, &runs_dir(args.out.as_deref()))? {
        print::print_escaped(&format!("{line}\n"))?;
    }
    for line in machine_limits::limit_warnings(&config.arms, loaded_plan.tasks()) {
        tell!("{}", wrap_long_lines(&line));
    }
    Ok(())
}

fn plan_size(run_config: &RunConfig, tasks: usize) -> PlanSize<'_> {
    let file = &run_config.file;
    PlanSize { arms: &run_config.arms, task_count: tasks, attempts: file.attempts, jobs: file.jobs }
}

/// Returns the directory with earlier runs: the parent of the run's own directory.
fn runs_dir(out: Option<&Path>) -> PathBuf {
    let parent = out.and_then(Path::parent);
    parent.map_or_else(|| PathBuf::from("runs"), Path::to_owned)
}

/// Returns `runs/<configuration>-<seconds since the epoch>`.
pub fn default_run_dir(config: &Path) -> PathBuf {
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("runs/{stem}-{}", now()))
}

/// Shows what `--extend` would add and run.
fn show_extension(
    out: &Path,
    run_config: &RunConfig,
    tasks: &[PlannedTask],
) -> Result<(), CommandError> {
    let mut extension = extend::open_read_only(out, run_config, &assemble::print_message)?;
    extension.add_tasks(to_run_tasks(tasks))?;
    let (missing, all) =
        (extension.missing_trial_names()?, plan_from_record(&extension.record).trials().len());
    print::print_escaped(&format!("{}\n", extension.summary()))?;
    for trial in &missing {
        print::print_escaped(&format!("trial {trial}\n"))?;
    }
    let there = all - missing.len();
    print::print_escaped(&format!(
        "{} to run; {there} of {all} already exist\n",
        count_with_noun(missing.len(), "trial")
    ))?;
    Ok(())
}

fn show_plan(arms: &[Arm], tasks: &[String], attempts: u32) -> std::io::Result<()> {
    let mut text = String::new();
    for arm in arms {
        let kind = arm.sandbox.kind;
        let model = arm.model.as_ref().map_or("no model", |model| &model.name);
        let steps =
            arm.budget.steps.map_or("no step limit".into(), |steps| count_with_noun(steps, "step"));
        let (id, name, scaffold) = (arm.id.as_str(), &arm.name, &arm.scaffold);
        text += &format!("arm  {id:.12}  {name}: {scaffold}, {model}, {steps}, {kind}\n");
    }
    for task in tasks {
        text += &format!("task {task}\n");
    }
    let trials = arms.len() * tasks.len() * attempts as usize;
    text += &format!(
        "{}: {} x {} x {}\n",
        count_with_noun(trials, "trial"),
        count_with_noun(tasks.len(), "task"),
        count_with_noun(arms.len(), "arm"),
        count_with_noun(attempts, "attempt")
    );
    print::print_escaped(&text)
}
