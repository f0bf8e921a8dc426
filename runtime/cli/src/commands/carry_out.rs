//! Runs a plan in a run directory: the common part of `run`, `resume` and `tasks validate`.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    path::Path,
    pin::pin,
    process::ExitCode,
    sync::{Arc, LazyLock},
    time::Duration,
};

use proctor_core::{
    Before, Dispatched, End, Plan, PlannedTask, RunContext, dispatch, on_all_cores,
};
use proctor_engines::UNFINISHED;
use proctor_gateway::EndpointRates;
use proctor_record::{Checked, RunDir};
use proctor_report::{Groups, text, wrapped};
use proctor_sandbox_api::Backend;
use proctor_types::{Arm, Fault, SandboxKind, TrialId, plural};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::sleep,
};

use crate::{
    assemble::{self, Flakes, Grading, Scripts},
    commands::report,
    config::SCRIPT,
    error::CommandError,
    host, preflight,
    print::shown,
    progress::{self, Board},
    scaffolds,
    trials::planned,
    watchdog::{CLOSING, Watchdog},
    workers::continuation,
};

/// The exit status of a finished run in which some trials have no verdict.
pub const INCOMPLETE: u8 = 3;
/// Maximum number of named trials whose fault could not be recorded: most have the same fault.
const SHOWN: usize = 3;
/// The status that a shell uses for an interrupted program.
pub const INTERRUPTED: u8 = 130;

/// Signals within this time of the first count as the same request.
const SAME_WISH: Duration = Duration::from_secs(1);

/// What asked the run to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    /// ^C: the user can press it again.
    Key,
    /// The process is asked to end, or its terminal closed.
    Ending,
    /// The process should finish current work and start nothing new: its job is close to its time limit.
    Drain,
}

async fn interrupted() -> Interrupt {
    let Ok(mut term) = signal(SignalKind::terminate()) else { return pending().await };
    let Ok(mut drain) = signal(SignalKind::user_defined1()) else { return pending().await };
    let hangup = async {
        // A process started with `nohup` must outlive its terminal, so don't install a handler.
        match if ignores_hangup() { None } else { signal(SignalKind::hangup()).ok() } {
            Some(mut hangup) => drop(hangup.recv().await),
            None => pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Interrupt::Key,
        _ = term.recv() => Interrupt::Ending,
        _ = drain.recv() => Interrupt::Drain,
        () = hangup => Interrupt::Ending,
    }
}

/// Schedulers signal every process of a job, and the job's script may forward its signal. Signals
/// within a moment count as the same request.
async fn interrupted_again() {
    sleep(SAME_WISH).await;
    interrupted().await;
}

/// Whether SIGHUP, signal number 1, was ignored when the process started.
fn ignores_hangup() -> bool {
    static IGNORED: LazyLock<bool> = LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 1 == 1)
    });
    *IGNORED
}

/// How a plan ended.
pub enum Carried {
    Interrupted,
    /// It finished current work, as requested, and left the rest.
    Drained,
    Done {
        /// The message about `proctor resume` was printed.
        told_to_resume: bool,
        /// Trials were left because this process has too little time for them.
        too_late: bool,
        /// The trials that were already finished, as read then.
        finished: HashMap<TrialId, Checked>,
    },
}

