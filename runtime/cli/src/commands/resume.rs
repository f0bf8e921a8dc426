//! `proctor resume`.

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use proctor_core::{Plan, PlannedTask};
use proctor_record::RunDir;
use proctor_types::{RUN_SCHEMA, RunRecord};

use crate::{
    assemble, commands::carry_out::carry_out, error::{CommandError, UserError}, home, tasks,
};

/// Goes on with the plan that the run directory holds; nothing is read from the datasets again.
pub async fn resume(path: &Path) -> Result<ExitCode, CommandError> {
    let run = RunDir::open(path)?;
    let record = run.read_run()?;
    if record.schema_version != RUN_SCHEMA {
        let what = format!("{} was made by another version of Proctor", path.display());
        return Err(UserError::new(what).mend(format!("use proctor {}", record.proctor)).into());
    }
    let plan = plan_of(&run, &record)?;
    let cache = home::cache()?;
    let backends = assemble::backends(&record.arms, &cache).await?;
    carry_out(run, plan, record.jobs, backends, &cache).await
}

fn plan_of(run: &RunDir, record: &RunRecord) -> Result<Plan, CommandError> {
    let mut stored: BTreeMap<_, _> =
        run.read_tasks()?.into_iter().map(|task| (task.id.clone(), task)).collect();
    let mut planned = Vec::new();
    for named in &record.tasks {
        let task = stored.remove(&named.id).filter(|task| tasks::digest(task) == named.digest);
        let Some(task) = task else {
            let what = format!("{}: tasks.jsonl does not hold the planned task {}", run.path().display(), named.id);
            return Err(UserError::new(what).mend("restore the file; the plan cannot be changed").into());
        };
        planned.push(PlannedTask { task: Arc::new(task), base_dir: named.base_dir.clone() });
    }
    let arms = record.arms.iter().cloned().map(Arc::new).collect();
    Ok(Plan { tasks: planned, arms, attempts: record.attempts })
}
