//! `proctor resume`.

use std::{path::Path, process::ExitCode, sync::Arc};

use proctor_core::{Plan, PlannedTask};
use proctor_record::RunDir;
use proctor_types::{RUN_SCHEMA, RunRecord};

use crate::{
    assemble::{self, Flakes, Grading},
    commands::carry_out::carry_out,
    error::{CommandError, UserError},
    home,
};

/// Goes on with the plan that the run directory holds; nothing is read from the datasets again.
pub async fn resume(path: &Path, grading: Grading) -> Result<ExitCode, CommandError> {
    let run = RunDir::open(path).map_err(CommandError::of_run)?;
    let record: RunRecord = run.read_run()?;
    if record.schema_version != RUN_SCHEMA {
        let what = format!("{} was made by another version of Proctor", path.display());
        return Err(UserError::new(what).mend(format!("use proctor {}", record.proctor)).into());
    }
    let plan = plan_of(&run, &record)?;
    let flakes = Flakes::of(&record);
    assemble::check_models(&record.arms)?;
    let cache = home::cache()?;
    let backends = assemble::backends(&record.arms, &cache).await?;
    carry_out(run, plan, record.jobs, backends, &cache, grading, flakes).await
}

fn plan_of(run: &RunDir, record: &RunRecord) -> Result<Plan, CommandError> {
    let mut planned = Vec::new();
    for named in &record.tasks {
        if named.task.digest() != named.digest {
            let what = format!("{}: the task {} was changed", run.path().display(), named.task.id);
            return Err(UserError::new(what)
                .mend("restore run.json: a plan is not changed")
                .into());
        }
        let task = Arc::new(named.task.clone());
        planned.push(PlannedTask { task, base_dir: named.base_dir.clone() });
    }
    let arms = record.arms.iter().cloned().map(Arc::new).collect();
    Ok(Plan { tasks: planned, arms, attempts: record.attempts })
}
