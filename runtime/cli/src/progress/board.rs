//! Tracks the progress of a run from its events, or from the contents of its directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use proctor_gateway::WaitNotice;
use proctor_report::{abbreviate_count, format_percent};
use proctor_run::{Progress, TrialActivity};
use proctor_statistics::{CONFIDENCE_LEVEL, wilson_interval};
use proctor_types::{Ending, Spending, TrialId, count_with_noun};

use super::trial_name::trial_name;

/// Maximum number of arms, and of running trials, to list on the screen.
const MAX_LISTED_ROWS: usize = 8;
/// Width of a bar in cells.
const BAR_WIDTH: u64 = 10;

/// The plan and its results so far.
#[derive(Debug)]
pub struct ProgressBoard {
    started_at: Instant,
    arms: Vec<ArmRow>,
    finished: BTreeSet<TrialId>,
    /// Number of trials that were done before this process started. They are ignored when
    /// estimating the remaining time.
    finished_before: usize,
    trial_count: usize,
    /// Number of trials to run in parallel.
    jobs: usize,
    running_trials: BTreeMap<TrialId, RunningTrial>,
    /// Why trials ended without a verdict.
    unfinished_trials: BTreeMap<TrialId, String>,
    fault_count: usize,
    tokens: u64,
    /// Tokens used before this process started. They are ignored when computing tokens per minute.
    tokens_before: u64,
    cost_usd: f64,
    has_unpriced: bool,
    /// The command that continues the run.
    continue_command: String,
}

#[derive(Debug, Default)]
struct ArmRow {
    name: String,
    planned_count: usize,
    finished_count: usize,
    resolved_count: usize,
    /// Time limit of the arm's trials in seconds. `None` if there is no limit.
    time_limit: Option<f64>,
}

/// A running trial.
#[derive(Debug, Clone)]
pub struct RunningTrial {
    pub arm: String,
    pub step: u64,
    pub activity: String,
    pub activity_start: Instant,
}

impl RunningTrial {
    pub fn new(arm: &str, step: u64, activity: &str) -> Self {
        Self {
            arm: arm.to_owned(),
            step,
            activity: activity.to_owned(),
            activity_start: Instant::now(),
        }
    }
}

