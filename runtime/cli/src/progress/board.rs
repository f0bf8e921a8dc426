//! Tracks the progress of a run from its events, or from the contents of its directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use proctor_gateway::WaitNotice;
use proctor_report::{abbreviate_count, percent};
use proctor_run::{Progress, TrialActivity};
use proctor_statistics::{CONFIDENCE_LEVEL, wilson};
use proctor_types::{Outcome, TrialId, plural};

use super::trial_name::trial_name;

/// Maximum number of arms to list on a screen, and maximum number of running trials.
const MAX_ROWS: usize = 8;
/// Width of a bar in cells.
const BAR_WIDTH: u64 = 10;

/// The plan and its results so far.
#[derive(Debug)]
pub struct Board {
    begun: Instant,
    arms: Vec<ArmRow>,
    done: BTreeSet<TrialId>,
    /// Number of trials that were done before this process started. They are ignored when
    /// estimating the remaining time.
    before: usize,
    trials: usize,
    /// Number of trials to run in parallel.
    jobs: usize,
    running: BTreeMap<TrialId, RunningTrial>,
    faults: usize,
    tokens: u64,
    cost_usd: f64,
    unpriced: bool,
}

#[derive(Debug, Default)]
struct ArmRow {
    name: String,
    planned: usize,
    done: usize,
    resolved: usize,
    /// Time limit of the arm's trials in seconds. `None` if there is no limit.
    limit: Option<f64>,
}

/// A running trial.
#[derive(Debug, Clone)]
pub struct RunningTrial {
    pub arm: String,
    pub step: u64,
    pub activity: String,
    pub since: Instant,
}

impl RunningTrial {
    pub fn new(arm: &str, step: u64, doing: &str) -> Self {
        Self { arm: arm.to_owned(), step, activity: doing.to_owned(), since: Instant::now() }
    }
}

