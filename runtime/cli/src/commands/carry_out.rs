//! Carries out a plan in a run directory: what `run`, `resume` and `tasks validate` share.

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use proctor_core::{Plan, dispatch};
use proctor_record::RunDir;
use proctor_sandbox_api::Backend;
use proctor_types::SandboxKind;
use tokio::sync::mpsc;

use crate::{
    args::Format,
    assemble::{self, Flakes, Grading, Scripts},
    commands::report,
    error::CommandError,
    progress,
};

/// The exit status of a run that is done but in which some trials have no verdict.
const INCOMPLETE: u8 = 3;

pub async fn carry_out(
    run: RunDir,
    mut plan: Plan,
    jobs: usize,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: &Path,
    grading: Grading,
    flakes: Flakes,
) -> Result<ExitCode, CommandError> {
    let out = run.path().to_owned();
    eprintln!("run directory: {}", out.display());
    let arms: Vec<_> = plan.arms.iter().map(|arm| arm.as_ref().clone()).collect();
    let scripts = Scripts::serve(&arms).await?;
    plan.arms = arms.iter().map(|arm| Arc::new(scripts.addressed(arm))).collect();

    // The tables of tokens take a fifth of a second; better here than within the first step.
    proctor_gateway::tokens::load().await;
    let (tell, told) = mpsc::unbounded_channel();
    let watcher = tokio::spawn(progress::watch(told, plan.trials().len()));
    let house = Arc::new(assemble::house(run, backends, &arms, cache, (grading, flakes), tell)?);
    let ends = dispatch(Arc::clone(&house), &plan, jobs).await;
    for end in &ends {
        if let Err(fault) = &end.end {
            eprintln!("{}: {fault}", end.trial);
        }
    }
    // The watcher ends when the house, which holds the sender, is gone.
    drop(house);
    watcher.await?;

    let report = report::of_run(&out)?;
    report::write(&out, &report)?;
    report::print(&report, Format::Text)?;
    let complete = report.arms.iter().all(|arm| arm.complete);
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}