impl ProgressBoard {
    /// Creates a board for a plan. `plan` yields each trial with its arm's name and wall-time limit
    /// in seconds.
    pub fn new<'a>(plan: impl Iterator<Item = (&'a TrialId, &'a str, Option<f64>)>) -> Self {
        let mut board = Self {
            started_at: Instant::now(),
            arms: Vec::new(),
            finished: BTreeSet::new(),
            finished_before: 0,
            trial_count: 0,
            jobs: 1,
            running_trials: BTreeMap::new(),
            unfinished_trials: BTreeMap::new(),
            fault_count: 0,
            tokens: 0,
            tokens_before: 0,
            cost_usd: 0.0,
            has_unpriced: false,
            continue_command: "proctor resume RUN".to_owned(),
        };
        for (_, arm, limit) in plan {
            board.trial_count += 1;
            let arm = board.find_or_add_arm_row(arm);
            arm.planned_count += 1;
            arm.time_limit = limit;
        }
        board
    }

    /// Sets how many trials run at once. The default is 1.
    #[must_use]
    pub fn with_jobs(self, jobs: usize) -> Self {
        Self { jobs: jobs.max(1), ..self }
    }

    /// Sets the command that continues the run. Hints name it.
    #[must_use]
    pub fn with_continue_command(self, continue_command: String) -> Self {
        Self { continue_command, ..self }
    }

    pub(super) fn continue_command(&self) -> &str {
        &self.continue_command
    }

    fn find_or_add_arm_row(&mut self, name: &str) -> &mut ArmRow {
        let at = self.arms.iter().position(|arm| arm.name == name).unwrap_or(self.arms.len());
        if at == self.arms.len() {
            self.arms.push(ArmRow { name: name.to_owned(), ..ArmRow::default() });
        }
        &mut self.arms[at]
    }

    /// Counts a trial that already had a verdict.
    pub fn count_earlier_verdict(&mut self, trial: &TrialId, arm: &str, resolved: bool) {
        self.count_verdict(trial, arm, resolved);
        self.finished_before = self.finished.len();
    }

    /// Counts a graded trial. A trial that is graded again counts only once, so that no counter
    /// exceeds its total.
    pub fn count_verdict(&mut self, trial: &TrialId, arm: &str, resolved: bool) {
        self.running_trials.remove(trial);
        self.unfinished_trials.remove(trial);
        if self.finished.insert(trial.clone()) {
            let arm = self.find_or_add_arm_row(arm);
            arm.finished_count += 1;
            arm.resolved_count += usize::from(resolved);
        }
    }

    pub fn is_finished(&self, trial: &TrialId) -> bool {
        self.finished.contains(trial)
    }

    pub fn set_running(&mut self, trial: &TrialId, running_trial: RunningTrial) {
        self.unfinished_trials.remove(trial);
        self.running_trials.insert(trial.clone(), running_trial);
    }

    /// Counts a trial that ended without a verdict. It is no longer running.
    pub fn set_unfinished(&mut self, trial: &TrialId, ending: &Ending) {
        self.running_trials.remove(trial);
        self.unfinished_trials.insert(trial.clone(), describe_unfinished(ending));
    }

    /// Sets what the run has spent in total, which is what the report shows as paid.
    pub fn set_spending(&mut self, spent: &Spending) {
        self.tokens = spent.input_tokens
            + spent.output_tokens
            + spent.grace_input_tokens
            + spent.grace_output_tokens;
        self.cost_usd = spent.cost_usd + spent.grace_cost_usd;
        self.has_unpriced = spent.unpriced;
    }

    /// Computes tokens per minute only from tokens that are used from now on.
    pub fn start_token_rate(&mut self) {
        self.tokens_before = self.tokens;
    }

    /// Returns the number of trials with a verdict, and the total.
    pub fn finished_and_total(&self) -> (usize, usize) {
        (self.finished.len(), self.trial_count)
    }

    pub fn apply_event(&mut self, event: &Progress) {
        match event {
            Progress::Started { trial, arm } => {
                self.set_running(trial, RunningTrial::new(arm, 0, "set up"))
            }
            Progress::Resumed { trial, arm, step } => {
                self.set_running(trial, RunningTrial::new(arm, *step, "set up"));
            }
            Progress::GradingRecorded { trial, arm } => {
                self.set_running(trial, RunningTrial::new(arm, 0, "grading"));
            }
            Progress::StepEnded { trial, step, .. } => {
                if let Some(running) = self.running_trials.get_mut(trial) {
                    running.step = *step;
                }
            }
            Progress::ActivityChanged { trial, activity: doing, .. } => {
                if let TrialActivity::ResponseReceived { tokens, cost_usd } = doing {
                    self.tokens += tokens;
                    self.cost_usd += cost_usd.unwrap_or_default();
                    self.has_unpriced |= cost_usd.is_none();
                } else {
                    self.set_activity(trial, doing.to_string());
                }
            }
            Progress::WaitStarted { trial, wait: waiting, .. } => {
                self.set_activity(trial, describe_wait(waiting))
            }
            Progress::Ended { trial, outcome, .. } => match outcome.ending.is_unfinished() {
                true => self.set_unfinished(trial, &outcome.ending),
                false => self.set_activity(trial, "grading".to_owned()),
            },
            Progress::Graded { trial, arm, verdict } => {
                self.count_verdict(trial, arm, verdict.resolved)
            }
            Progress::TryFailed { trial, .. } => {
                self.fault_count += 1;
                self.set_activity(trial, "failed (see above)".to_owned());
            }
            Progress::TakenOver { trial, .. } => drop(self.running_trials.remove(trial)),
            Progress::GradingFailed { trial, .. } => {
                self.fault_count += 1;
                self.running_trials.remove(trial);
            }
            _ => {}
        }
    }

    fn set_activity(&mut self, trial: &TrialId, activity: String) {
        if let Some(running) = self.running_trials.get_mut(trial)
            && running.activity != activity
        {
            (running.activity, running.activity_start) = (activity, Instant::now());
        }
    }

    /// Returns the progress in one line.
    pub fn summary(&self) -> String {
        let mut parts = vec![self.counts_text(), self.spending_text()];
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }

    fn counts_text(&self) -> String {
        let (done, resolved) =
            (self.finished.len(), self.arms.iter().map(|arm| arm.resolved_count).sum());
        let mut parts =
            vec![format!("{done}/{} done", self.trial_count), rate_text(resolved, done)];
        if !self.running_trials.is_empty() {
            parts.push(format!("{} running", self.running_trials.len()));
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.unfinished_trials.values() {
            *reasons.entry(reason).or_default() += 1;
        }
        parts.extend(reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")));
        if self.fault_count > 0 {
            parts.push(count_with_noun(self.fault_count, "fault"));
        }
        if let Some(left) = self.remaining_seconds() {
            parts.push(format!("about {} left", format_clock(left)));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }

    fn spending_text(&self) -> String {
        if self.tokens == 0 {
            return String::new();
        }
        let cost = match (self.has_unpriced, self.cost_usd > 0.0) {
            (false, _) => format!("${:.2}", self.cost_usd),
            (true, true) => format!("at least ${:.2}", self.cost_usd),
            (true, false) => "cost unknown".to_owned(),
        };
        let minutes = (self.started_at.elapsed().as_secs_f64() / 60.0).max(1.0 / 60.0);
        let tokens = self.tokens.saturating_sub(self.tokens_before);
        format!("{cost}, {} tokens/min", abbreviate_count(tokens as f64 / minutes))
    }

    /// Returns the remaining seconds. Extrapolates from the trials of this process, and caps the
    /// result by the limits of the open trials. Returns `None` before the first trial ends.
    fn remaining_seconds(&self) -> Option<f64> {
        let now = self.finished.len() - self.finished_before;
        let open = self.trial_count.saturating_sub(self.finished.len());
        let pace = self.started_at.elapsed().as_secs_f64() / now.max(1) as f64;
        let left = (now > 0 && open > 0).then_some(pace * open as f64)?;
        Some(self.max_remaining_seconds().map_or(left, |most| left.min(most)))
    }

    /// Returns the longest time in seconds that the limits of the open trials allow. Returns `None`
    /// if one of them has no limit.
    fn max_remaining_seconds(&self) -> Option<f64> {
        let (mut sum, mut longest) = (0.0, 0.0_f64);
        for arm in self.arms.iter().filter(|arm| arm.finished_count < arm.planned_count) {
            let limit = arm.time_limit?;
            sum += limit * (arm.planned_count - arm.finished_count) as f64;
            longest = longest.max(limit);
        }
        Some((sum / self.jobs as f64).max(longest))
    }

    /// Returns all lines of the screen. A line may be wider than the screen, because the drawing
    /// code truncates it.
    pub fn screen_lines(&self) -> Vec<String> {
        let clock = format_clock(self.started_at.elapsed().as_secs_f64());
        let mut lines = vec![format!("{clock} {}", self.counts_text())];
        // Print the spending on a separate line, because counts and spending together don't fit in
        // 80 columns.
        lines.extend(Some(format!("  {}", self.spending_text())).filter(|_| self.tokens > 0));
        if self.arms.len() > 1 {
            lines.extend(self.arms.iter().take(MAX_LISTED_ROWS).map(|arm| {
                let ArmRow {
                    name,
                    planned_count: planned,
                    finished_count: done,
                    resolved_count: resolved,
                    ..
                } = arm;
                format!(
                    "  {} {done}/{planned} {}  {name}",
                    progress_bar(*done, *planned),
                    rate_text(*resolved, *done)
                )
            }));
            lines.extend(more_line(self.arms.len(), "arm"));
        }
        lines.extend(self.running_trials.iter().take(MAX_LISTED_ROWS).map(|(trial, running)| {
            let RunningTrial { arm, step, activity: doing, activity_start: since } = running;
            let seconds = since.elapsed().as_secs();
            format!("  {} step {step}, {seconds:3} s {doing}", trial_name(trial, arm))
        }));
        lines.extend(more_line(self.running_trials.len(), "trial"));
        lines
    }
}

fn more_line(count: usize, label: &str) -> Option<String> {
    let more = count.checked_sub(MAX_LISTED_ROWS).filter(|more| *more > 0)?;
    Some(format!("  and {} more", count_with_noun(more, label)))
}

fn rate_text(resolved: usize, finished: usize) -> String {
    let Some([low, high]) = wilson_interval(resolved as f64, finished as f64, CONFIDENCE_LEVEL)
    else {
        return String::new();
    };
    let share = resolved as f64 / finished as f64;
    format!(
        "{resolved} resolved {} ({} to {})",
        format_percent(share),
        format_percent(low),
        format_percent(high)
    )
}

/// Describes why a trial ended without a verdict, as the predicate of a count of trials.
fn describe_unfinished(ending: &Ending) -> String {
    match ending {
        Ending::Budget { budget, scope } => {
            format!("stopped by the {scope}'s {} limit", budget.to_string().replace('_', " "))
        }
        Ending::InfrastructureFault { fault } => format!("ended in a fault ({})", fault.layer),
        other => other.name().replace('_', " "),
    }
}

fn progress_bar(finished: usize, total: usize) -> String {
    let full =
        (finished as u64 * BAR_WIDTH).checked_div(total as u64).unwrap_or(BAR_WIDTH).min(BAR_WIDTH)
            as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_WIDTH as usize - full))
}

