//! `proctor fork RUN --trial TASK/ARM/ATTEMPT --step K`: continues a trial from one of its steps,
//! with another arm.

use std::{process::ExitCode, sync::Arc};

use proctor_plan::{PlannedRun, ReadConfig};
use proctor_record::{
    RunDir,
    trial_lookup::{PlannedTrial, find_by_name},
};
use proctor_run::{ForkPoint, PlannedTask};
use proctor_scaffold_api::ScaffoldSource as _;
use proctor_types::{Arm, Disclosure, ForkOrigin, RecordedConfig};

use crate::{
    args::ForkArgs,
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::execute::{PreparedRun, execute_and_report},
    config::{self, CheckExtent, ConfigFile},
    error::{CommandError, UserError},
};

/// Keys of `--set` that change the arm.
const ARM_KEYS: [&str; 9] = [
    "name",
    "scaffold",
    "settings",
    "model",
    "sandbox",
    "network",
    "leak_check",
    "budget",
    "prompts",
];

pub async fn fork(args: ForkArgs) -> Result<ExitCode, CommandError> {
    let parent = RunDir::open_read_only(&args.run).map_err(CommandError::from_record_error)?;
    let record = parent.read_run()?;
    let found = find_by_name(&record, &args.trial)?;
    let point = ForkPoint::read(&parent, &found.id(), args.step)?.map_err(|why| {
        UserError::new(format!("--step {}: {}: {why}", args.step, found.name()))
            .hint("`proctor show RUN TASK ARM ATTEMPT` lists its steps")
    })?;
    let (cache, catalog) = (cache_dir::default_cache_dir()?, assemble::scaffold_catalog()?);
    let world = assemble::plan_context(&cache, &catalog);
    let (file, hint) = config_with_changes(&record.config, &found, &args)?;
    let resolved = ReadConfig::from_arguments(file, assemble::SANDBOX_KEY_HINT).resolve(world)?;
    let Some(arm) = resolved.config().arms.first() else {
        return Err(UserError::new("the changed configuration has no arm").into());
    };
    let alone = files_only_reason(&found, arm, &point)?;
    if alone.is_none()
        && let Some(limit) = arm.budget.steps.filter(|limit| *limit <= args.step)
    {
        let step = args.step;
        let what =
            format!("budget.steps = {limit}: the copied conversation is already at step {step}");
        return Err(UserError::new(what)
            .hint(format!("set a limit above {step}, or fork at an earlier step"))
            .into());
    }
    if let Some(why) = &alone {
        tell!("note: only the files are copied, and the conversation starts over: {why}");
    }
    let told = |arm: &Arm| arm.budget.disclosure == Disclosure::Announced;
    if alone.is_none() && told(found.arm) && arm.budget != found.arm.budget {
        tell!("note: the copied conversation states the limits of the original trial");
    }
    let origin = ForkOrigin {
        run: args.run.canonicalize().unwrap_or_else(|_| args.run.clone()).display().to_string(),
        task: found.task.task.id.clone(),
        arm: found.arm.id.clone(),
        name: found.arm.name.clone(),
        attempt: found.attempt,
        step: args.step,
        tree: point.tree_hash().to_owned(),
        conversation: alone.is_none(),
        files_alone_because: alone,
        hint,
    };
    let task = PlannedTask {
        task: Arc::new(found.task.task.clone()),
        base_dir: found.task.base_dir.clone(),
    };
    let ready = resolved.fork_from(origin.clone()).with_tasks(world, vec![task]).await?;
    let kept = &ready.config().file.cache;
    let backends = assemble::start_backends(&ready.config().arms, &cache, kept).await?;
    let planned = ready.create_run(&args.out, proctor_embedded_agent::agent_digest())?;
    let PlannedRun { run: child, record, plan } = planned;
    let Some((id, _, arm)) = plan.trials().into_iter().next() else {
        return Ok(ExitCode::SUCCESS);
    };
    point.start_trial(&child, &id, &arm, &origin, is_same_model(found.arm, &arm))?;
    let flakes = FlakyTests::from_record(&record, &assemble::print_message);
    let (cache, grading) = (cache.as_path(), RegradePolicy::ReuseVerdict);
    execute_and_report(PreparedRun {
        run: child,
        plan,
        jobs: 1,
        backends,
        cache,
        regrade_policy: grading,
        flaky_tests: flakes,
    })
    .await
}

/// Returns the configuration of the original trial's arm, changed by `--set` and the hint.
fn config_with_changes(
    config: &RecordedConfig,
    planned_trial: &PlannedTrial<'_>,
    args: &ForkArgs,
) -> Result<(ConfigFile, Option<String>), CommandError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        UserError::new(format!("{}: cannot read its configuration: {error}", args.run.display()))
    };
    let mut file = ConfigFile::from_record(config).map_err(|error| unreadable(&error))?;
    file.arms.retain(|arm| arm.name == planned_trial.arm.name);
    let mut table = toml::Table::try_from(&file).map_err(|error| unreadable(&error))?;
    let name = format!("arms.0.name=\"{}/step-{}\"", planned_trial.arm.name, args.step);
    config::set(&mut table, &name)?;
    let mut hint = None;
    for set in &args.set {
        let key = set.split(['=', '.']).next().unwrap_or_default();
        match set.strip_prefix("hint=") {
            Some(text) => hint = Some(text.to_owned()),
            None if ARM_KEYS.contains(&key) => {
                config::set(&mut table, &format!("arms.0.{set}"))?;
                // `budget.run` limits belong to the run and apply to all arms.
                if set.starts_with("budget.run.") {
                    config::set(&mut table, set)?;
                }
            }
            None => drop(config::set(&mut table, set)?),
        }
    }
    config::check_keys(&table, CheckExtent::Complete).map_err(|problem| {
        UserError::new(format!("--set: {}", problem.error.message)).hint(problem.error.hint)
    })?;
    let file = config::config_from_table(&table).map_err(|why| {
        UserError::new(format!("--set: {why}"))
            .hint("use a key of the run configuration, or `hint`")
    })?;
    Ok((ConfigFile { attempts: 1, jobs: 1, ..file }, hint))
}

fn is_same_model(first: &Arm, second: &Arm) -> bool {
    let of = |arm: &Arm| arm.model.as_ref().map(|model| (model.name.clone(), model.api));
    of(first) == of(second)
}

/// Returns why the conversation cannot be copied, or `None` if it can.
fn files_only_reason(
    planned_trial: &PlannedTrial<'_>,
    arm: &Arm,
    point: &ForkPoint,
) -> Result<Option<String>, CommandError> {
    let catalog = assemble::scaffold_catalog()?;
    let goes_on = |name: &str| {
        catalog.find_scaffold(name).ok().flatten().is_some_and(|one| one.is_resumable())
    };
    let (before, after) = (planned_trial.arm, arm);
    let same = |key: &str| before.prompts.get(key) == after.prompts.get(key);
    let why = if before.scaffold != after.scaffold {
        format!("`{}` and `{}` have different tools", before.scaffold, after.scaffold)
    } else if !goes_on(&after.scaffold) {
        format!("`{}` cannot continue a conversation", after.scaffold)
    } else if !same("tools") || !same("revision") {
        "the tool descriptions differ".to_owned()
    } else if point.has_hint() {
        "the conversation contains the hint of an earlier fork".to_owned()
    } else if point.is_submitted {
        "the step submitted the work, which ends the conversation".to_owned()
    } else {
        return Ok(None);
    };
    Ok(Some(why))
}