/// Runs a plan and prints its report. The caller has called `open_files::check` before it created
/// the run directory.
pub async fn carry_out(
    run: RunDir,
    plan: Plan,
    jobs: usize,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: &Path,
    grading: Grading,
    flakes: Flakes,
) -> Result<ExitCode, CommandError> {
    let out = run.path().to_owned();
    let carried = carry(run, plan, jobs, backends, cache, grading, flakes).await?;
    let (told_to_resume, too_late, finished) = match carried {
        Carried::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
        Carried::Drained => return Ok(ExitCode::from(UNFINISHED)),
        Carried::Done { told_to_resume, too_late, finished } => {
            (told_to_resume, too_late, finished)
        }
    };
    let mut report = report::of_run(&out, finished)?;
    let all_there = report.arms.iter().all(|arm| arm.complete);
    let kept = if all_there { Vec::new() } else { give_back(&out)? };
    if !kept.is_empty() {
        report = report::of_run(&out, HashMap::new())?;
    }
    report::write(&out, &report)?;
    shown(&text(&report, Groups::Telling))?;
    let complete = report.arms.iter().all(|arm| arm.complete);
    if too_late && !complete {
        tell!("the remaining time of this job is too short for the remaining trials");
        return Ok(ExitCode::from(UNFINISHED));
    }
    // Don't retry a damaged trial until it is restored.
    let waits =
        |trial: &proctor_report::TaskReport| trial.resolved.is_none() && trial.damage.is_empty();
    if !told_to_resume && report.tasks.iter().any(waits) {
        tell!("`{}` retries the trials without a verdict", continuation(&out));
    }
    for trial in &kept {
        tell!("not graded again: {trial}: its earlier verdict is kept");
    }
    Ok(if complete && kept.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// Restores verdicts that were withdrawn for regrading but could not be replaced, so that no
/// recorded result is lost.
fn give_back(out: &Path) -> Result<Vec<TrialId>, CommandError> {
    let run = RunDir::view(out).map_err(CommandError::of_run)?;
    let mut kept = Vec::new();
    for found in planned(&run.read_run()?) {
        let id = found.id();
        if run.trial_path(&id).give_verdict_back()?.is_some() {
            kept.push(id);
        }
    }
    Ok(kept)
}

/// Runs a plan without reporting its results.
pub async fn carry(
    run: RunDir,
    mut plan: Plan,
    jobs: usize,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: &Path,
    grading: Grading,
    flakes: Flakes,
) -> Result<Carried, CommandError> {
    host::add_engines(&run, &backends)?;
    let out = run.path().to_owned();
    tell!("run directory: {}", out.display());
    let arms: Vec<_> = plan.arms.iter().map(|arm| arm.as_ref().clone()).collect();
    // Grading alone calls no model, so scripts need not be served or reported. Other models don't
    // matter either, and no trial is read for them here.
    let is_scripted =
        |arm: &Arm| arm.model.as_ref().is_some_and(|it| it.base_url.starts_with(SCRIPT));
    // The only time the existing record is read: for ten thousand trials it takes a second.
    let trials = plan.chosen();
    let checked = check_all(&run, &trials);
    let is_driven =
        trials.iter().zip(&checked).any(|((.., arm), one)| is_scripted(arm) && !one.finished);
    let before: Vec<_> = checked.iter().map(Before::of).collect();
    let board = board_of(&trials, &checked).with_jobs(jobs);
    let read = trials.into_iter().map(|(id, ..)| id).zip(checked).zip(&before);
    let finished = read.filter(|(_, before)| **before == Before::Finished).map(|(read, _)| read);
    let finished = finished.collect();
    let scripts = Scripts::serve(if is_driven { &arms } else { &[] }).await?;
    plan.arms = arms.iter().map(|arm| Arc::new(scripts.addressed(arm))).collect();

    // Loading the token tables takes 0.2 s; do it now rather than in the first step.
    proctor_gateway::tokens::load().await;
    let (tell, told) = mpsc::unbounded_channel();
    let watcher = tokio::spawn(progress::watch(told, board));
    let endpoints = scripts.limited(&endpoints(&run)?);
    let grading = (grading, flakes);
    let scaffolds = scaffolds::with_bundles(&run.read_run()?).await?;
    let parts = (grading, scaffolds);
    let context = assemble::context(run, &plan, endpoints, backends, cache, parts, tell)?;
    let context = Arc::new(context);
    if plan.preflight {
        preflight::look_for_images(&context, &plan).await?;
        preflight::ask_models(&context, &plan, &out).await?;
    }
    let watchdog = Watchdog::start(INTERRUPTED);
    let mut run = pin!(dispatch(Arc::clone(&context), &plan, &before, jobs));
    let ends = tokio::select! {
        ends = &mut run => ends,
        how = interrupted() => {
            let mut done = false;
            if how != Interrupt::Ending {
                let then = match how {
                    Interrupt::Drain => "the job is close to its time limit",
                    _ => "press Ctrl-C again to stop immediately",
                };
                tell!("\ninterrupted: finishing current steps and gradings; {then}");
                context.cancel.wind_down();
                done = tokio::select! { _ = &mut run => true, _ = interrupted() => false };
            }
            if done && how == Interrupt::Drain {
                return Ok(Carried::Drained);
            }
            if !done {
                tell!("\ninterrupted: closing the sandboxes; press Ctrl-C again to leave them to the next run");
                context.cancel.tell();
                tokio::select! {
                    _ = &mut run => {}
                    () = interrupted_again() => {}
                    () = sleep(CLOSING) => tell!("some sandboxes are still open; the next run removes them"),
                }
            }
            tell!("`{}` continues from here", continuation(&out));
            return Ok(Carried::Interrupted);
        }
    };
    watchdog.dismiss();
    let unrecorded: Vec<_> =
        ends.iter().filter_map(|end| Some((&end.trial, end.end.as_ref().err()?))).collect();
    for (trial, fault) in unrecorded.iter().take(SHOWN) {
        let fault = progress::brief(&trial.to_string(), &fault.to_string());
        tell!("{}", wrapped(&format!("{trial}: {fault}")));
    }
    if let Some(more) = unrecorded.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        tell!("and {} more that could not be recorded", plural(more, "trial"));
    }
    let mut halted = halted(&context, &plan, &ends);
    // A halt that holds up no trial was reported when its trial ended.
    let held_back = context.halts.all().into_iter().filter(|halt| halt.waiting > 0);
    halted.extend(held_back.map(|halt| not_started(&halt.fault, halt.waiting)));
    // The watcher ends when the run context, which holds the sender, is dropped.
    drop(context);
    watcher.await?;
    for line in halted {
        tell!("{}", wrapped(&line));
    }
    let told_to_resume = ends.iter().any(|end| matches!(end.end, Ok(End::NotStarted)));
    let too_late = ends.iter().any(|end| matches!(end.end, Ok(End::NoTime)));
    if told_to_resume {
        tell!("`{}` continues from here", continuation(&out));
    }
    Ok(Carried::Done { told_to_resume, too_late, finished })
}

/// What the record says of each trial.
fn check_all(run: &RunDir, trials: &[(TrialId, PlannedTask, Arc<Arm>)]) -> Vec<Checked> {
    // What can't be listed is looked at one by one.
    let begun = run.begun().ok();
    on_all_cores(trials, |(id, ..)| match &begun {
        Some(begun) => run.check_begun(id, begun),
        None => run.check(id),
    })
}

/// The plan, and what of it has a verdict.
pub fn board(run: &RunDir, plan: &Plan) -> Board {
    let trials = plan.chosen();
    let checked = check_all(run, &trials);
    board_of(&trials, &checked)
}

fn board_of(trials: &[(TrialId, PlannedTask, Arc<Arm>)], checked: &[Checked]) -> Board {
    let rows = trials.iter();
    let rows = rows.map(|(id, _, arm)| (id, arm.name.as_str(), arm.budget.wall_seconds));
    let mut board = Board::new(rows);
    for ((id, _, arm), checked) in trials.iter().zip(checked) {
        if let Some(verdict) = &checked.verdict {
            board.was_done(id, &arm.name, verdict.resolved);
        }
    }
    board
}

/// What an endpoint rejected, and how many trials were not started because of it.
fn halted(context: &RunContext, plan: &Plan, ends: &[Dispatched]) -> Vec<String> {
    let stopped = |fault: &Fault| {
        let by = |arm: &&Arc<Arm>| {
            let tools = context.scaffold(arm).is_ok_and(|scaffold| scaffold.needs_tools());
            let halted = arm.model.as_ref().map(|model| context.gateway.halted(model, tools));
            halted.flatten().as_ref() == Some(fault)
        };
        let arms: Vec<_> = plan.arms.iter().filter(by).map(|arm| &arm.id).collect();
        let waits = |end: &&Dispatched| {
            matches!(end.end, Ok(End::NotStarted)) && arms.contains(&&end.trial.arm)
        };
        ends.iter().filter(waits).count()
    };
    let halts = context.gateway.halts();
    halts.iter().map(|fault| not_started(fault, stopped(fault))).collect()
}

fn not_started(fault: &Fault, trials: usize) -> String {
    let fault = progress::refer(&fault.to_string());
    format!("halted: {fault}; {} not started", plural(trials, "trial"))
}

/// The rate limits in the run's configuration.
pub fn endpoints(run: &RunDir) -> Result<Vec<EndpointRates>, CommandError> {
    let record = run.read_run()?;
    let Some(tables) = record.config.get("endpoints") else { return Ok(Vec::new()) };
    let tables: BTreeMap<String, EndpointRates> = serde_json::from_value(tables.clone())?;
    Ok(tables.into_values().collect())
}