impl Board {
    /// Creates a board for a plan. `plan` yields each trial with its arm's name and wall-time limit
    /// in seconds.
    pub fn new<'a>(plan: impl Iterator<Item = (&'a TrialId, &'a str, Option<f64>)>) -> Self {
        let mut board = Self {
            begun: Instant::now(),
            arms: Vec::new(),
            done: BTreeSet::new(),
            before: 0,
            trials: 0,
            jobs: 1,
            running: BTreeMap::new(),
            faults: 0,
            tokens: 0,
            cost_usd: 0.0,
            unpriced: false,
        };
        for (_, arm, limit) in plan {
            board.trials += 1;
            let arm = board.arm_row(arm);
            arm.planned += 1;
            arm.limit = limit;
        }
        board
    }

    /// Sets how many trials run at once. The default is 1.
    #[must_use]
    pub fn with_jobs(self, jobs: usize) -> Self {
        Self { jobs: jobs.max(1), ..self }
    }

    fn arm_row(&mut self, name: &str) -> &mut ArmRow {
        let at = self.arms.iter().position(|arm| arm.name == name).unwrap_or(self.arms.len());
        if at == self.arms.len() {
            self.arms.push(ArmRow { name: name.to_owned(), ..ArmRow::default() });
        }
        &mut self.arms[at]
    }

    /// Counts a trial that already had a verdict.
    pub fn count_done(&mut self, trial: &TrialId, arm: &str, resolved: bool) {
        self.count_graded(trial, arm, resolved);
        self.before = self.done.len();
    }

    /// Counts a graded trial. A trial that is graded again counts only once, so that no counter
    /// exceeds its total.
    pub fn count_graded(&mut self, trial: &TrialId, arm: &str, resolved: bool) {
        self.running.remove(trial);
        if self.done.insert(trial.clone()) {
            let arm = self.arm_row(arm);
            arm.done += 1;
            arm.resolved += usize::from(resolved);
        }
    }

    pub fn is_done(&self, trial: &TrialId) -> bool {
        self.done.contains(trial)
    }

    pub fn set_running(&mut self, trial: &TrialId, running: RunningTrial) {
        self.running.insert(trial.clone(), running);
    }

    pub fn add_spending(&mut self, outcome: &Outcome) {
        self.tokens += outcome.spent.input_tokens + outcome.spent.output_tokens;
        self.cost_usd += outcome.spent.cost_usd;
        self.unpriced |= outcome.spent.unpriced;
    }

    /// Returns the number of trials with a verdict, and the total.
    pub fn counts(&self) -> (usize, usize) {
        (self.done.len(), self.trials)
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
            Progress::Stepped { trial, step, .. } => {
                if let Some(running) = self.running.get_mut(trial) {
                    running.step = *step;
                }
            }
            Progress::Does { trial, doing, .. } => {
                if let TrialActivity::Answered { tokens, cost_usd } = doing {
                    self.tokens += tokens;
                    self.cost_usd += cost_usd.unwrap_or_default();
                    self.unpriced |= cost_usd.is_none();
                } else {
                    self.set_activity(trial, doing.to_string());
                }
            }
            Progress::Waiting { trial, waiting, .. } => {
                self.set_activity(trial, describe_wait(waiting))
            }
            Progress::Ended { trial, outcome, .. } => match outcome.ending.is_unfinished() {
                true => drop(self.running.remove(trial)),
                false => self.set_activity(trial, "grading".to_owned()),
            },
            Progress::Graded { trial, arm, verdict } => {
                self.count_graded(trial, arm, verdict.resolved)
            }
            Progress::TryFailed { trial, .. } => {
                self.faults += 1;
                self.set_activity(trial, "failed (see above)".to_owned());
            }
            Progress::TakenOver { trial, .. } => drop(self.running.remove(trial)),
            Progress::GradingFailed { trial, .. } => {
                self.faults += 1;
                self.running.remove(trial);
            }
            _ => {}
        }
    }

    fn set_activity(&mut self, trial: &TrialId, doing: String) {
        if let Some(running) = self.running.get_mut(trial)
            && running.activity != doing
        {
            (running.activity, running.since) = (doing, Instant::now());
        }
    }

    /// Returns the progress in one line.
    pub fn summary(&self) -> String {
        let mut parts = vec![self.counts_text(), self.spending_text()];
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }

    fn counts_text(&self) -> String {
        let (done, resolved) = (self.done.len(), self.arms.iter().map(|arm| arm.resolved).sum());
        let mut parts = vec![format!("{done}/{} done", self.trials), rate_text(resolved, done)];
        if !self.running.is_empty() {
            parts.push(format!("{} running", self.running.len()));
        }
        if self.faults > 0 {
            parts.push(plural(self.faults, "fault"));
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
        let cost = match (self.unpriced, self.cost_usd > 0.0) {
            (false, _) => format!("${:.2}", self.cost_usd),
            (true, true) => format!("at least ${:.2}", self.cost_usd),
            (true, false) => "cost unknown".to_owned(),
        };
        let minutes = (self.begun.elapsed().as_secs_f64() / 60.0).max(1.0 / 60.0);
        format!("{cost}, {} tokens/min", abbreviate_count(self.tokens as f64 / minutes))
    }

    /// Returns the remaining seconds. Extrapolates from the trials of this process, and caps the
    /// result by the limits of the open trials. Returns `None` before the first trial ends.
    fn remaining_seconds(&self) -> Option<f64> {
        let now = self.done.len() - self.before;
        let open = self.trials.saturating_sub(self.done.len());
        let pace = self.begun.elapsed().as_secs_f64() / now.max(1) as f64;
        let left = (now > 0 && open > 0).then_some(pace * open as f64)?;
        Some(self.max_remaining_seconds().map_or(left, |most| left.min(most)))
    }

    /// Returns the longest time in seconds that the limits of the open trials allow. Returns `None`
    /// if one of them has no limit.
    fn max_remaining_seconds(&self) -> Option<f64> {
        let (mut sum, mut longest) = (0.0, 0.0_f64);
        for arm in self.arms.iter().filter(|arm| arm.done < arm.planned) {
            let limit = arm.limit?;
            sum += limit * (arm.planned - arm.done) as f64;
            longest = longest.max(limit);
        }
        Some((sum / self.jobs as f64).max(longest))
    }

    /// Returns all lines of the screen. A line may be wider than the screen, because the drawing
    /// code truncates it.
    pub fn lines(&self) -> Vec<String> {
        let clock = format_clock(self.begun.elapsed().as_secs_f64());
        let mut lines = vec![format!("{clock} {}", self.counts_text())];
        // Print the spending on a separate line, because counts and spending together don't fit in
        // 80 columns.
        lines.extend(Some(format!("  {}", self.spending_text())).filter(|_| self.tokens > 0));
        if self.arms.len() > 1 {
            lines.extend(self.arms.iter().take(MAX_ROWS).map(|arm| {
                let ArmRow { name, planned, done, resolved, .. } = arm;
                format!(
                    "  {} {done}/{planned} {}  {name}",
                    bar(*done, *planned),
                    rate_text(*resolved, *done)
                )
            }));
            lines.extend(more_line(self.arms.len(), "arm"));
        }
        lines.extend(self.running.iter().take(MAX_ROWS).map(|(trial, running)| {
            let RunningTrial { arm, step, activity: doing, since } = running;
            let seconds = since.elapsed().as_secs();
            format!("  {} step {step}, {seconds:3} s {doing}", trial_name(trial, arm))
        }));
        lines.extend(more_line(self.running.len(), "trial"));
        lines
    }
}

