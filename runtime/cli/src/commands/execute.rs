//! Runs a plan in a run directory. `run`, `resume` and `tasks validate` share this code.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    path::Path,
    process::ExitCode,
    sync::{Arc, LazyLock},
    time::Duration,
};

use proctor_engines::UNFINISHED_EXIT_STATUS;
use proctor_record::{CheckedTrial, RunDir, trial_lookup::planned_trials};
use proctor_report::{Report, TextOptions, report_text, wrap_long_lines};
use proctor_run::{Execution, KnownTrial, Plan, read_known_trials};
use proctor_sandbox_api::Backend;
use proctor_types::{Fault, SandboxKind, TrialId, count_with_noun};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::{
    assemble::{self, FlakyTests, RegradePolicy},
    commands::report,
    error::{CommandError, INCOMPLETE_STATUS, INTERRUPTED_STATUS},
    print::print_escaped,
    progress::{self, ProgressBoard},
    watchdog::{CLOSE_TIMEOUT, Watchdog},
    workers::continue_command,
};

/// If faults cannot be recorded, at most this many of the affected trials are listed individually.
/// Most of these trials have the same fault.
const MAX_LISTED_TRIALS: usize = 3;

/// Signals that arrive within this time after the first one count as the same request.
const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// Why the run has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InterruptKind {
    /// Ctrl-C. The user can press it again.
    CtrlC,
    /// A signal to terminate, or the terminal was closed.
    Terminate,
    /// The process's job is close to its time limit, so the process should finish its current work
    /// and start nothing new.
    Drain,
}

async fn wait_for_interrupt() -> InterruptKind {
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
        _ = tokio::signal::ctrl_c() => InterruptKind::CtrlC,
        _ = term.recv() => InterruptKind::Terminate,
        _ = drain.recv() => InterruptKind::Drain,
        () = hangup => InterruptKind::Terminate,
    }
}

/// Waits for the next interrupt. A scheduler signals every process of a job, and the job's script
/// may forward the signal too. Signals that arrive at almost the same time therefore count as one.
async fn wait_for_next_interrupt() {
    sleep(REPEAT_WINDOW).await;
    wait_for_interrupt().await;
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

/// How the execution of a plan ended.
pub enum PlanOutcome {
    Interrupted,
    /// The process finished its current work, as requested. Some trials have not run.
    WoundDown,
    Finished {
        /// Whether the message about `proctor resume` was printed.
        is_resume_suggested: bool,
        /// Whether trials were not started because this process has too little time left.
        is_out_of_time: bool,
        /// The trials that had already finished when the execution started, as read from the
        /// record.
        finished_trials: HashMap<TrialId, CheckedTrial>,
    },
}

/// A plan in its run directory, and the resources that its trials use.
pub struct PreparedRun<'a> {
    pub run: RunDir,
    pub plan: Plan,
    /// Number of trials to run in parallel.
    pub jobs: usize,
    pub backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    pub cache: &'a Path,
    pub regrade_policy: RegradePolicy,
    pub flaky_tests: FlakyTests,
}

