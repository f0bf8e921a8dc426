//! The report of a collection: how many pull requests are left after each stage, and statistics
//! about the tasks.

use std::collections::BTreeMap;

use proctor_types::{Fault, count_with_noun};
use serde::{Deserialize, Serialize};

use crate::RecipeError;

/// The version of `report.json`.
const REPORT_SCHEMA: u32 = 1;

/// The stages in order. A rejected pull request records the stage that rejected it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Tests,
    Components,
    Share,
    Intent,
    Size,
    /// Some tests fail without the changes and pass with them.
    Run,
    /// The gold patch resolves the task, and an empty patch does not.
    Verify,
}

impl Stage {
    /// Each stage, with a description of the pull requests that pass it.
    const ALL: [(Self, &'static str); 7] = [
        (Self::Tests, "change tests"),
        (Self::Components, "add a function or a class"),
        (Self::Share, "have most of their edited lines in new functions or classes"),
        (Self::Intent, "are meant to add a feature"),
        (Self::Size, "have a small enough patch"),
        (Self::Run, "have tests that fail before the change and pass after it"),
        (Self::Verify, "are resolved by gold but not by noop"),
    ];
}

/// A pull request that was rejected or could not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullReject {
    pub pull_number: u64,
    pub title: String,
    pub stage: Stage,
    pub reason: String,
}

/// Why work on a candidate stopped.
#[derive(Debug)]
pub(super) enum StopReason {
    Reject(Stage, String),
    Fault(Fault),
}

impl From<Fault> for StopReason {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RecipeError> for StopReason {
    fn from(error: RecipeError) -> Self {
        match error {
            RecipeError::Fault(fault) => Self::Fault(fault),
            other => Self::Reject(Stage::Run, other.to_string()),
        }
    }
}

/// A task, with the values in the dataset table of FEA-Bench's paper. In a dry run, a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PullTaskMetrics {
    pub instance_id: String,
    pub pull_number: u64,
    pub title: String,
    /// Why the pull request counts as a feature.
    pub intent: String,
    pub files: usize,
    pub edited_lines: usize,
    pub new_lines: usize,
    pub functions: usize,
    pub classes: usize,
    pub fail_to_pass: usize,
    pub pass_to_pass: usize,
    pub lite: bool,
    /// Why the task is not in the lite set.
    pub not_lite: Vec<String>,
    /// The criteria that `not_lite` is based on: `words`, `reference`, `image`, `deleted_file`,
    /// `files`, `hunks`, `tokens`, `class`, `functions`.
    #[serde(default)]
    pub not_lite_criteria: Vec<String>,
}

/// The result of first trying only a few candidates from a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastValidation {
    pub tried: usize,
    /// Number of tried candidates that became tasks. If it is 0, the repository is skipped.
    pub tasks: usize,
}

/// The contents of `report.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PullReport {
    pub schema_version: u32,
    pub repo: String,
    /// The newest commit that was searched.
    pub commit: String,
    pub since: Option<String>,
    /// Whether this was a dry run. If so, `tasks` are candidates.
    pub dry_run: bool,
    /// The number of merged pull requests, then the number left after each stage.
    pub funnel: Vec<(String, usize)>,
    pub tasks: Vec<PullTaskMetrics>,
    pub rejects: Vec<PullReject>,
    /// Pull requests whose tests could not be run because of a fault on this machine.
    pub faults: Vec<PullReject>,
    /// Number of candidates that were skipped because of a limit or a failed fast validation.
    pub not_tried: usize,
    /// The highest number of any merged pull request.
    #[serde(default)]
    pub last_pull: u64,
    /// `None` if fast validation was not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_validation: Option<FastValidation>,
}

/// A report's fields, except for its tasks and rejects.
pub(super) struct ReportHeader {
    pub(super) repo: String,
    pub(super) commit: String,
    pub(super) since: Option<String>,
    pub(super) dry_run: bool,
    pub(super) untried_count: usize,
    pub(super) last_pull: u64,
    pub(super) fast_validation: Option<FastValidation>,
}

