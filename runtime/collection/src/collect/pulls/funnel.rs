//! How many pull requests are left after each stage, and what the tasks are like.

use proctor_types::{Fault, plural};
use serde::{Deserialize, Serialize};

use crate::RecipeError;

/// The version of `report.json`.
const REPORT_SCHEMA: u32 = 1;

/// The stages in their order. What a pull request ended at is the stage that it did not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Tests,
    Components,
    Share,
    Intent,
    Size,
    /// The tests run before and after.
    Run,
    /// Gold resolves it, and nothing does not.
    Verify,
}

impl Stage {
    /// What those have that are left.
    const ALL: [(Self, &'static str); 7] = [
        (Self::Tests, "change tests"),
        (Self::Components, "add a function or a class"),
        (Self::Share, "have most of their lines there"),
        (Self::Intent, "are about a feature"),
        (Self::Size, "have a patch that is small enough"),
        (Self::Run, "have tests that fail before and none that fails after"),
        (Self::Verify, "are resolved by gold, and not by nothing"),
    ];
}

/// A pull request that gives no task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullReject {
    pub pull_number: u64,
    pub title: String,
    pub stage: Stage,
    pub reason: String,
}

/// Why one ended.
#[derive(Debug)]
pub(super) enum Stop {
    Reject(Stage, String),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RecipeError> for Stop {
    fn from(error: RecipeError) -> Self {
        match error {
            RecipeError::Fault(fault) => Self::Fault(fault),
            other => Self::Reject(Stage::Run, other.to_string()),
        }
    }
}

/// One task, or one candidate where nothing ran, as the paper's table of the dataset counts it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PullFacts {
    pub instance_id: String,
    pub pull_number: u64,
    pub title: String,
    /// What said that it is about a feature.
    pub intent: String,
    pub files: usize,
    pub edited_lines: usize,
    pub new_lines: usize,
    pub functions: usize,
    pub classes: usize,
    pub fail_to_pass: usize,
    pub pass_to_pass: usize,
    pub lite: bool,
    /// What keeps it out of the smaller set.
    pub not_lite: Vec<String>,
}

/// What `report.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PullReport {
    pub schema_version: u32,
    pub repo: String,
    /// The commit that was searched from.
    pub commit: String,
    pub since: Option<String>,
    /// Nothing was run: `tasks` are candidates.
    pub dry_run: bool,
    /// `pull_requests`, then what is left after each stage.
    pub funnel: Vec<(String, usize)>,
    pub tasks: Vec<PullFacts>,
    pub rejects: Vec<PullReject>,
    /// Pull requests that a fault of this machine kept from being tried.
    pub faults: Vec<PullReject>,
    /// Candidates that a limit left out.
    pub not_tried: usize,
}

/// What a report says beside its tasks and rejects.
pub(super) struct Head {
    pub(super) repo: String,
    pub(super) commit: String,
    pub(super) since: Option<String>,
    pub(super) dry_run: bool,
    pub(super) not_tried: usize,
}

impl PullReport {
    pub(super) fn of(
        head: Head,
        tasks: Vec<PullFacts>,
        rejects: Vec<PullReject>,
        faults: Vec<PullReject>,
    ) -> Self {
        let mut left = tasks.len() + rejects.len() + faults.len() + head.not_tried;
        let mut funnel = vec![("merged pull requests".to_owned(), left)];
        for (stage, name) in Stage::ALL {
            if stage == Stage::Run {
                if head.dry_run {
                    break;
                }
                if head.not_tried > 0 {
                    left -= head.not_tried;
                    funnel.push(("... of which were tried".to_owned(), left));
                }
                left -= faults.len();
            }
            left -= rejects.iter().filter(|reject| reject.stage == stage).count();
            funnel.push((name.to_owned(), left));
        }
        funnel.push(("lite".to_owned(), tasks.iter().filter(|task| task.lite).count()));
        Self {
            schema_version: REPORT_SCHEMA,
            repo: head.repo,
            commit: head.commit,
            since: head.since,
            dry_run: head.dry_run,
            funnel,
            tasks,
            rejects,
            faults,
            not_tried: head.not_tried,
        }
    }

    /// For a person, in Markdown.
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
            let mean = |of: fn(&PullFacts) -> usize| {
                tasks.iter().map(|task| of(task)).sum::<usize>() as f64 / tasks.len() as f64
            };
            let share = tasks.iter().map(|it| it.new_lines as f64 / it.edited_lines.max(1) as f64);
            out.push_str(&format!(
                "\n| {}, mean | |\n| --- | ---: |\n| files edited | {:.2} |\n| lines edited | {:.1} |\n\
                 | lines of new components | {:.1} |\n| their share | {:.1} % |\n| functions added | {:.2} |\n\
                 | classes added | {:.2} |\n",
                plural(tasks.len(), set),
                mean(|task| task.files),
                mean(|task| task.edited_lines),
                mean(|task| task.new_lines),
                share.sum::<f64>() / tasks.len() as f64 * 100.0,
                mean(|task| task.functions),
                mean(|task| task.classes),
            ));
        }
        if !self.faults.is_empty() {
            out.push_str("\n| not tried, for a fault of this machine | |\n| --- | --- |\n");
            out.extend(self.faults.iter().map(row));
        }
        let ran: Vec<&PullReject> =
            self.rejects.iter().filter(|reject| reject.stage >= Stage::Run).collect();
        if !ran.is_empty() {
            out.push_str("\n| ran and gave no task | because |\n| --- | --- |\n");
            out.extend(ran.into_iter().map(row));
        }
        if !self.rejects.is_empty() {
            out.push_str("\n`rejects.jsonl` has every other pull request, with its reason.\n");
        }
        out
    }
}

fn row(reject: &PullReject) -> String {
    let plain = |text: &str| text.lines().next().unwrap_or_default().replace('|', "\\|");
    let title = plain(&reject.title);
    format!("| #{} {title} | {} |\n", reject.pull_number, plain(&reject.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_tells_what_it_left() {
        let reject =
            |stage| PullReject { pull_number: 1, title: "a | b".into(), stage, reason: "c".into() };
        let head = |dry_run| Head {
            repo: "a/b".into(),
            commit: "0123".into(),
            since: None,
            dry_run,
            not_tried: 2,
        };
        let rejects = vec![reject(Stage::Tests), reject(Stage::Size), reject(Stage::Run)];
        let report = PullReport::of(head(false), vec![], rejects, vec![reject(Stage::Run)]);
        let counts: Vec<usize> = report.funnel.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [6, 5, 5, 5, 5, 4, 2, 0, 0, 0]);
        assert!(report.summary().contains("| #1 a \\| b | c |"), "{}", report.summary());
        let dry = PullReport::of(head(true), vec![], vec![reject(Stage::Share)], vec![]);
        let counts: Vec<usize> = dry.funnel.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [3, 3, 3, 2, 2, 2, 0]);
    }
}