fn more_line(count: usize, what: &str) -> Option<String> {
    let more = count.checked_sub(MAX_ROWS).filter(|more| *more > 0)?;
    Some(format!("  and {} more", plural(more, what)))
}

fn rate_text(resolved: usize, done: usize) -> String {
    let Some([low, high]) = wilson(resolved as f64, done as f64, CONFIDENCE_LEVEL) else {
        return String::new();
    };
    let share = resolved as f64 / done as f64;
    format!("{resolved} resolved {} ({} to {})", percent(share), percent(low), percent(high))
}

fn bar(done: usize, planned: usize) -> String {
    let full =
        (done as u64 * BAR_WIDTH).checked_div(planned as u64).unwrap_or(BAR_WIDTH).min(BAR_WIDTH)
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
pub(super) fn describe_wait(waiting: &WaitNotice) -> String {
    match waiting {
        WaitNotice::Queued(so_far) => {
            format!("waiting {:.0} s for a rate limit or a shared limit", so_far.as_secs_f64())
        }
        WaitNotice::Silent { model, so_far } => {
            format!("no data from {model} for {:.0} s", so_far.as_secs_f64())
        }
        WaitNotice::FirstAnswer { model, so_far } => {
            let so_far = so_far.as_secs_f64();
            format!(
                "waiting {so_far:.0} s for the first response from {model} (requested by another trial)"
            )
        }
        WaitNotice::BackOff { attempt, attempts, why, pause } => {
            format!("attempt {attempt} of {attempts}: {why}; waiting {:.0} s", pause.as_secs_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{ArmId, TaskId};
    use serde_json::json;

    use super::*;

    fn trial(attempt: u32) -> TrialId {
        TrialId { task: TaskId::new("t"), arm: ArmId::new("a"), attempt }
    }

    fn board() -> Board {
        let plan = [trial(1), trial(2), trial(3)];
        Board::new(plan.iter().map(|trial| (trial, "noop", None)))
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
        board.count_done(&trial(1), "noop", false);
        for (attempt, done) in [(1, 1), (2, 2), (2, 2)] {
            board.apply_event(&graded(attempt));
            assert_eq!(board.counts(), (done, 3));
        }
        assert!(board.summary().starts_with("2/3 done, 1 resolved 50.0 %"), "{}", board.summary());
        assert!(board.summary().ends_with("left"), "{}", board.summary());
    }

    /// In this test, the first trial took long because an environment had to be built first.
    #[test]
    fn remaining_seconds_are_capped_by_the_limits() {
        let plan: Vec<_> = (1..=5).map(trial).collect();
        let late = |limit: Option<f64>, jobs: usize| {
            let plan = plan.iter().map(|trial| (trial, "noop", limit));
            let mut board = Board::new(plan).with_jobs(jobs);
            board.begun -= std::time::Duration::from_secs(600);
            board.count_graded(&trial(1), "noop", true);
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
        board.apply_event(&Progress::Stepped { trial: id.clone(), arm: arm.clone(), step: 4 });
        let doing = TrialActivity::Runs { tool: "shell".into(), what: "make".into() };
        board.apply_event(&Progress::Does { trial: id.clone(), arm, doing });
        let lines = board.lines();
        assert!(
            lines[1].contains("t noop #2 step 4") && lines[1].ends_with("shell: make"),
            "{lines:?}"
        );
        board.count_graded(&id, "noop", true);
        assert_eq!(board.lines().len(), 1);
    }
}
