//! `proctor watch`: shows the progress of a run that another process executes. Reads only the run
//! directory.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use proctor_engines::{JobReport, Submissions, cluster_settings, failure_messages, find_engine};
use proctor_record::{RunDir, TrialSpending, now, parallel_map};
use proctor_run::{Plan, PlannedTask, TrialActivity, max_trial_duration};
use proctor_types::{Arm, Envelope, Event, Spending, TrialId, count_with_noun};
use serde_json::json;
use tokio::{
    sync::watch::{Receiver, channel},
    task::{JoinHandle, spawn_blocking},
    time::{interval, sleep},
};

use super::{execute::progress_board, resume::plan_from_record};
use crate::{
    error::CommandError,
    progress::{
        OpenTrial, ProgressBoard, ProgressFormat, RunningTrial, Screen, can_draw,
        describe_straggler, progress_format, trial_name,
    },
    workers::user_error,
};

/// Interval between two checks of the run directory.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks between two progress lines if standard error is not a terminal.
const CHECKS_PER_LINE: u32 = 30;
/// Number of bytes to read from the end of a journal to find a trial's current activity. If the
/// last event is longer, the previous activity is still shown.
const JOURNAL_TAIL_BYTES: u64 = 64 << 10;

/// Shows progress until every trial has a verdict or the user stops the command. The run itself is
/// not affected.
pub async fn watch(run: &Path) -> Result<ExitCode, CommandError> {
    let run = RunDir::open_read_only(run).map_err(CommandError::from_record_error)?;
    let record = run.read_run()?;
    let plan: Plan = plan_from_record(&record);
    let queue = QueueMonitor::start(run.path())?;
    let mut told_queue = Vec::new();
    let mut board = progress_board(&run, &plan).with_jobs(record.jobs);
    // Read the plan only once, because it doesn't change.
    let trials = plan.selected_trials();
    let mut seen = HashMap::new();
    let spent_before = read_finished_spending(&run, &trials, &board);
    let overhead = cluster_settings().map_err(user_error)?.overhead_seconds as f64;
    let how = progress_format();
    let mut screen = (how == ProgressFormat::Auto && can_draw()).then(Screen::new);
    let mut looks = interval(POLL_INTERVAL);
    for look in 0_u32.. {
        looks.tick().await;
        update_board(&run, &trials, &mut board, &mut seen);
        board.set_spending(&total_spending(spent_before, &seen));
        if look == 0 {
            board.start_token_rate();
        }
        let (done, all) = board.finished_and_total();
        let slowest =
            describe_straggler(open_trials(&trials, &board, &seen, overhead), now() as f64);
        let lines = queue.lines();
        if screen.is_none() && how != ProgressFormat::None && lines != told_queue {
            match how {
                ProgressFormat::Json => eprintln!("{}", json!({ "event": "queue", "jobs": lines })),
                _ => lines.iter().for_each(|line| tell!("{line}")),
            }
            told_queue.clone_from(&lines);
        }
        match &mut screen {
            Some(screen) => {
                screen.draw(&[board.screen_lines(), slowest.into_iter().collect(), lines].concat());
            }
            None if look % CHECKS_PER_LINE != 0 && done != all => {}
            None if how == ProgressFormat::Json => {
                eprintln!("{}", json!({ "event": "watched", "done": done, "of": all }));
            }
            None if how == ProgressFormat::None => {}
            None => {
                tell!("{}", board.summary());
                slowest.iter().for_each(|line| tell!("{line}"));
            }
        }
        if done == all {
            break;
        }
    }
    if let Some(screen) = screen {
        screen.clear();
        tell!("{}", board.summary());
    }
    Ok(ExitCode::SUCCESS)
}

/// Polls the scheduler for the state of a run's workers. The interval is at least a few seconds.
/// The queries run in the background, so a scheduler that hangs does not block other output.
struct QueueMonitor {
    lines: Receiver<Vec<String>>,
    poll_task: Option<JoinHandle<()>>,
}

impl QueueMonitor {
    fn start(run: &Path) -> Result<Self, CommandError> {
        let (sender, lines) = channel(Vec::new());
        if Submissions::read(run).map_err(user_error)?.active_submissions().next().is_none() {
            return Ok(Self { lines, poll_task: None });
        }
        let every = Duration::from_secs(cluster_settings().map_err(user_error)?.poll_seconds);
        let run = run.to_owned();
        let asking = tokio::spawn(async move {
            loop {
                let run = run.clone();
                if let Ok(lines) = spawn_blocking(move || queue_lines(&run)).await {
                    sender.send_replace(lines);
                }
                sleep(every).await;
            }
        });
        Ok(Self { lines, poll_task: Some(asking) })
    }

    fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }
}

impl Drop for QueueMonitor {
    fn drop(&mut self) {
        if let Some(asking) = &self.poll_task {
            asking.abort();
        }
    }
}

/// Returns a line for each submission that was not cancelled, and one for live workers.
fn queue_lines(run: &Path) -> Vec<String> {
    // If a file cannot be read now, the next check retries.
    let Ok(submissions) = Submissions::read(run) else { return Vec::new() };
    let mut lines = Vec::new();
    for one in submissions.active_submissions() {
        let jobs = match find_engine(&one.engine) {
            Ok(engine) => engine.query_jobs(one),
            Err(error) => JobReport::Unknown(error.to_string()),
        };
        lines.push(format!("{} job {}: {}", one.engine, one.job, jobs.state_summary()));
        if let JobReport::Known(jobs) = &jobs {
            lines.extend(failure_messages(run, jobs));
        }
    }
    if let Ok(live) = proctor_cluster::find_live_members(run) {
        lines.push(format!("{} running", count_with_noun(live.len(), "worker")));
    }
    lines
}

