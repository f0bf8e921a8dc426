//! The report of a collection: `report.json` and `summary.md`.

use proctor_types::{Integrity, count_with_noun};
use serde::{Deserialize, Serialize};

use super::{
    attacks::AttackSummary,
    labels::TopsScore,
    outcome::{Reject, TaskMetrics},
    solvability::SolvabilityCounts,
    suite::UnusedItem,
    verify,
};

/// The version of `report.json`.
const REPORT_SCHEMA: u32 = 1;

/// The contents of `report.json`. Times are left out, so that the same seed produces the same
/// bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema_version: u32,
    pub origin: String,
    pub package: String,
    pub version: String,
    pub python: String,
    pub seed: String,
    /// The model that decided which objects each test file tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether this was a dry run, which only finds tops and creates no tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// How accurate the tops are, if some of the test files have labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tops_score: Option<TopsScore>,
    pub stages: Stages,
    pub complexity: Complexity,
    /// Counts of what the tests of all level-1 tasks require.
    #[serde(default)]
    pub solvability: SolvabilityCounts,
    pub tasks: Vec<TaskMetrics>,
    pub rejects: Vec<Reject>,
    /// The level-2 tasks (from scratch) created from the same test files.
    pub level_2: LevelTwoResults,
    /// The results of the attacks on grading.
    #[serde(default)]
    pub attacked: AttackSummary,
    /// Tests and files that are not used, with the reasons.
    pub unused: Vec<UnusedItem>,
}

/// The number of test files left after each stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    pub tests: usize,
    pub steady_tests: usize,
    pub test_files: usize,
    pub with_tops: usize,
    pub with_other_files: usize,
    pub masked: usize,
    pub verified: usize,
    pub meets_minima: usize,
    /// Number of verified tasks in the lite set.
    pub lite: usize,
}

/// The results of level 2, in which the agent writes a package from scratch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelTwoResults {
    pub test_files: usize,
    /// Number of test files whose imports could be rewritten.
    pub rewritten: usize,
    /// Number of test files whose rewritten tests all pass with the library's own objects.
    pub oracle: usize,
    pub verified: usize,
    pub meets_minima: usize,
    pub lite: usize,
    pub complexity: Complexity,
    #[serde(default)]
    pub solvability: SolvabilityCounts,
    pub tasks: Vec<TaskMetrics>,
    pub rejects: Vec<Reject>,
}

/// Means over the tasks, with the same values as a table in FeatureBench's paper.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Complexity {
    pub problem_words: f64,
    pub gold_lines: f64,
    pub gold_files: f64,
    pub functions: f64,
    pub fail_to_pass: f64,
    pub pass_to_pass_files: f64,
    pub leak_score: f64,
}

/// A report's fields, except for its tasks and rejects.
pub(super) struct ReportHeader {
    pub(super) origin: String,
    pub(super) package: String,
    pub(super) version: String,
    pub(super) python: String,
    pub(super) seed: String,
    pub(super) model: Option<String>,
    pub(super) test_count: usize,
    pub(super) steady_test_count: usize,
    pub(super) unused_items: Vec<UnusedItem>,
    pub(super) tops: Option<TopsScore>,
    /// In a dry run: the number of test files, then how many of them may yield a task.
    pub(super) dry_run_counts: Option<(usize, usize)>,
}

impl Report {
    pub(super) fn new(header: ReportHeader, tasks: Vec<TaskMetrics>, rejects: Vec<Reject>) -> Self {
        let ended = |stages: &[&str]| {
            rejects.iter().filter(|reject| stages.contains(&reject.stage.as_str())).count()
        };
        let of_all = tasks.len() + rejects.len();
        let (files, with_tops) =
            header.dry_run_counts.unwrap_or((of_all, of_all - ended(&["tops"])));
        let with_other_files =
            if header.dry_run_counts.is_some() { 0 } else { with_tops - ended(&["pass_to_pass"]) };
        let stages = Stages {
            tests: header.test_count,
            steady_tests: header.steady_test_count,
            test_files: files,
            with_tops,
            with_other_files,
            masked: with_other_files - ended(&["mask"]),
            verified: tasks.len(),
            meets_minima: tasks.iter().filter(|task| task.meets_minima).count(),
            lite: tasks.iter().filter(|task| task.lite).count(),
        };
        Self {
            schema_version: REPORT_SCHEMA,
            origin: header.origin,
            package: header.package,
            version: header.version,
            python: header.python,
            seed: header.seed,
            model: header.model,
            dry_run: header.dry_run_counts.is_some(),
            tops_score: header.tops,
            stages,
            complexity: Complexity::from_tasks(&tasks),
            solvability: sum_solvability(&tasks),
            tasks,
            rejects,
            level_2: LevelTwoResults::default(),
            attacked: AttackSummary::default(),
            unused: header.unused_items,
        }
    }