impl PullReport {
    pub(super) fn new(
        header: ReportHeader,
        tasks: Vec<PullTaskMetrics>,
        rejects: Vec<PullReject>,
        faults: Vec<PullReject>,
    ) -> Self {
        let mut remaining = tasks.len() + rejects.len() + faults.len() + header.untried_count;
        let mut funnel = vec![("merged pull requests".to_owned(), remaining)];
        for (stage, name) in Stage::ALL {
            if stage == Stage::Run {
                if header.dry_run {
                    break;
                }
                if header.untried_count > 0 {
                    remaining -= header.untried_count;
                    funnel.push(("... and were tried".to_owned(), remaining));
                }
                remaining -= faults.len();
            }
            remaining -= rejects.iter().filter(|reject| reject.stage == stage).count();
            funnel.push((name.to_owned(), remaining));
        }
        funnel.push(("lite".to_owned(), tasks.iter().filter(|task| task.lite).count()));
        Self {
            schema_version: REPORT_SCHEMA,
            repo: header.repo,
            commit: header.commit,
            since: header.since,
            dry_run: header.dry_run,
            funnel,
            tasks,
            rejects,
            faults,
            not_tried: header.untried_count,
            last_pull: header.last_pull,
            fast_validation: header.fast_validation,
        }
    }

    /// Returns the number of pull requests left after a stage, or 0 if the stage was not reached.
    fn remaining_after(&self, stage: Stage) -> usize {
        let name = Stage::ALL.iter().find(|(one, _)| *one == stage).map_or("", |(_, name)| *name);
        self.funnel.iter().find(|(one, _)| one == name).map_or(0, |(_, count)| *count)
    }

    /// Returns the six columns of FEA-Bench's Table 6: number of the last pull request, merged pull
    /// requests, pull requests with tests, candidates, tasks, lite tasks.
    pub fn counts(&self) -> [u64; 6] {
        let merged = self.funnel.first().map_or(0, |(_, count)| *count);
        let full = if self.dry_run { 0 } else { self.tasks.len() };
        let lite = self.tasks.iter().filter(|task| task.lite && !self.dry_run).count();
        let counts = [
            merged,
            self.remaining_after(Stage::Tests),
            self.remaining_after(Stage::Size),
            full,
            lite,
        ];
        let [merged, tests, candidates, full, lite] = counts.map(|count| count as u64);
        [self.last_pull, merged, tests, candidates, full, lite]
    }