/// Runs a plan and prints its report.
pub async fn execute_and_report(prepared_run: PreparedRun<'_>) -> Result<ExitCode, CommandError> {
    let PreparedRun {
        run,
        plan,
        jobs,
        backends,
        cache,
        regrade_policy: grading,
        flaky_tests: flakes,
    } = prepared_run;
    let (out, is_worker) = (run.path().to_owned(), run.is_shared());
    let catalog = assemble::scaffold_catalog()?;
    let execution = Execution {
        run,
        plan,
        jobs,
        backends,
        scaffolds: &catalog,
        cache,
        regrade_policy: grading,
        flaky_tests: flakes,
        say: &assemble::print_message,
        on_preflight: &assemble::print_preflight,
    };
    let carried = execute_plan(execution, true).await?;
    let (is_resume_suggested, too_late, finished) = match carried {
        PlanOutcome::Interrupted => return Ok(ExitCode::from(INTERRUPTED_STATUS)),
        PlanOutcome::WoundDown => return Ok(ExitCode::from(UNFINISHED_EXIT_STATUS)),
        PlanOutcome::Finished {
            is_resume_suggested,
            is_out_of_time: too_late,
            finished_trials: finished,
        } => (is_resume_suggested, too_late, finished),
    };
    let mut report = report::build_report(&out, finished)?;
    let all_there = report.arms.iter().all(|arm| arm.complete);
    let kept = if all_there { Vec::new() } else { restore_verdicts(&out)? };
    if !kept.is_empty() {
        report = report::build_report(&out, HashMap::new())?;
    }
    report::write_report(&out, &report)?;
    print_escaped(&report_text(&report, TextOptions::default()))?;
    let complete = report.arms.iter().all(|arm| arm.complete);
    if too_late && !complete {
        tell!("this job has too little time left for the remaining trials");
        return Ok(ExitCode::from(UNFINISHED_EXIT_STATUS));
    }
    // A trial with a corrupt record is not retried until its record is restored.
    let waits =
        |trial: &proctor_report::TaskReport| trial.resolved.is_none() && trial.damage.is_empty();
    if !is_resume_suggested && report.tasks.iter().any(waits) {
        tell!("`{}` retries the trials without a verdict", continue_command(&out));
    }
    for trial in &kept {
        tell!("not graded again: {trial}; the earlier verdict is kept");
    }
    if let Some(reasons) = report.missing_verdict_reasons().filter(|_| is_worker) {
        // `proctor watch` shows a failed job's last error.
        let hint = missing_verdict_hint(&report, &out);
        tell!("error: some trials have no verdict: {reasons}\n hint: {hint}");
    }
    Ok(if complete && kept.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(INCOMPLETE_STATUS)
    })
}

/// Returns how to continue a run in which trials have no verdict.
fn missing_verdict_hint(report: &Report, out: &Path) -> String {
    let command = continue_command(out);
    let mut outcomes = report.tasks.iter().filter_map(|trial| trial.outcome.as_deref());
    match outcomes.find_map(shared_limit_key) {
        Some(key) => format!("raise the limit with `{command} --set {key}=...`"),
        None => format!("`{command}` retries these trials"),
    }
}

/// Returns the key of the shared limit that caused an outcome: `budget.run.cost_usd` for
/// `budget_run_cost`. `None` if no shared limit did.
fn shared_limit_key(outcome: &str) -> Option<String> {
    let (scope, kind) = outcome.strip_prefix("budget_")?.split_once('_')?;
    let key = if kind == "cost" { "cost_usd" } else { kind };
    matches!(scope, "run" | "arm").then(|| format!("budget.{scope}.{key}"))
}

/// Restores verdicts that were withdrawn for regrading but could not be replaced, so that no
/// recorded result is lost.
fn restore_verdicts(out: &Path) -> Result<Vec<TrialId>, CommandError> {
    let run = RunDir::open_read_only(out).map_err(CommandError::from_record_error)?;
    let mut kept = Vec::new();
    for found in planned_trials(&run.read_run()?) {
        let id = found.id();
        if run.trial_dir(&id).restore_verdict()?.is_some() {
            kept.push(id);
        }
    }
    Ok(kept)
}

