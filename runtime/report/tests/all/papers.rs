//! Checks numbers that the papers report against hand counts: FeatureBench's main table and error
//! counts, and FEA-Bench's Tables 3 and 4 and Figure 5.

use proctor_report::{TrialResult, build_report};
use serde_json::json;

use crate::report::{submitted_ending, trial};

#[test]
fn featurebench_main_table_and_errors_match_hand_counts() {
    let of = |task: &str, passed: f64, errors: &[(&str, u64)]| {
        let mut result = trial("codex", task, submitted_ending(), Some(passed));
        let counts = errors.iter().map(|(class, count)| ((*class).to_owned(), *count));
        result.verdict.as_mut().unwrap().exceptions.extend(counts);
        result
    };
    // The four tasks have 4, 8, 5 and 3 fail-to-pass tests. Of these, 4, 2, 4 and 0 pass.
    let report = build_report(vec![
        of("t1", 1.0, &[]),
        of("t2", 0.25, &[("NameError", 4), ("TypeError", 2)]),
        of("t3", 0.8, &[("AssertionError", 1)]),
        of("t4", 0.0, &[("NameError", 3)]),
    ]);
    let arm = &report.arms[0];
    // Resolved: the tasks whose tests all pass. Passed: the mean of 100, 25, 80 and 0%, as opposed
    // to 10 of 20 tests.
    assert_eq!((arm.resolved, arm.resolved_rate, arm.passed_rate), (1, 0.25, 0.5125));
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(
        value["arms"][0]["exceptions"],
        json!({
            "AssertionError": {"tests": 1, "trials": 1},
            "NameError": {"tests": 7, "trials": 2},
            "TypeError": {"tests": 2, "trials": 1},
        })
    );
}

/// Returns a single-response trial. `shown` contains the precision and recall of the shown files,
/// and whether all of the gold patch's files were shown.
fn single_shot_trial(
    task: usize,
    shown: (f64, f64, bool),
    resolved: bool,
    functions: u64,
) -> TrialResult {
    let passed = Some(f64::from(u8::from(resolved)));
    let mut result = trial("gpt-4o", &format!("t{task}"), submitted_ending(), passed);
    let (precision, recall, recall_all) = shown;
    let quality = json!({"precision": precision, "recall": recall, "recall_all": recall_all});
    let single = json!({"prompt_tokens": 27_000, "context": {"files": [], "quality": quality}});
    result.single_shot = serde_json::from_value(single).ok();
    assert!(result.single_shot.is_some(), "the single-response facts are valid");
    result.facts.added_functions = Some(functions);
    result
}

#[test]
fn feabench_tables_and_figure_match_hand_counts() {
    let mut trials = vec![
        // Each trial's precision is the number of correct files out of the shown files. Its recall
        // is the number of correct files out of the gold patch's files. Per trial: 1 of 2 and 1 of
        // 1; 1 of 4 and 1 of 2; 2 of 5 and 2 of 2; 1 of 1 and 1 of 1; 0 of 4.
        single_shot_trial(1, (0.5, 1.0, true), true, 1),
        single_shot_trial(2, (0.25, 0.5, false), false, 1),
        single_shot_trial(3, (0.4, 1.0, true), false, 2),
        single_shot_trial(4, (1.0, 1.0, true), true, 3),
        single_shot_trial(5, (0.0, 0.0, false), false, 7),
    ];
    // A response without an edit is not applied.
    trials[4].patch_bytes = Some(0);
    let report = build_report(trials);
    let arm = &report.arms[0];
    let single = arm.single_shot.as_ref().unwrap();
    // Table 3: the sums over the five trials are 2.15 (precision), 3.5 (recall) and 3 (all files
    // shown).
    assert_eq!(
        (single.precision, single.recall, single.recall_all),
        (Some(0.43), Some(0.7), Some(0.6))
    );
    // Table 4: 4 of 5 applied, 2 of 5 resolved.
    assert_eq!((arm.applied_rate, arm.resolved_rate), (0.8, 0.4));
    // Figure 5: one function, two, three and more.
    let figure = |count: &str| {
        let group = &arm.groups["functions_added"][count];
        (group.resolved, group.trials)
    };
    assert_eq!([figure("1"), figure("2"), figure("3+")], [(1, 2), (0, 1), (1, 2)]);
}