    pub(super) fn add_level_two(&mut self, tasks: Vec<TaskMetrics>, rejects: Vec<Reject>) {
        let ended = |stages: &[&str]| {
            let stage = |reject: &Reject| reject.stage.trim_start_matches("level_2: ").to_owned();
            rejects.iter().filter(|reject| stages.contains(&stage(reject).as_str())).count()
        };
        let test_files = tasks.len() + rejects.len();
        let rewritten = test_files - ended(&["tops", "rewrite", "fault"]);
        self.level_2 = LevelTwoResults {
            test_files,
            rewritten,
            oracle: rewritten - ended(&["oracle"]),
            verified: tasks.len(),
            meets_minima: tasks.iter().filter(|task| task.meets_minima).count(),
            lite: tasks.iter().filter(|task| task.lite).count(),
            complexity: Complexity::from_tasks(&tasks),
            solvability: sum_solvability(&tasks),
            tasks,
            rejects,
        };
    }

    /// Adds the results of the attacks on both levels' tasks.
    pub(super) fn add_attacks(&mut self, summaries: [AttackSummary; 2]) {
        for one in summaries {
            self.attacked.pack = one.pack;
            self.attacked.tasks.extend(one.tasks);
            self.attacked.attacks += one.attacks;
        }
    }

    /// Renders the report as Markdown.
    pub fn summary(&self) -> String {
        let stages = &self.stages;
        let mut out = format!(
            "# Tasks from {} {}\n\n{}, seed {:?}.\n\n| stage | left |\n| --- | ---: |\n",
            self.package, self.version, self.python, self.seed
        );
        let rows = [
            ("tests found", stages.tests),
            ("tests that pass every time", stages.steady_tests),
            ("test files", stages.test_files),
            ("that call the package's code", stages.with_tops),
            ("with enough other test files that must keep passing", stages.with_other_files),
            ("with code that can be removed", stages.masked),
            ("verified: gold resolves, noop does not", stages.verified),
            ("of FeatureBench's size", stages.meets_minima),
        ];
        for (name, count) in if self.dry_run { &rows[..4] } else { &rows[..] } {
            out.push_str(&format!("| {name} | {count} |\n"));
        }
        if let Some(score) = &self.tops_score {
            out.push_str(&score.summary_sentence());
        }
        if self.dry_run {
            out.push_str("\nThis is a dry run, which creates no tasks. `tops.jsonl` lists what each file tests.\n");
            return out;
        }
        out.push_str(&render_task_table(&self.tasks, &self.complexity));
        out.push_str(&render_rejects(&self.rejects));
        let second = &self.level_2;
        out.push_str("\n## Level 2: from scratch\n\n| stage | left |\n| --- | ---: |\n");
        for (name, count) in [
            ("test files", second.test_files),
            ("rewritten to use `agent_code`", second.rewritten),
            ("rewritten, pass with the library's own objects", second.oracle),
            (
                "verified: a copy of the library resolves, noop and its own objects do not",
                second.verified,
            ),
            ("of FeatureBench's size", second.meets_minima),
        ] {
            out.push_str(&format!("| {name} | {count} |\n"));
        }
        out.push_str(&render_task_table(&second.tasks, &second.complexity));
        out.push_str(&render_rejects(&second.rejects));
        let attacked = &self.attacked;
        out.push_str(&match attacked.tasks.len() {
            0 => "\nAttacks on grading: not tried on any remaining task.\n".to_owned(),
            tasks => format!(
                "\nAttacks on grading: {} tried on {}. None resolved a task undetected.\n",
                count_with_noun(attacked.attacks, "patch"),
                count_with_noun(tasks, "task")
            ),
        });
        out.push_str(&self.solvability_section());
        out.push_str(&self.lite_section());
        out
    }