/// Runs a plan without reporting its results. `is_kept` means that the run directory still exists
/// after this command, so the user can continue the run.
pub async fn execute_plan(
    execution: Execution<'_>,
    is_kept: bool,
) -> Result<PlanOutcome, CommandError> {
    let out = execution.run.path().to_owned();
    tell!("run directory: {}", out.display());
    let jobs = execution.jobs;
    let mut running = execution.start().await?;
    let board = board_for_trials(running.known_trials())
        .with_jobs(jobs)
        .with_continue_command(continue_command(&out));
    let watcher =
        running.take_progress().map(|told| tokio::spawn(progress::show_progress(told, board)));
    let continues = || {
        if is_kept {
            tell!("`{}` continues the run", continue_command(&out));
        }
    };
    let handle = running.handle();
    let watchdog = Watchdog::start(INTERRUPTED_STATUS);
    let trials = tokio::select! {
        trials = running.wait() => trials?,
        how = wait_for_interrupt() => {
            let mut done = false;
            if how != InterruptKind::Terminate {
                let then = match how {
                    InterruptKind::Drain => "the job is close to its time limit",
                    _ => "press Ctrl-C again to stop immediately",
                };
                tell!("\ninterrupted: finishing any steps and grading in progress; {then}");
                handle.wind_down();
                done = tokio::select! { _ = running.wait() => true, _ = wait_for_interrupt() => false };
            }
            if done && how == InterruptKind::Drain {
                return Ok(PlanOutcome::WoundDown);
            }
            if !done {
                let advice = match how {
                    InterruptKind::CtrlC => {
                        "; press Ctrl-C again to leave them open until the next run"
                    }
                    // A process without a terminal, such as a worker, can't receive Ctrl-C.
                    InterruptKind::Terminate | InterruptKind::Drain => "",
                };
                tell!("\ninterrupted: closing the sandboxes{advice}");
                handle.stop();
                tokio::select! {
                    _ = running.wait() => {}
                    () = wait_for_next_interrupt() => {}
                    () = sleep(CLOSE_TIMEOUT) => tell!("some sandboxes are still open; the next run removes them"),
                }
            }
            continues();
            return Ok(PlanOutcome::Interrupted);
        }
    };
    watchdog.dismiss();
    let unrecorded: Vec<_> =
        trials.iter().filter_map(|end| Some((&end.trial, end.end.as_ref().err()?))).collect();
    for (trial, fault) in unrecorded.iter().take(MAX_LISTED_TRIALS) {
        let fault = progress::shorten_repeated(&trial.to_string(), &fault.to_string());
        tell!("{}", wrap_long_lines(&format!("{trial}: {fault}")));
    }
    if let Some(more) = unrecorded.len().checked_sub(MAX_LISTED_TRIALS).filter(|more| *more > 0) {
        tell!("and {} more whose faults could not be recorded", count_with_noun(more, "trial"));
    }
    // `close` ends the event stream, which stops the watcher.
    let ended = running.close(trials);
    let held: Vec<_> =
        ended.blocking_faults.iter().map(|one| halt_message(&one.fault, one.trial_count)).collect();
    if let Some(watcher) = watcher {
        watcher.await?;
    }
    for line in held {
        tell!("{}", wrap_long_lines(&line));
    }
    let (is_resume_suggested, too_late) = (ended.has_unstarted_trials(), ended.is_out_of_time());
    if is_resume_suggested {
        continues();
    }
    Ok(PlanOutcome::Finished {
        is_resume_suggested,
        is_out_of_time: too_late,
        finished_trials: ended.finished_trials,
    })
}

/// Returns the progress board of a plan. Trials that already have a verdict are counted.
pub fn progress_board(run: &RunDir, plan: &Plan) -> ProgressBoard {
    board_for_trials(&read_known_trials(run, plan))
}

fn board_for_trials(trials: &[KnownTrial]) -> ProgressBoard {
    let rows = trials.iter();
    let rows = rows.map(|one| (&one.id, one.arm.name.as_str(), one.arm.budget.wall_seconds));
    let mut board = ProgressBoard::new(rows);
    for KnownTrial { id, arm, resolved } in trials {
        if let Some(resolved) = resolved {
            board.count_earlier_verdict(id, &arm.name, *resolved);
        }
    }
    board
}

fn halt_message(fault: &Fault, trials: usize) -> String {
    let fault = progress::refer_to_printed(&fault.to_string());
    match trials {
        0 => format!("halted: {fault}"),
        _ => format!("halted: {fault}; {} not started", count_with_noun(trials, "trial")),
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::FaultLayer;

    use super::*;

    #[test]
    fn shared_limit_key_is_the_key_of_the_configuration() {
        for (outcome, key) in [
            ("budget_run_cost", Some("budget.run.cost_usd")),
            ("budget_arm_input_tokens", Some("budget.arm.input_tokens")),
            ("budget_input_tokens", None),
            ("budget_steps", None),
            ("submitted", None),
        ] {
            assert_eq!(shared_limit_key(outcome).as_deref(), key, "{outcome}");
        }
    }

    #[test]
    fn halt_message_omits_zero_unstarted_trials() {
        let fault = Fault::new(FaultLayer::Model, "unique to this test");
        assert_eq!(halt_message(&fault, 0), "halted: model fault: unique to this test");
        let of_two = halt_message(&fault, 2);
        assert_eq!(of_two, "halted: model fault: unique to this test; 2 trials not started");
    }
}
