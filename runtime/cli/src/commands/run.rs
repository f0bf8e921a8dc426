//! `proctor run`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_plan::{Loaded, Planned, Purpose, Read, run_tasks};
use proctor_record::{RunDir, now};
use proctor_report::wrapped;
use proctor_run::{Plan, PlannedTask};
use proctor_sandbox_api::Backend;
use proctor_types::{Arm, SandboxKind, plural};

use crate::{
    args::RunArgs,
    assemble::{self, Flakes, Grading},
    commands::{
        carry_out::{Work, carry_out},
        check_tasks::check_tasks,
        resume::plan_of,
    },
    config::RunConfig,
    error::{CommandError, INTERRUPTED, UserError},
    extend, home, machine_limits,
    planning::{self, Size},
    print, shipped,
};

pub async fn run(args: RunArgs) -> Result<ExitCode, CommandError> {
    match prepare(args).await? {
        Prepared::Done => Ok(ExitCode::SUCCESS),
        Prepared::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        Prepared::Ready(ready) => {
            let Ready { run, plan, jobs, backends, cache, flakes } = *ready;
            let (cache, grading) = (cache.as_path(), Grading::Once);
            carry_out(Work { run, plan, jobs, backends, cache, grading, flakes }).await
        }
    }
}

/// The result of preparing a configuration.
pub enum Prepared {
    /// The plan was shown.
    Done,
    /// The run was interrupted while its tasks were checked. Nothing was written.
    Interrupted,
    /// The plan is in the run directory.
    Ready(Box<Ready>),
}

/// A written plan that has not started.
pub struct Ready {
    pub run: RunDir,
    plan: Plan,
    jobs: usize,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: PathBuf,
    flakes: Flakes,
}

/// Plans a run. Writes the plan, unless it is only shown.
pub async fn prepare(args: RunArgs) -> Result<Prepared, CommandError> {
    let cache = home::cache()?;
    let catalog = assemble::catalog()?;
    let world = assemble::world(&cache, &catalog);
    let config = shipped::find(&args.config, &cache)?;
    let mut read = Read::of_file(&config, &args.set)?.arms(&args.arms);
    if let Some(model) = &args.model {
        read = read.model(model)?;
    }
    if let Some(jobs) = args.jobs {
        read = read.jobs(usize::try_from(jobs).unwrap_or(usize::MAX));
    }
    let resolved = read.resolve(world)?;
    if args.dry_run {
        // List recipes without building them: showing a plan must not start anything.
        let loaded = resolved.load(world, Purpose::Show, &args.tasks, args.limit).await?;
        show(&args, &loaded)?;
        return Ok(Prepared::Done);
    }
    let loaded = resolved.load(world, Purpose::Run, &args.tasks, args.limit).await?;
    let bundled = loaded.bundle(world).await?;
    let extension = match (args.extend, &args.out) {
        (true, Some(out)) => Some(extend::open(out, bundled.config(), &assemble::say)?),
        _ => None,
    };
    let arms = match &extension {
        Some(extension) => &extension.record.arms,
        None => &bundled.config().arms,
    };
    let backends = assemble::backends(arms, &cache, &bundled.config().file.cache).await?;
    // Build recipes on a back end that runs trials.
    let kind = arms.iter().map(|arm| arm.sandbox.kind).min();
    let Some(first) = kind.and_then(|kind| backends.get(&kind)) else {
        return Err(UserError::new("no arm has a sandbox").into());
    };
    let ready = bundled.build(world, first).await?;
    if let Some(count) = args.check_tasks {
        let has_ended = check_tasks(&ready.config().arms, ready.tasks(), count, world).await?;
        if !has_ended {
            return Ok(Prepared::Interrupted);
        }
    }
    let planned = match extension {
        Some(extension) => ready.extend(extension, world)?,
        None => {
            let out = args.out.clone().unwrap_or_else(|| default_out(&args.config));
            let size = size(ready.config(), ready.tasks().len());
            for line in planning::lines(&size, &runs_beside(Some(&out)))? {
                tell!("{}", wrapped(&line));
            }
            for line in machine_limits::lines(&ready.config().arms, ready.tasks()) {
                tell!("{}", wrapped(&line));
            }
            ready.start(&out, proctor_embedded_agent::agent_digest())?
        }
    };
    let Planned { run, record, plan } = planned;
    let plan = Plan { preflight: !args.no_preflight, ..plan };
    let (jobs, flakes) = (record.jobs, Flakes::of(&record, &assemble::say));
    Ok(Prepared::Ready(Box::new(Ready { run, plan, jobs, backends, cache, flakes })))
}

/// Prints the plan of a dry run.
fn show(args: &RunArgs, loaded: &Loaded) -> Result<(), CommandError> {
    let (config, ids) = (loaded.config(), loaded.ids());
    if let (true, Some(out)) = (args.extend, &args.out) {
        return show_extension(out, config, loaded.tasks());
    }
    show_plan(&config.arms, &ids, config.file.attempts)?;
    let size = size(config, ids.len());
    for line in planning::lines(&size, &runs_beside(args.out.as_deref()))? {
        print::shown(&format!("{line}\n"))?;
    }
    for line in machine_limits::lines(&config.arms, loaded.tasks()) {
        tell!("{}", wrapped(&line));
    }
    Ok(())
}

fn size(resolved: &RunConfig, tasks: usize) -> Size<'_> {
    let file = &resolved.file;
    Size { arms: &resolved.arms, tasks, attempts: file.attempts, jobs: file.jobs }
}

/// Returns the directory with earlier runs: the parent of the run's own directory.
fn runs_beside(out: Option<&Path>) -> PathBuf {
    let parent = out.and_then(Path::parent);
    parent.map_or_else(|| PathBuf::from("runs"), Path::to_owned)
}

/// Returns `runs/<configuration>-<seconds since the epoch>`.
pub fn default_out(config: &Path) -> PathBuf {
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("runs/{stem}-{}", now()))
}

/// Shows what `--extend` would add and run.
fn show_extension(
    out: &Path,
    resolved: &RunConfig,
    tasks: &[PlannedTask],
) -> Result<(), CommandError> {
    let mut extension = extend::view(out, resolved, &assemble::say)?;
    extension.add_tasks(run_tasks(tasks))?;
    let (missing, all) = (extension.missing()?, plan_of(&extension.record).trials().len());
    print::shown(&format!("{}\n", extension.told()))?;
    for trial in &missing {
        print::shown(&format!("trial {trial}\n"))?;
    }
    let there = all - missing.len();
    print::shown(&format!(
        "{} to run; {there} of {all} exist already\n",
        plural(missing.len(), "trial")
    ))?;
    Ok(())
}

fn show_plan(arms: &[Arm], tasks: &[String], attempts: u32) -> std::io::Result<()> {
    let mut text = String::new();
    for arm in arms {
        let kind = arm.sandbox.kind;
        let model = arm.model.as_ref().map_or("no model", |model| &model.name);
        let steps = arm.budget.steps.map_or("no step limit".into(), |steps| plural(steps, "step"));
        let (id, name, scaffold) = (arm.id.as_str(), &arm.name, &arm.scaffold);
        text += &format!("arm  {id:.12}  {name}: {scaffold}, {model}, {steps}, {kind}\n");
    }
    for task in tasks {
        text += &format!("task {task}\n");
    }
    let trials = arms.len() * tasks.len() * attempts as usize;
    text += &format!(
        "{}: {} x {} x {}\n",
        plural(trials, "trial"),
        plural(tasks.len(), "task"),
        plural(arms.len(), "arm"),
        plural(attempts, "attempt")
    );
    print::shown(&text)
}