    /// Returns the tasks whose gold patch was not graded `clean`.
    pub(super) fn unclean_gold_tasks(&self) -> Vec<(&str, Integrity, &[String])> {
        let of_both = self.tasks.iter().chain(&self.level_2.tasks);
        let unclean = of_both.filter_map(|task| {
            let integrity = task.gold_integrity.filter(|it| *it != Integrity::Clean)?;
            Some((task.task.as_str(), integrity, task.gold_reasons.as_slice()))
        });
        unclean.collect()
    }

    fn solvability_section(&self) -> String {
        if self.tasks.is_empty() && self.level_2.tasks.is_empty() {
            return String::new();
        }
        let (first, second) = (&self.solvability, &self.level_2.solvability);
        let mut out = format!(
            "\n## Solvability\n\n| what the tests require | level 1 | share | level 2 | share |\n\
             | --- | ---: | ---: | ---: | ---: |\n| requirements | {} | | {} | |\n",
            first.requirements, second.requirements
        );
        for ((name, one, share), (_, two, other)) in first.rows().into_iter().zip(second.rows()) {
            out.push_str(&format!(
                "| {name} | {one} | {:.1}% | {two} | {:.1}% |\n",
                share * 100.0,
                other * 100.0
            ));
        }
        out.push_str(&format!(
            "| removed tests | {} | | {} | |\n\n`solvability.jsonl` lists each requirement of each task.\n",
            first.left_out, second.left_out
        ));
        let of_both = self.tasks.iter().chain(&self.level_2.tasks);
        let gaps: Vec<String> = of_both
            .filter(|task| !task.solvability_gaps.is_empty())
            .map(|task| format!("{}: {}", task.task, task.solvability_gaps.join("; ")))
            .collect();
        if !gaps.is_empty() {
            out.push_str(&format!(
                "\nThe statement of {} doesn't contain everything that the tests require:\n\n- {}\n",
                count_with_noun(gaps.len(), "task"),
                gaps.join("\n- ")
            ));
        }
        let unclean = self.unclean_gold_tasks();
        if !unclean.is_empty() {
            let names: Vec<String> = unclean
                .iter()
                .map(|(task, integrity, reasons)| {
                    format!("{task}: {}", verify::with_reasons(*integrity, reasons))
                })
                .collect();
            out.push_str(&format!(
                "\nThe gold patch of {} is not graded `clean`:\n\n- {}\n",
                count_with_noun(names.len(), "task"),
                names.join("\n- ")
            ));
        }
        out
    }

    fn lite_section(&self) -> String {
        let of_both = self.tasks.iter().chain(&self.level_2.tasks);
        let mut names: Vec<&str> =
            of_both.filter(|task| task.lite).map(|task| task.task.as_str()).collect();
        if names.is_empty() {
            return String::new();
        }
        names.sort_unstable();
        format!(
            "\n## Lite: {}, sampled with the seed\n\n`lite.jsonl` contains only these.\n\n- {}\n",
            count_with_noun(names.len(), "task"),
            names.join("\n- ")
        )
    }
}

fn sum_solvability(tasks: &[TaskMetrics]) -> SolvabilityCounts {
    SolvabilityCounts::sum(tasks.iter().map(|task| &task.solvability))
}

fn render_task_table(tasks: &[TaskMetrics], mean: &Complexity) -> String {
    let mut out = String::new();
    if !tasks.is_empty() {
        out.push_str(
                "\n| task's test file | words | lines | files | functions | F2P | P2P files | policy | size |\n\
                 | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n",
            );
        for task in tasks {
            out.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                task.file,
                task.words,
                task.lines,
                task.files,
                task.functions,
                task.fail_to_pass,
                task.pass_to_pass_files,
                task.policy,
                if task.meets_minima { "yes" } else { "small" }
            ));
        }
        out.push_str(&format!(
            "| mean | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | | |\n\nFraction of the gold \
                 patch's lines that a statement reveals, beyond signatures and documentation: \
                 {:.4}.\n",
            mean.problem_words,
            mean.gold_lines,
            mean.gold_files,
            mean.functions,
            mean.fail_to_pass,
            mean.pass_to_pass_files,
            mean.leak_score
        ));
    }
    out
}

fn render_rejects(rejects: &[Reject]) -> String {
    let mut out = String::new();
    if !rejects.is_empty() {
        out.push_str("\n| rejected | stage | because |\n| --- | --- | --- |\n");
        for reject in rejects {
            let why = reject.reason.lines().next().unwrap_or_default().replace('|', "\\|");
            out.push_str(&format!("| {} | {} | {why} |\n", reject.file, reject.stage));
        }
        out.push_str("\n`rejects.jsonl` has the full reasons.\n");
    }
    out
}