    /// Renders the report as Markdown.
    pub fn summary(&self) -> String {
        let since = self.since.as_deref().map_or_else(String::new, |it| format!(", since {it}"));
        let mut out = format!(
            "# Pull requests of {}\n\nUp to commit {}{since}.\n\n| merged pull requests that | left |\n| --- | ---: |\n",
            self.repo,
            self.commit.get(..12).unwrap_or(&self.commit)
        );
        for (stage, count) in &self.funnel {
            out.push_str(&format!("| {stage} | {count} |\n"));
        }
        let what = if self.dry_run { "candidate" } else { "task" };
        for (set, tasks) in [
            (what, self.tasks.iter().collect::<Vec<_>>()),
            ("lite task", self.tasks.iter().filter(|task| task.lite).collect()),
        ] {
            if tasks.is_empty() {
                continue;
            }
            let mean = |of: fn(&PullTaskMetrics) -> usize| {
                tasks.iter().map(|task| of(task)).sum::<usize>() as f64 / tasks.len() as f64
            };
            // Divide the means, as FEA-Bench's Table 1 does (87.1 of 128.5 lines are 67.8%).
            let share = mean(|task| task.new_lines) / mean(|task| task.edited_lines).max(1.0);
            out.push_str(&format!(
                "\n| {}, mean | |\n| --- | ---: |\n| files edited | {:.2} |\n| lines edited | {:.1} |\n\
                 | lines of new components | {:.1} |\n| share of lines edited | {:.1}% |\n| functions added | {:.2} |\n\
                 | classes added | {:.2} |\n",
                count_with_noun(tasks.len(), set),
                mean(|task| task.files),
                mean(|task| task.edited_lines),
                mean(|task| task.new_lines),
                share * 100.0,
                mean(|task| task.functions),
                mean(|task| task.classes),
            ));
        }
        if let Some(FastValidation { tried, tasks }) = self.fast_validation {
            let first = count_with_noun(tried, "candidate");
            out.push_str(&format!(
                "\nFast validation: the first {first} gave {}.\n",
                count_with_noun(tasks, "task")
            ));
        }
        let mut against: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.tasks.iter().flat_map(|task| &task.not_lite_criteria) {
            *against.entry(name).or_default() += 1;
        }
        if !against.is_empty() {
            out.push_str(&format!("\n| not lite because of | {what}s |\n| --- | ---: |\n"));
            out.extend(against.iter().map(|(name, count)| format!("| {name} | {count} |\n")));
        }
        if !self.faults.is_empty() {
            out.push_str("\n| not tried because of a fault on this machine | |\n| --- | --- |\n");
            out.extend(self.faults.iter().map(reject_row));
        }
        let ran: Vec<&PullReject> =
            self.rejects.iter().filter(|reject| reject.stage >= Stage::Run).collect();
        if !ran.is_empty() {
            out.push_str("\n| ran but did not become a task | because |\n| --- | --- |\n");
            out.extend(ran.into_iter().map(reject_row));
        }
        if !self.rejects.is_empty() {
            out.push_str("\n`rejects.jsonl` lists all other pull requests with reasons.\n");
        }
        out
    }
}

fn reject_row(reject: &PullReject) -> String {
    let plain = |text: &str| text.lines().next().unwrap_or_default().replace('|', "\\|");
    let title = plain(&reject.title);
    format!("| #{} {title} | {} |\n", reject.pull_number, plain(&reject.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn funnel_counts_pull_requests_left_after_each_stage() {
        let reject =
            |stage| PullReject { pull_number: 1, title: "a | b".into(), stage, reason: "c".into() };
        let head = |dry_run| ReportHeader {
            repo: "a/b".into(),
            commit: "0123".into(),
            since: None,
            dry_run,
            untried_count: 2,
            last_pull: 9,
            fast_validation: None,
        };
        let rejects = vec![reject(Stage::Tests), reject(Stage::Size), reject(Stage::Run)];
        let report = PullReport::new(head(false), vec![], rejects, vec![reject(Stage::Run)]);
        let counts: Vec<usize> = report.funnel.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [6, 5, 5, 5, 5, 4, 2, 0, 0, 0]);
        assert_eq!(report.counts(), [9, 6, 5, 4, 0, 0]);
        assert!(report.summary().contains("| #1 a \\| b | c |"), "{}", report.summary());
        let dry = PullReport::new(head(true), vec![], vec![reject(Stage::Share)], vec![]);
        let counts: Vec<usize> = dry.funnel.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [3, 3, 3, 2, 2, 2, 0]);
        // The fraction is 37 of 45 lines, as opposed to the mean of the three tasks' fractions.
        let task = |new_lines, edited_lines| PullTaskMetrics {
            instance_id: "a__b-1".into(),
            pull_number: 1,
            title: "t".into(),
            intent: "i".into(),
            files: 1,
            edited_lines,
            new_lines,
            functions: 1,
            classes: 0,
            fail_to_pass: 1,
            pass_to_pass: 0,
            lite: false,
            not_lite: vec![],
            not_lite_criteria: vec![],
        };
        let tasks = vec![task(17, 19), task(14, 18), task(6, 8)];
        let summary = PullReport::new(head(false), tasks, vec![], vec![]).summary();
        assert!(summary.contains("| lines edited | 15.0 |"), "{summary}");
        assert!(summary.contains("| 12.3 |\n| share of lines edited | 82.2% |"), "{summary}");
    }
}
