//! `proctor run`.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use proctor_core::{Plan, PlannedTask};
use proctor_datasets::Loaded;
use proctor_record::RunDir;
use proctor_report::wrapped;
use proctor_sandbox_api::Backend;
use proctor_setup::local_source;
use proctor_types::{Arm, RULES, RUN_SCHEMA, RunRecord, RunTask, SandboxKind, Selection, plural};

use crate::{
    args::RunArgs,
    assemble::{self, Flakes, Grading},
    checks,
    commands::{
        carry_out::carry_out, certificate, check_tasks::check_tasks, extend, resume::plan_of,
    },
    config::{self, ConfigFile, RunConfig, Written},
    error::{CommandError, UserError},
    home, host, lent, open_files,
    planning::{self, Size},
    print, scaffolds, selection, shipped, tasks, wanted,
};

pub async fn run(args: RunArgs) -> Result<ExitCode, CommandError> {
    match prepare(args).await? {
        Prepared::Done => Ok(ExitCode::SUCCESS),
        Prepared::Ready(ready) => {
            let Ready { run, plan, jobs, backends, cache, flakes } = *ready;
            carry_out(run, plan, jobs, backends, &cache, Grading::Once, flakes).await
        }
    }
}

/// The result of preparing a configuration.
pub enum Prepared {
    /// Its plan was shown.
    Done,
    /// Its plan is in the run directory.
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

/// Plans a run, and writes the plan unless it is only shown.
pub async fn prepare(args: RunArgs) -> Result<Prepared, CommandError> {
    let cache = home::cache()?;
    let config = shipped::find(&args.config, &cache)?;
    let (mut file, mut written) = config::read(&config, &args.set)?;
    let all_arms = file.arms.len();
    let mut globs = args.arms.clone();
    if let Some(model) = &args.model {
        if !globs.is_empty() {
            (file, written) = selection::arms_of_file(file, &written, &globs, model)?;
            globs.clear();
        }
        config::put_model(&mut file, model)?;
    }
    if let Some(jobs) = args.jobs {
        file.jobs = usize::try_from(jobs).unwrap_or(usize::MAX);
    }
    let resolve = |file: ConfigFile| {
        let all = config::resolve(file, &written, &assemble::known())?;
        selection::arms(all, &written, &globs)
    };
    let (resolved, written) = resolve(file.clone())?;
    if !args.arms.is_empty() {
        let all = plural(all_arms, "arm");
        tell!("note: running {} of {all}", resolved.arms.len());
    }
    // An invalid certificate ends the run before anything is built.
    if let Some(path) = &resolved.file.grading.certificate {
        certificate::read(path)
            .map_err(|error| written.about(&["grading", "certificate"], error))?;
    }
    if args.dry_run {
        // List recipes without building them: showing a plan starts nothing.
        let (loaded, _) = chosen(&args, &resolved, &written, &cache).await?;
        let planned = tasks::planned(&loaded)?;
        check(&resolved, &written, &planned)?;
        check_bundles(&resolved, &written, &planned)?;
        if loaded.recipes.is_empty() {
            statements(&resolved, &written, &planned)?;
        }
        if let (true, Some(out)) = (args.extend, &args.out) {
            show_extension(out, &resolved, &planned)?;
            return Ok(Prepared::Done);
        }
        let named = loaded.tasks.iter().map(|task| task.id.to_string());
        let recipes = loaded.recipes.iter().map(|located| located.recipe.id.clone());
        show_plan(
            &resolved.arms,
            &named.chain(recipes).collect::<Vec<_>>(),
            resolved.file.attempts,
        )?;
        let count = loaded.tasks.len() + loaded.recipes.len();
        for line in planning::lines(&size(&resolved, count), &runs_beside(args.out.as_deref()))? {
            print::shown(&format!("{line}\n"))?;
        }
        for line in wanted::lines(&resolved.arms, &tasks::planned(&loaded)?) {
            tell!("{}", wrapped(&line));
        }
        return Ok(Prepared::Done);
    }
    assemble::check_models(&resolved.arms, &|arm, error| {
        let file = &resolved.file;
        let written_arm = file.arms.iter().find(|one| one.name == arm.name);
        let Some(model) = written_arm.and_then(|one| one.model.as_deref()) else { return error };
        // The rest of a model was checked when it was resolved; only its key or its URL is left.
        let keyed = arm.model.as_ref().is_some_and(|model| model.key_env.is_some());
        let key = if keyed { "key_env" } else { "base_url" };
        written.about(&["models", model, key], error)
    })?;
    let (loaded, selection) = chosen(&args, &resolved, &written, &cache).await?;
    // Before using a back end: recipes build for minutes.
    check(&resolved, &written, &tasks::planned(&loaded)?)?;
    let mut resolved = resolved;
    if scaffolds::build(&resolved.file).await? {
        resolved = resolve(file)?.0;
    }
    check_bundles(&resolved, &written, &tasks::planned(&loaded)?)?;
    let mut extension = match (args.extend, &args.out) {
        (true, Some(out)) => Some(extend::open(out, &resolved)?),
        _ => None,
    };
    let arms = extension.as_ref().map_or(&resolved.arms, |extension| &extension.record.arms);
    let backends = assemble::backends(arms, &cache).await?;
    // Recipes are built where trials run.
    let kind = arms.iter().map(|arm| arm.sandbox.kind).min();
    let Some(first) = kind.and_then(|kind| backends.get(&kind)) else {
        return Err(UserError::new("no arm has a sandbox").into());
    };
    let any_recipe = !loaded.recipes.is_empty();
    let tasks = tasks::built(loaded, &cache, first).await?;
    check(&resolved, &written, &tasks)?;
    if any_recipe {
        check_bundles(&resolved, &written, &tasks)?;
    }
    statements(&resolved, &written, &tasks)?;
    if let Some(count) = args.check_tasks {
        check_tasks(&resolved.arms, &tasks, count).await?;
    }
    if let Some(mut extension) = extension.take() {
        extension.add_tasks(run_tasks(&tasks))?;
        assemble::check_models(&extension.record.arms, &|_, error| error)?;
        let plan = Plan { preflight: !args.no_preflight, ..plan_of(&extension.record) };
        let jobs = extension.record.jobs;
        open_files::check(jobs, plan.trials().len(), extension.record.arms.iter())?;
        extension.write(selection)?;
        tell!("{}", extension.told());
        let flakes = Flakes::of(&extension.record);
        let run = extension.run;
        let ready = Ready { run, plan, jobs, backends, cache, flakes };
        return Ok(Prepared::Ready(Box::new(ready)));
    }
    let out = args.out.unwrap_or_else(|| default_out(&args.config));
    for line in planning::lines(&size(&resolved, tasks.len()), &runs_beside(Some(&out)))? {
        tell!("{}", wrapped(&line));
    }
    for line in wanted::lines(&resolved.arms, &tasks) {
        tell!("{}", wrapped(&line));
    }
    let (run, flakes) = start(&out, &resolved.file, resolved.arms.clone(), &tasks, selection)?;
    let plan = Plan {
        tasks,
        arms: resolved.arms.into_iter().map(Into::into).collect(),
        attempts: resolved.file.attempts,
        preflight: !args.no_preflight,
        ..Plan::default()
    };
    let jobs = resolved.file.jobs;
    Ok(Prepared::Ready(Box::new(Ready { run, plan, jobs, backends, cache, flakes })))
}

/// Adds the place of an arm's key to a message.
fn place(resolved: &RunConfig, written: &Written) -> impl Fn(&Arm, &str, UserError) -> UserError {
    |arm, key, error| {
        let index = resolved.arms.iter().position(|one| one.id == arm.id).unwrap_or(0).to_string();
        let path = match key.split_once('.') {
            Some((table, key)) => written.of_arm(&index, table, key),
            None => vec!["arms", &index, key],
        };
        written.about(&path, error)
    }
}

/// Checks agents' bundles for content of the plan's tasks.
fn check_bundles(
    resolved: &RunConfig,
    written: &Written,
    tasks: &[PlannedTask],
) -> Result<(), UserError> {
    lent::check(&resolved.file, &resolved.arms, tasks, &place(resolved, written))
}

fn size(resolved: &RunConfig, tasks: usize) -> Size<'_> {
    let file = &resolved.file;
    Size { arms: &resolved.arms, tasks, attempts: file.attempts, jobs: file.jobs }
}