/// The state of a trial at the last check.
#[derive(Debug, Default)]
struct TrialState {
    journal_length: u64,
    has_outcome: bool,
    /// When the try began. See [`OpenTrial::start_time`]. `None` if no try is running.
    start_time: Option<f64>,
    spending: TrialSpending,
}

/// Returns the trials that have begun and have no verdict.
fn open_trials<'a>(
    trials: &'a [(TrialId, PlannedTask, Arc<Arm>)],
    board: &'a ProgressBoard,
    states: &'a HashMap<TrialId, TrialState>,
    overhead_seconds: f64,
) -> impl Iterator<Item = OpenTrial> + 'a {
    let open = trials.iter().filter(move |(id, ..)| !board.is_finished(id));
    open.filter_map(move |(id, planned, arm)| {
        let since = states.get(id)?.start_time?;
        let longest = max_trial_duration(&planned.task, arm).as_secs_f64() + overhead_seconds;
        let limit = arm.budget.wall_seconds.map(|_| longest);
        Some(OpenTrial { name: trial_name(id, &arm.name), start_time: since, max_seconds: limit })
    })
}

/// Returns what was spent on the trials that had a verdict before the first check.
fn read_finished_spending(
    run: &RunDir,
    trials: &[(TrialId, PlannedTask, Arc<Arm>)],
    board: &ProgressBoard,
) -> Spending {
    let finished: Vec<&TrialId> =
        trials.iter().map(|(id, ..)| id).filter(|id| board.is_finished(id)).collect();
    let spending = parallel_map(&finished, |id| {
        let dir = run.trial_dir(id);
        let outcome = dir.read_outcome().ok().flatten();
        let mut spending = TrialSpending::default();
        // If a file is unreadable, the report names it. Count the rest.
        let _ = spending.update(&dir, outcome.as_ref());
        spending.total()
    });
    spending.iter().fold(Spending::default(), |mut all, one| {
        all.merge(one);
        all
    })
}

/// Returns what all trials have spent. `before` is the part of the trials that had a verdict before
/// the first check.
fn total_spending(before: Spending, states: &HashMap<TrialId, TrialState>) -> Spending {
    states.values().fold(before, |mut all, state| {
        all.merge(&state.spending.total());
        all
    })
}

/// Updates the board from the run directory. If a file cannot be read, the next check retries.
fn update_board(
    run: &RunDir,
    trials: &[(TrialId, PlannedTask, Arc<Arm>)],
    board: &mut ProgressBoard,
    states: &mut HashMap<TrialId, TrialState>,
) {
    for (id, _, arm) in trials {
        if board.is_finished(id) {
            continue;
        }
        let dir = run.trial_dir(id);
        let Ok(journal) = proctor_files::open_regular_file(&dir.trajectory_path()) else {
            continue;
        };
        let verdict = dir.read_verdict().ok().flatten();
        let length = journal.metadata().map_or(0, |meta| meta.len());
        let has_outcome = dir.outcome_path().exists();
        let is_unchanged =
            |state: &TrialState| (state.journal_length, state.has_outcome) == (length, has_outcome);
        if verdict.is_none() && states.get(id).is_some_and(is_unchanged) {
            continue;
        }
        let outcome = dir.read_outcome().ok().flatten();
        let state = states.entry(id.clone()).or_default();
        (state.journal_length, state.has_outcome) = (length, outcome.is_some());
        // If a file cannot be read, keep the amount from the last check.
        let _ = state.spending.update(&dir, outcome.as_ref());
        match (verdict, outcome) {
            (Some(verdict), _) => board.count_verdict(id, &arm.name, verdict.resolved),
            // A trial that continues has no outcome until it ends again.
            (None, Some(outcome)) if outcome.ending.is_unfinished() => {
                state.start_time = None;
                board.set_unfinished(id, &outcome.ending);
            }
            (None, _) => {
                if let Some(last) = read_last_events(journal, length) {
                    state.start_time = Some(last.start_time);
                    board.set_running(id, RunningTrial::new(&arm.name, last.step, &last.activity));
                }
            }
        }
    }
}

/// Information from a journal's last events.
struct LastEvents {
    step: u64,
    activity: String,
    /// See [`OpenTrial::start_time`].
    start_time: f64,
}

fn read_last_events(mut journal: File, length: u64) -> Option<LastEvents> {
    journal.seek(SeekFrom::Start(length.saturating_sub(JOURNAL_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    journal.take(JOURNAL_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let whole = bytes.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut events = whole.filter_map(|line| serde_json::from_slice::<Envelope>(line).ok());
    let latest = events.next()?;
    let doing = describe_activity(&latest.event)
        .or_else(|| events.find_map(|one| describe_activity(&one.event)));
    let doing = doing.unwrap_or_else(|| "set up".to_owned());
    Some(LastEvents {
        step: latest.step,
        activity: doing,
        start_time: latest.t_wall - latest.t_mono,
    })
}

fn describe_activity(event: &Event) -> Option<String> {
    match event {
        Event::TrialEnded { .. } => Some("grading".to_owned()),
        _ => TrialActivity::from_event(event).map(|doing| doing.to_string()),
    }
}