impl Complexity {
    fn from_tasks(tasks: &[TaskMetrics]) -> Self {
        let mean = |of: &dyn Fn(&TaskMetrics) -> f64| match tasks.len() {
            0 => 0.0,
            count => (tasks.iter().map(of).sum::<f64>() / count as f64 * 1e4).round() / 1e4,
        };
        Self {
            problem_words: mean(&|task| task.words as f64),
            gold_lines: mean(&|task| task.lines as f64),
            gold_files: mean(&|task| task.files as f64),
            functions: mean(&|task| task.functions as f64),
            fail_to_pass: mean(&|task| task.fail_to_pass as f64),
            pass_to_pass_files: mean(&|task| task.pass_to_pass_files as f64),
            leak_score: mean(&|task| task.leak_score),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_count_files_up_to_their_last_stage() {
        let head = |dry| ReportHeader {
            origin: "p==1".into(),
            package: "p".into(),
            version: "1".into(),
            python: "Python 3".into(),
            seed: "0".into(),
            model: None,
            test_count: 9,
            steady_test_count: 8,
            unused_items: Vec::new(),
            tops: None,
            dry_run_counts: dry,
        };
        let reject = |stage: &str| Reject {
            file: format!("{stage}.py"),
            stage: stage.into(),
            reason: "a | b".into(),
        };
        let rejects = ["tops", "pass_to_pass", "mask", "verify"].map(reject).to_vec();
        let mut report = Report::new(head(None), Vec::new(), rejects);
        let stages = &report.stages;
        assert_eq!(
            [
                stages.test_files,
                stages.with_tops,
                stages.with_other_files,
                stages.masked,
                stages.verified
            ],
            [4, 3, 2, 1, 0]
        );
        let summary = report.summary();
        assert!(summary.contains("| mask.py | mask | a \\| b |"), "{summary}");
        assert!(!summary.contains("Lite"), "{summary}");
        assert!(
            summary.contains("Attacks on grading: not tried on any remaining task"),
            "{summary}"
        );
        let task =
            |name: &str, lite| TaskMetrics { task: name.into(), lite, ..TaskMetrics::default() };
        report.add_level_two(vec![task("b", true), task("a", true), task("c", false)], Vec::new());
        assert_eq!((report.stages.lite, report.level_2.lite), (0, 2));
        let summary = report.summary();
        assert!(summary.contains("## Lite: 2 tasks, sampled") && summary.ends_with("- a\n- b\n"));
        assert!(!summary.contains("not graded `clean`"), "{summary}");
        let counts = SolvabilityCounts {
            requirements: 8,
            in_tree: 5,
            in_statement: 1,
            added: 2,
            uncovered: 0,
            unstated: 0,
            left_out: 3,
        };
        let suspect = TaskMetrics {
            task: "s".into(),
            solvability: counts,
            solvability_gaps: vec!["3 tests removed, because the statement can't state `X`".into()],
            gold_integrity: Some(Integrity::Suspect),
            gold_reasons: vec!["tests_read: tests/test_a.py, by p/a.py".into()],
            ..TaskMetrics::default()
        };
        report.add_level_two(vec![suspect, task("c", false)], Vec::new());
        let summary = report.summary();
        for part in [
            "| requirements | 0 | | 8 | |\n| stated by the remaining code | 0 | 0.0% | 5 | 62.5% |\n",
            "| added to the statement | 0 | 0.0% | 2 | 25.0% |\n",
            "| removed tests | 0 | | 3 | |\n",
            "\nThe statement of 1 task doesn't contain everything that the tests require:\n\n- s: 3 tests removed, because",
            "\nThe gold patch of 1 task is not graded `clean`:\n\n- s: suspect (tests_read: tests/test_a.py, by p/a.py)\n",
        ] {
            assert!(summary.contains(part), "{part:?} is missing in:\n{summary}");
        }
        // A dry run omits the later stages instead of showing zeros.
        let dry = Report::new(head(Some((7, 6))), Vec::new(), Vec::new()).summary();
        assert!(dry.contains("| that call the package's code | 6 |\n\nThis is a dry run"), "{dry}");
        assert!(!dry.contains("verified") && !dry.contains("Level 2"), "{dry}");
    }
}