/// The directory with earlier runs: the parent of the run's own directory.
fn runs_beside(out: Option<&Path>) -> PathBuf {
    let parent = out.and_then(Path::parent);
    parent.map_or_else(|| PathBuf::from("runs"), Path::to_owned)
}

/// The requested tasks, and which of all tasks they are.
async fn chosen(
    args: &RunArgs,
    resolved: &RunConfig,
    written: &Written,
    cache: &Path,
) -> Result<(Loaded, Option<Selection>), UserError> {
    let loaded = tasks::whole(&resolved.file.tasks, cache).await;
    let mut loaded = loaded.map_err(|error| written.about(&["tasks"], error))?;
    let selection = selection::choose(&mut loaded, &args.tasks, args.limit)?;
    Ok((loaded, selection))
}

/// Rejects what no trial of the plan could do, with the arm's line.
fn check(resolved: &RunConfig, written: &Written, tasks: &[PlannedTask]) -> Result<(), UserError> {
    checks::plan(
        &resolved.arms,
        tasks,
        "set kind = \"docker\" below [sandbox], or use --set sandbox.kind=docker",
        &place(resolved, written),
    )?;
    for (index, arm) in resolved.file.arms.iter().enumerate() {
        if let Some(trajectory) = &arm.replay {
            checks::replay(trajectory, tasks)
                .map_err(|error| written.about(&["arms", &index.to_string(), "replay"], error))?;
        }
    }
    let trials = tasks.len() * resolved.arms.len() * resolved.file.attempts as usize;
    open_files::check(resolved.file.jobs, trials, resolved.arms.iter())
        .map_err(|error| written.about(&["jobs"], error))
}

