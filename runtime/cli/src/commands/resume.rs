//! `proctor resume`.

use std::{collections::BTreeSet, path::Path, process::ExitCode, sync::Arc};

use proctor_core::{Plan, PlannedTask};
use proctor_record::RunDir;
use proctor_types::{RunRecord, TrialId};

use crate::{
    assemble::{self, Flakes, Grading},
    commands::carry_out::carry_out,
    config,
    error::{CommandError, UserError},
    home, open_files,
};

/// Goes on with the plan that the run directory holds; nothing is read from the datasets again.
/// `sets` may change what trials share and nothing else: `budget.run.*` and `budget.arm.*`.
pub async fn resume(
    path: &Path,
    sets: &[String],
    grading: Grading,
) -> Result<ExitCode, CommandError> {
    let run = RunDir::open(path).map_err(CommandError::of_run)?;
    let (mut record, damage): (RunRecord, _) = run.verify_run()?;
    if let Some(damage) = damage {
        run.restore_run()?;
        eprintln!("restored: {damage}");
    }
    if !sets.is_empty() {
        raise(&mut record, sets)?;
        run.write_run(&record)?;
    }
    let mut plan = plan_of(&record);
    if grading == Grading::Anew {
        // What is graded anew is what was submitted. Driving the rest would ask models, which is `resume`'s.
        plan.only = Some(finished(&run, &plan));
    } else {
        assemble::check_models(&record.arms, &|_, error| error)?;
    }
    open_files::check(record.jobs, plan.trials().len(), record.arms.iter())?;
    let flakes = Flakes::of(&record);
    let cache = home::cache()?;
    let backends = assemble::backends(&record.arms, &cache).await?;
    carry_out(run, plan, record.jobs, backends, &cache, grading, flakes).await
}

fn finished(run: &RunDir, plan: &Plan) -> BTreeSet<TrialId> {
    plan.trials().into_iter().map(|(id, ..)| id).filter(|id| run.check(id).finished).collect()
}

/// Lays new shared limits over every arm's. They are no factors, so the arms stay what they are.
fn raise(record: &mut RunRecord, sets: &[String]) -> Result<(), UserError> {
    for set in sets {
        if !set.starts_with("budget.run.") && !set.starts_with("budget.arm.") {
            let what = format!("--set {set}: the plan of a run cannot be changed");
            let hint = "only budget.run.* and budget.arm.* can be set here; for other keys start a new run";
            return Err(UserError::new(what).hint(hint));
        }
        let mut alone = toml::Table::new();
        let path = config::set(&mut alone, set)?;
        config::walk(&alone, config::Extent::Part).map_err(|problem| {
            let what = format!("--set {}: {}", path.join("."), problem.wrong.what);
            UserError::new(what).hint(problem.wrong.hint)
        })?;
        let unreadable =
            |error: String| UserError::new(format!("--set {}: {error}", path.join(".")));
        for arm in &mut record.arms {
            let budget = toml::Value::try_from(&arm.budget);
            let budget = budget.map_err(|error| unreadable(error.to_string()))?;
            let mut table = toml::Table::from_iter([("budget".to_owned(), budget)]);
            config::set(&mut table, set)?;
            let budget = table.remove("budget").unwrap_or_else(|| toml::Table::new().into());
            arm.budget = budget
                .try_into()
                .map_err(|error: toml::de::Error| unreadable(error.message().into()))?;
        }
    }
    Ok(())
}

/// The plan that a run directory holds.
pub fn plan_of(record: &RunRecord) -> Plan {
    let planned = record.tasks.iter().map(|named| PlannedTask {
        task: Arc::new(named.task.clone()),
        base_dir: named.base_dir.clone(),
    });
    let arms = record.arms.iter().cloned().map(Arc::new).collect();
    Plan { tasks: planned.collect(), arms, attempts: record.attempts, only: None, preflight: false }
}