pub(super) fn format_clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Describes why a request waits.
pub(super) fn describe_wait(wait: &WaitNotice) -> String {
    match wait {
        WaitNotice::Queued(so_far) => {
            format!("waiting {:.0} s for a rate limit or a shared limit", so_far.as_secs_f64())
        }
        WaitNotice::Silent { model, elapsed: so_far } => {
            format!("no data from {model} for {:.0} s", so_far.as_secs_f64())
        }
        WaitNotice::FirstResponse { model, elapsed: so_far } => {
            let so_far = so_far.as_secs_f64();
            format!(
                "waiting {so_far:.0} s for the first response from {model} (requested by another trial)"
            )
        }
        WaitNotice::BackOff { attempt, max_attempts: attempts, reason: why, pause } => {
            format!("attempt {attempt} of {attempts}: {why}; waiting {:.0} s", pause.as_secs_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{ArmId, BudgetKind, BudgetScope, Fault, FaultLayer, TaskId};
    use serde_json::json;

    use super::*;

    fn trial(attempt: u32) -> TrialId {
        TrialId { task: TaskId::new("t"), arm: ArmId::new("a"), attempt }
    }

    fn board() -> ProgressBoard {
        let plan = [trial(1), trial(2), trial(3)];
        ProgressBoard::new(plan.iter().map(|trial| (trial, "noop", None)))
    }

    #[test]
    fn board_counts_a_regraded_trial_once() {
        let graded = |attempt| Progress::Graded {
            trial: trial(attempt),
            arm: "noop".into(),
            verdict: serde_json::from_value(json!({
                "schema_version": 1, "task": "t", "resolved": true, "passed_rate": 1.0,
                "fail_to_pass": {"passed": ["f"], "failed": []},
                "pass_to_pass": {"passed": [], "failed": []}, "tests": {"f": "passed"},
                "policies": {}, "integrity": "clean", "evidence": []
            }))
            .unwrap(),
        };
        let mut board = board();
        board.count_earlier_verdict(&trial(1), "noop", false);
        for (attempt, done) in [(1, 1), (2, 2), (2, 2)] {
            board.apply_event(&graded(attempt));
            assert_eq!(board.finished_and_total(), (done, 3));
        }
        assert!(board.summary().starts_with("2/3 done, 1 resolved 50.0%"), "{}", board.summary());
        assert!(board.summary().ends_with("left"), "{}", board.summary());
    }

    #[test]
    fn unfinished_trials_are_counted_by_reason_until_they_continue() {
        let mut board = board();
        let limit = Ending::Budget { budget: BudgetKind::Cost, scope: BudgetScope::Run };
        let fault = Fault::new(FaultLayer::Model, "x");
        for attempt in 1..=3 {
            board.set_running(&trial(attempt), RunningTrial::new("noop", 1, "waiting"));
        }
        board.set_unfinished(&trial(1), &limit);
        board.set_unfinished(&trial(2), &limit);
        board.set_unfinished(&trial(3), &Ending::InfrastructureFault { fault });
        let expected = "0/3 done, 1 ended in a fault (model), 2 stopped by the run's cost limit";
        assert_eq!(board.summary(), expected);
        board.set_running(&trial(1), RunningTrial::new("noop", 1, "waiting"));
        board.count_verdict(&trial(3), "noop", true);
        let summary = board.summary();
        assert!(summary.contains("1 running, 1 stopped by the run's cost limit"), "{summary}");
        assert!(!summary.contains("fault"), "{summary}");
    }

    #[test]
    fn spending_includes_responses_after_a_limit() {
        let mut board = board();
        let spent = Spending {
            input_tokens: 900,
            output_tokens: 100,
            cost_usd: 1.0,
            grace_cost_usd: 0.02,
            ..Spending::default()
        };
        board.set_spending(&spent);
        assert!(board.summary().contains("$1.02, 60.0k tokens/min"), "{}", board.summary());
        board.start_token_rate();
        assert!(board.summary().contains("$1.02, 0 tokens/min"), "{}", board.summary());
    }

    /// In this test, the first trial took long because an environment had to be built first.
    #[test]
    fn remaining_seconds_are_capped_by_the_limits() {
        let plan: Vec<_> = (1..=5).map(trial).collect();
        let late = |limit: Option<f64>, jobs: usize| {
            let plan = plan.iter().map(|trial| (trial, "noop", limit));
            let mut board = ProgressBoard::new(plan).with_jobs(jobs);
            board.started_at -= std::time::Duration::from_secs(600);
            board.count_verdict(&trial(1), "noop", true);
            board.remaining_seconds().unwrap()
        };
        assert!(late(None, 2) >= 2400.0);
        assert_eq!(late(Some(60.0), 2), 120.0);
        assert_eq!(late(Some(60.0), 1), 240.0);
        // The number of parallel trials does not change how long one trial takes.
        assert_eq!(late(Some(60.0), 100), 60.0);
        // The estimate is below the limits.
        assert!(late(Some(100_000.0), 1) < 3000.0);
    }

    #[test]
    fn lines_show_the_activity_of_a_trial_until_it_ends() {
        let mut board = board();
        let (id, arm) = (trial(2), "noop".to_owned());
        board.apply_event(&Progress::Started { trial: id.clone(), arm: arm.clone() });
        board.apply_event(&Progress::StepEnded { trial: id.clone(), arm: arm.clone(), step: 4 });
        let doing = TrialActivity::RunningTool { tool: "shell".into(), input: "make".into() };
        board.apply_event(&Progress::ActivityChanged { trial: id.clone(), arm, activity: doing });
        let lines = board.screen_lines();
        assert!(
            lines[1].contains("t noop #2 step 4") && lines[1].ends_with("shell: make"),
            "{lines:?}"
        );
        board.count_verdict(&id, "noop", true);
        assert_eq!(board.screen_lines().len(), 1);
    }
}