/// Rejects `[statement]` keys that affect no task of the plan, with their line.
fn statements(
    resolved: &RunConfig,
    written: &Written,
    tasks: &[PlannedTask],
) -> Result<(), UserError> {
    for (index, arm) in resolved.arms.iter().enumerate() {
        checks::statement(arm, tasks).map_err(|(key, error)| {
            written.about(&written.of_arm(&index.to_string(), "statement", key), error)
        })?;
    }
    Ok(())
}

/// `runs/<configuration>-<seconds since the epoch>`.
pub fn default_out(config: &Path) -> PathBuf {
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("runs/{stem}-{}", now()))
}

/// Seconds since the Unix epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Creates the run directory and writes the plan before anything starts.
pub fn start(
    out: &Path,
    file: &ConfigFile,
    arms: Vec<Arm>,
    tasks: &[PlannedTask],
    selection: Option<Selection>,
) -> Result<(RunDir, Flakes), CommandError> {
    if out.join("run.json").exists() {
        let what = format!("{} already contains a run", out.display());
        let hint = format!(
            "continue it with `proctor resume {}`, add to it with --extend, or choose another --out",
            out.display()
        );
        return Err(UserError::new(what).hint(hint).into());
    }
    let taken = match std::fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some().then_some("is not empty"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some("is not a readable folder"),
    };
    if let Some(why) = taken {
        let what = format!("--out {}: {why}", out.display());
        return Err(UserError::new(what).hint("choose a new or an empty folder").into());
    }
    let certificate = file.grading.certificate.as_deref().map(certificate::read).transpose()?;
    let run = RunDir::create(out).map_err(CommandError::of_run)?;
    let record = RunRecord {
        schema_version: RUN_SCHEMA,
        rules: RULES,
        proctor: env!("CARGO_PKG_VERSION").into(),
        created: now(),
        attempts: file.attempts,
        jobs: file.jobs,
        arms,
        tasks: run_tasks(tasks),
        config: serde_json::to_value(file)?,
        host: host::fingerprint(),
        agent: proctor_embedded_agent::agent_digest().to_owned(),
        certificate,
        flaky: file.grading.flaky,
        selection,
        absent: std::collections::BTreeSet::new(),
        changes: Vec::new(),
    };
    run.check_arms(record.arms.iter().map(|arm| &arm.id))?;
    run.write_run(&record)?;
    Ok((run, Flakes::of(&record)))
}

/// The tasks in the form of a run's plan.
pub fn run_tasks(planned: &[PlannedTask]) -> Vec<RunTask> {
    // Hundreds of tasks may share a directory, and all of it is read.
    let mut read: HashMap<(PathBuf, String), Option<String>> = HashMap::new();
    let mut source = |one: &PlannedTask| {
        let source = one.task.source.as_ref()?;
        let key = (one.base_dir.clone(), format!("{source:?}"));
        read.entry(key).or_insert_with(|| local_source(source, &one.base_dir)).clone()
    };
    let one = |planned: &PlannedTask| RunTask {
        task: planned.task.as_ref().clone(),
        digest: planned.task.digest(),
        base_dir: planned.base_dir.clone(),
        source: source(planned),
        host_bound: planned.task.environment.base.as_deref() == Some("host"),
    };
    planned.iter().map(one).collect()
}

/// Shows what `--extend` would add and run.
fn show_extension(
    out: &Path,
    resolved: &RunConfig,
    tasks: &[PlannedTask],
) -> Result<(), CommandError> {
    let mut extension = extend::view(out, resolved)?;
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
