//! Tests comparisons and curves of hand-made trials.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use proctor_report::{
    Comparison, Curve, CurveCost, CurvePoint, FactorDifference, FirstResolved, Gate, GateReport,
    GateResult, GroupSelection, LongTextStyle, Pair, PairDifferences, TaskFacts, TrialResult,
    build_report, compare, comparison_text, comparison_text_with_style, curve_csv, curve_html,
    curve_text, report_markdown,
};
use proctor_statistics::{mcnemar_exact_p, wilson_interval};
use proctor_types::{
    ArmId, BudgetKind, EarlierTries, Ending, FieldLoss, FieldLossKind, Integrity, Outcome,
    RequestChanges, Responder, Responders, Spending, TaskId, TestGroup, Verdict,
};

fn trial(arm: &str, task: usize, attempt: u32, resolved: Option<bool>) -> TrialResult {
    let spent = Spending { steps: 10, input_tokens: 1000, cost_usd: 0.5, ..Spending::default() };
    let outcome =
        Outcome { spent, wall_seconds: 1.0, ..Outcome::from_ending(1, Ending::Submitted) };
    TrialResult {
        arm: ArmId::new(format!("{arm}-id")),
        arm_name: arm.into(),
        is_control: false,
        task: TaskId::new(format!("t{task:03}")),
        attempt,
        outcome: Some(outcome),
        earlier_tries: EarlierTries::default(),
        grading_not_requested: false,
        grading_failure: None,
        verdict: resolved.map(|resolved| Verdict {
            schema_version: 1,
            task: TaskId::new(format!("t{task:03}")),
            resolved,
            counted: None,
            passed_rate: f64::from(u8::from(resolved)),
            rewards: Default::default(),
            fail_to_pass: TestGroup::default(),
            pass_to_pass: TestGroup::default(),
            tests: BTreeMap::new(),
            policies: BTreeMap::new(),
            integrity: Integrity::Clean,
            evidence: vec![],
            environment: None,
            noise: Default::default(),
            reason: None,
            exceptions: BTreeMap::new(),
        }),
        patch_bytes: Some(1),
        damage: vec![],
        single_shot: None,
        facts: TaskFacts { revision: Some("r1".into()), ..TaskFacts::default() },
    }
}

/// Returns two arms on 200 tasks: only a resolves 12, only b resolves 5, and the others are equal.
fn two_arms() -> Vec<TrialResult> {
    let mut trials = Vec::new();
    for task in 0..200 {
        let a = task < 12 || task >= 17 && task % 2 == 0;
        let b = (12..17).contains(&task) || task >= 17 && task % 2 == 0;
        trials.push(trial("a", task, 1, Some(a)));
        trials.push(trial("b", task, 1, Some(b)));
    }
    trials
}

fn find_pair<'a>(comparison: &'a Comparison, a: &str, b: &str, metric: &str) -> &'a Pair {
    let matching_pair =
        comparison.pairs.iter().find(|p| p.a == a && p.b == b && p.metric == metric);
    matching_pair.unwrap_or_else(|| panic!("no {a} {b} {metric}"))
}

#[test]
fn compare_of_one_attempt_uses_mcnemar() {
    let comparison = compare(&two_arms(), None);
    let pair = find_pair(&comparison, "a", "b", "resolved");
    assert_eq!((pair.a_only, pair.b_only, pair.tasks, pair.excluded), (Some(12), Some(5), 200, 0));
    assert_eq!(pair.difference, Some(7.0 / 200.0));
    assert_eq!(pair.test, "mcnemar_exact");
    assert_eq!(pair.p_value, Some(mcnemar_exact_p(12, 5)));
    let sentence = "a resolves 3.5 points more than b on 200 shared tasks, 95% interval -0.7 to 7.7, \
                    p = 0.14: not distinguishable; 575 tasks would be needed to detect a \
                    difference of this size.";
    assert_eq!(pair.sentence, sentence);
    assert!(comparison_text(&comparison).contains(sentence));
    let json = serde_json::to_value(pair).unwrap();
    for key in [
        "a",
        "a_arm",
        "b",
        "b_arm",
        "metric",
        "tasks",
        "excluded",
        "a_only",
        "b_only",
        "difference",
        "interval",
        "p_value",
        "p_adjusted",
        "test",
        "sentence",
    ] {
        assert!(!json[key].is_null(), "{key}: {json}");
    }
    let metrics: Vec<&str> = comparison.pairs.iter().map(|pair| pair.metric.as_str()).collect();
    assert_eq!(metrics, ["resolved", "passed_rate", "tokens", "cost", "steps"]);
    assert_eq!(find_pair(&comparison, "a", "b", "steps").p_value, Some(1.0));
    assert_eq!(find_pair(&comparison, "a", "b", "passed_rate").a_only, None);
}

#[test]
fn compare_of_several_attempts_uses_one_value_per_task() {
    let mut trials = two_arms();
    trials.extend(two_arms().into_iter().map(|one| TrialResult { attempt: 2, ..one }));
    let comparison = compare(&trials, None);
    let pair = find_pair(&comparison, "a", "b", "resolved");
    assert_eq!(
        (pair.test.as_str(), pair.a_only, pair.b_only),
        ("paired_bootstrap_by_task", None, None)
    );
    assert_eq!((pair.tasks, pair.difference), (200, Some(7.0 / 200.0)));
    // Repeating the same outcome adds no information.
    assert!((pair.p_value.unwrap() - mcnemar_exact_p(12, 5)).abs() < 0.02, "{pair:?}");
}

#[test]
fn compare_adjusts_within_a_metric_and_keeps_plan_order() {
    let mut trials = two_arms();
    trials.extend((0..200).map(|task| trial("c", task, 1, Some(false))));
    let comparison = compare(&trials, None);
    let pairs: Vec<_> = comparison.pairs.iter().filter(|pair| pair.metric == "resolved").collect();
    let names: Vec<_> = pairs.iter().map(|pair| (pair.a.as_str(), pair.b.as_str())).collect();
    assert_eq!(names, [("a", "b"), ("a", "c"), ("b", "c")]);
    // Holm's adjustment leaves the largest p-value unchanged.
    assert_eq!(pairs[0].p_adjusted, pairs[0].p_value);
    let smallest = pairs[1].p_value.unwrap().min(pairs[2].p_value.unwrap());
    let adjusted = pairs[1].p_adjusted.unwrap().min(pairs[2].p_adjusted.unwrap());
    assert!((adjusted - 3.0 * smallest).abs() < 1e-15);
    assert!(
        pairs[1].sentence.contains("a resolves")
            && pairs[1].sentence.ends_with(": distinguishable.")
    );
}

#[test]
fn compare_counts_and_reports_excluded_tasks() {
    let mut trials = two_arms();
    trials[0].verdict = None;
    trials[2].facts.revision = Some("r2".into());
    trials.retain(|trial| trial.task.as_str() != "t199" || trial.arm_name == "a");
    let comparison = compare(&trials, None);
    let pair = find_pair(&comparison, "a", "b", "resolved");
    assert_eq!((pair.tasks, pair.excluded), (197, 3));
    assert!(
        pair.sentence.ends_with(
            "; 3 tasks excluded: 1 without a verdict for one of the arms, 1 run by only one arm, 1 with \
             different revisions."
        ),
        "{}",
        pair.sentence
    );
    let apart = [trial("a", 1, 1, Some(true)), trial("b", 2, 1, Some(true))];
    let found = compare(&apart, None);
    let pair = find_pair(&found, "a", "b", "resolved");
    assert_eq!((pair.tasks, pair.excluded, pair.p_value), (0, 2, None));
    assert!(pair.sentence.starts_with("a and b have no shared tasks"), "{}", pair.sentence);
    // Every metric has this sentence, but it is printed once.
    assert!(found.pairs.iter().filter(|other| other.sentence == pair.sentence).count() > 1);
    let text = comparison_text(&found);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("have no shared tasks").count(), 1, "{text}");
}

#[test]
fn compare_uses_tasks_with_at_least_one_verdict_for_each_arm() {
    // Each arm makes ten attempts at each task. One attempt of each task has no verdict.
    let mut trials = Vec::new();
    for task in 0..30 {
        for attempt in 1..=10 {
            trials.push(trial("a", task, attempt, (attempt > 1).then_some(attempt <= 8)));
            trials.push(trial("b", task, attempt, Some(attempt <= 3)));
        }
    }
    // One arm has no verdict at all for the last task.
    trials.iter_mut().rev().take(20).filter(|one| one.arm_name == "b").for_each(|one| {
        one.verdict = None;
    });
    let comparison = compare(&trials, None);
    let pair = find_pair(&comparison, "a", "b", "resolved");
    assert_eq!((pair.tasks, pair.excluded, pair.excluded_by.without_verdict), (29, 1, 1));
    // `a` resolves seven of the nine attempts with a verdict.
    assert!((pair.difference.unwrap() - (7.0 / 9.0 - 0.3)).abs() < 1e-9, "{pair:?}");
    let missing = pair.missing_verdicts.unwrap();
    assert_eq!((missing.trials, missing.tasks), (40, 30));
    let [lower, upper] = missing.difference;
    assert!((lower - (29.0 * 0.4 - 0.3) / 30.0).abs() < 1e-9, "{missing:?}");
    assert!((upper - (29.0 * 0.5 + 0.8) / 30.0).abs() < 1e-9, "{missing:?}");
    assert!(missing.is_difference_certain && pair.is_clear(), "{pair:?}");
    assert_eq!(find_pair(&comparison, "a", "b", "tokens").missing_verdicts, None);
    assert_eq!(find_pair(&compare(&two_arms(), None), "a", "b", "resolved").missing_verdicts, None);
}

#[test]
fn difference_of_two_signs_is_not_clear() {
    // On the shared tasks, `a` is better. With the missing verdicts, `b` may be.
    let mut trials = arms_for_gate(60, 20, 0);
    trials.iter_mut().filter(|one| one.arm_name == "b").skip(20).for_each(|one| one.verdict = None);
    let comparison = compare(&trials, None);
    let pair = find_pair(&comparison, "a", "b", "resolved");
    assert_eq!((pair.tasks, pair.distinguishable), (20, Some(true)));
    assert_eq!(pair.missing_verdicts.map(|missing| missing.p_value), Some(1.0));
    assert!(!pair.is_clear(), "{pair:?}");
    let bounds = ": the graded trials show a difference, but it would not be clear if the 40 missing \
                  verdicts went the other way (worst-case p = 1.00); with the 40 missing verdicts, the \
                  difference on 60 tasks is from -33.3 to 33.3 points; 40 tasks excluded";
    assert!(pair.sentence.contains(bounds), "{}", pair.sentence);
    assert!(!pair.sentence.contains("distinguishable"), "{}", pair.sentence);
}

#[test]
fn compare_skips_unknown_costs() {
    let mut trials = two_arms();
    trials[7].outcome.as_mut().unwrap().spent.unpriced = true;
    let comparison = compare(&trials, None);
    assert!(comparison.pairs.iter().all(|pair| pair.metric != "cost"));
    assert!(comparison.pairs.iter().any(|pair| pair.metric == "tokens"));
}

#[test]
fn report_warns_above_five_percent_failures_at_a_limit() {
    let with = |limited: usize| {
        let mut trials: Vec<_> = (0..40).map(|task| trial("a", task, 1, Some(false))).collect();
        for trial in &mut trials[..limited] {
            let ending = Ending::Budget { budget: BudgetKind::Cost, scope: Default::default() };
            trial.outcome.as_mut().unwrap().ending = ending;
        }
        proctor_report::report_text(&build_report(trials), Default::default())
    };
    assert!(!with(2).contains("ended at a limit"), "{}", with(2));
    let warned = "a: warning: 3 of 40 failures (7.5%) ended at a limit (3 at cost)";
    assert!(with(3).contains(warned), "{}", with(3));
}

#[test]
fn intervals_are_clustered_by_task_and_wider_with_missing_verdicts() {
    let single: Vec<_> = (0..20).map(|task| trial("a", task, 1, Some(task < 8))).collect();
    let interval =
        |trials: Vec<TrialResult>| build_report(trials).arms[0].intervals.resolved_rate.unwrap();
    let rounded = |ends: [f64; 2]| ends.map(|end| (end * 1e6).round() / 1e6);
    assert_eq!(interval(single.clone()), rounded(wilson_interval(8.0, 20.0, 0.95).unwrap()));
    let mut twice = single.clone();
    twice.extend(single.iter().cloned().map(|one| TrialResult { attempt: 2, ..one }));
    assert_eq!(
        interval(twice),
        interval(single.clone()),
        "repeated outcomes do not narrow the interval"
    );
    let mut open = single;
    open[0].verdict = None;
    let lower = wilson_interval(7.0, 20.0, 0.95).unwrap()[0];
    let upper = wilson_interval(8.0, 20.0, 0.95).unwrap()[1];
    assert_eq!(interval(open), rounded([lower, upper]));
}

fn several_responders() -> Responders {
    let responder = |model: &str, provider: Option<&str>, fingerprint: Option<&str>| Responder {
        model: Some(model.into()),
        provider: provider.map(Into::into),
        fingerprint: fingerprint.map(Into::into),
    };
    let mut all = Responders::default();
    all.add(&responder("m", Some("A"), None));
    all.add(&responder("m-mini", None, Some("fp2")));
    all.add(&responder("m", Some("A"), None));
    all
}

fn factor(name: &str, a: serde_json::Value, b: serde_json::Value) -> FactorDifference {
    FactorDifference { factor: name.into(), a, b }
}

fn pair_differences(factors: Vec<FactorDifference>, a_changes: RequestChanges) -> PairDifferences {
    PairDifferences {
        a: "a".into(),
        a_arm: ArmId::new("a-id".to_owned()),
        b: "b".into(),
        b_arm: ArmId::new("b-id".to_owned()),
        factors,
        a_limits: BTreeMap::new(),
        b_limits: BTreeMap::new(),
        a_faults: 0,
        b_faults: 0,
        a_responders: several_responders(),
        b_responders: Responders::default(),
        a_changes,
        b_changes: RequestChanges::default(),
        task_revisions: vec![],
        environments: vec![],
    }
}

#[test]
fn differences_text_has_one_line_per_factor_and_full_texts_on_request() {
    let tools = serde_json::json!([{ "name": "shell", "description": "x".repeat(300) }]);
    let differences = pair_differences(
        vec![
            factor("prompts.system", "first line\nsecond line".into(), ().into()),
            factor("prompts.tools", tools, ().into()),
            factor("scaffold", "x".into(), "y".into()),
        ],
        RequestChanges::default(),
    );
    let comparison = Comparison { differences: vec![differences], ..compare(&two_arms(), None) };
    let text = comparison_text(&comparison);
    assert!(text.contains("  prompts.system: first line\\nsecond line vs none\n"), "{text}");
    let tools = text.lines().find(|line| line.starts_with("  prompts.tools: ")).unwrap();
    assert!(tools.contains(": list of 1 value, sha256 ") && tools.ends_with(" vs none"));
    let full = comparison_text_with_style(&comparison, LongTextStyle::Full);
    let system = "  prompts.system:\n    a:\n      first line\n      second line\n    b: none\n";
    assert!(full.contains(system), "{full}");
    assert!(full.contains("\"name\": \"shell\"") && full.contains("  scaffold: x vs y\n"));
}

#[test]
fn differences_count_packages_in_only_one_agent() {
    let versions = "prompts.bundle.versions";
    let mut factors: Vec<_> =
        (0..9).map(|n| factor(&format!("{versions}.p{n}"), "1".into(), ().into())).collect();
    factors.push(factor(&format!("{versions}.q"), ().into(), "2".into()));
    factors.push(factor(&format!("{versions}.both"), "3.0".into(), "3.1".into()));
    factors.push(factor("scaffold", "x".into(), "y".into()));
    let mut changes = RequestChanges::default();
    changes.add_repairs(&["merged_roles".into()]);
    let loss = FieldLoss { kind: FieldLossKind::Dropped, field: "thinking".into() };
    changes.add_losses(&[loss.clone(), loss]);
    let why = pair_differences(factors, changes);
    let text =
        comparison_text(&Comparison { differences: vec![why], ..compare(&two_arms(), None) });
    for line in [
        "  packages in only one of them: 9 vs 1\n",
        "  prompts.bundle.versions.both: 3.0 vs 3.1\n",
        "  scaffold: x vs y\n",
        "  a: requests repaired: merged_roles (1)\n",
        "  a: lost in translation: thinking (2)\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "a: 2 different models, providers or servers responded: `m` from A: 2 responses, \
                `m-mini` (fingerprint fp2): 1 response";
    assert!(words.contains(line), "{text}");
    assert!(!text.contains("versions.p0") && !text.contains("versions.q"), "{text}");
}

#[test]
fn curve_trial_without_snapshots_is_unknown() {
    let first = |name: &str, step, trees| FirstResolved {
        task: TaskId::new("t".to_owned()),
        arm: ArmId::new(name.to_owned()),
        name: name.into(),
        attempt: 1,
        step,
        trees,
        exact: true,
    };
    let first_resolved =
        vec![first("gold", None, 0), first("none", None, 4), first("some", Some(3), 4)];
    let cost = CurveCost { model_calls: 0, gradings: 0 };
    let text = curve_text(&Curve {
        schema_version: 1,
        points: vec![],
        first_resolved,
        checks: vec![],
        cost,
        notes: vec![],
    });
    for line in [
        "t / gold / 1: first resolved: unknown (no step has a snapshot)\n",
        "t / none / 1: first resolved: never\n",
        "t / some / 1: first resolved: step 3\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn curve_has_text_csv_and_html_forms() {
    let trials: Vec<_> = (0..3).map(|task| trial("=a<b>,c", task, 1, Some(task < 2))).collect();
    let all: Vec<&TrialResult> = trials.iter().collect();
    let points = vec![
        CurvePoint::from_trials(("steps", 10.0), &all[2..], 1, true).unwrap(),
        CurvePoint::from_trials(("steps", 50.0), &all, 0, false).unwrap(),
    ];
    let cost = CurveCost { model_calls: 0, gradings: 4 };
    let (first_resolved, checks, notes) = (vec![], vec![], vec![]);
    let curve = Curve { schema_version: 1, points, first_resolved, checks, cost, notes };
    let json = serde_json::to_value(&curve).unwrap();
    assert_eq!(json["points"][1]["resolved_rate"], 2.0 / 3.0, "unrounded");
    let interval = serde_json::to_value(wilson_interval(2.0, 3.0, 0.95).unwrap()).unwrap();
    assert_eq!(json["points"][1]["interval"], interval);
    assert_eq!((&json["points"][1]["at"], &json["cost"]["gradings"]), (&50.into(), &4.into()));
    let text = curve_text(&curve);
    assert!(
        text.contains("(truncated)") && text.contains("0 model calls, 4 graded patches"),
        "{text}"
    );
    let csv = curve_csv(&curve);
    assert!(csv.lines().count() == 3 && csv.contains("\"'=a<b>,c\",steps,50,3,3,2,"), "{csv}");
    let page = curve_html(&curve);
    assert!(page.contains("<svg") && page.contains("=a&lt;b&gt;,c"), "{page}");
    assert!(!page.contains("http") && !page.contains("<script"), "{page}");
}

fn as_control(trial: TrialResult) -> TrialResult {
    TrialResult { is_control: true, ..trial }
}

fn in_repository(repo: &str, trial: TrialResult) -> TrialResult {
    let facts = TaskFacts { repo: Some(repo.to_owned()), ..trial.facts.clone() };
    TrialResult { facts, ..trial }
}

#[test]
fn compare_lists_controls_separately_without_changing_p_values() {
    let alone = compare(&two_arms(), None);
    let mut trials = two_arms();
    for task in 0..200 {
        trials.push(as_control(trial("gold", task, 1, Some(true))));
        trials.push(as_control(trial("noop", task, 1, Some(false))));
    }
    let comparison = compare(&trials, None);
    assert_eq!(comparison.pairs, alone.pairs, "controls do not affect other pairs");
    let names: Vec<_> = comparison
        .controls
        .iter()
        .filter(|pair| pair.metric == "resolved")
        .map(|pair| (pair.a.as_str(), pair.b.as_str()))
        .collect();
    let expected_pairs =
        [("a", "gold"), ("a", "noop"), ("b", "gold"), ("b", "noop"), ("gold", "noop")];
    assert_eq!(names, expected_pairs);
    for pair in &comparison.controls {
        assert_eq!((pair.p_adjusted, pair.adjusted_for), (None, 0));
        assert!(!pair.sentence.contains("adjusted"), "{}", pair.sentence);
    }
    let text = comparison_text(&comparison);
    assert!(text.contains("a vs gold (control)\n") && text.contains("a vs b\n"), "{text}");
    let report = build_report(trials.clone());
    let page = report_markdown(&report, Some(&comparison), GroupSelection::default());
    assert!(page.contains("\n- control: `gold` resolves ") && page.contains("\n- `a` "), "{page}");
    // One arm with its controls.
    let one: Vec<_> = trials.into_iter().filter(|trial| trial.arm_name != "b").collect();
    let found = compare(&one, None);
    assert!(found.pairs.is_empty() && !found.controls.is_empty());
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["pairs"], serde_json::json!([]));
    assert!(json["controls"].as_array().is_some_and(|controls| controls.len() >= 3));
    let json = serde_json::to_value(compare(&two_arms(), None)).unwrap();
    assert_eq!(json["controls"], serde_json::json!([]), "present even if empty");
}

#[test]
fn rounding_error_of_thirds_is_not_a_difference() {
    // Each task has three attempts. On three tasks, `a` resolves one attempt more than `b`. On one
    // task, `b` resolves three attempts more than `a`.
    let mut trials = Vec::new();
    let resolved: [(usize, usize); 4] = [(1, 0), (2, 1), (3, 2), (0, 3)];
    for (task, (a, b)) in resolved.into_iter().enumerate() {
        for attempt in 1..=3_u32 {
            let of = |count: usize| Some((attempt as usize) <= count);
            trials.push(trial("a", task, attempt, of(a)));
            trials.push(trial("b", task, attempt, of(b)));
        }
    }
    let comparison = compare(&trials, None);
    for metric in ["resolved", "passed_rate"] {
        let pair = find_pair(&comparison, "a", "b", metric);
        assert_eq!((pair.difference, pair.p_value), (Some(0.0), Some(1.0)), "{pair:?}");
        assert_eq!(pair.tasks_needed, None);
        assert!(!pair.sentence.contains("would be needed"), "{}", pair.sentence);
    }
}

#[test]
fn interval_of_two_tasks_has_nonzero_width() {
    let mut trials = Vec::new();
    for task in 0..2 {
        trials.push(trial("a", task, 1, Some(true)));
        let mut other = trial("b", task, 1, Some(false));
        if let Some(outcome) = &mut other.outcome {
            outcome.spent.steps = 13;
        }
        trials.push(other);
    }
    let comparison = compare(&trials, None);
    for pair in &comparison.pairs {
        for [lower, upper] in [pair.interval, pair.interval_adjusted].into_iter().flatten() {
            assert!(lower < upper && lower <= 0.0 && upper >= 0.0, "{pair:?}");
        }
    }
    assert!(find_pair(&comparison, "a", "b", "steps").interval.is_some());
    let tokens = find_pair(&comparison, "a", "b", "tokens");
    assert_eq!(
        (tokens.difference, tokens.interval),
        (Some(0.0), None),
        "two tasks are too few for an interval"
    );
}

#[test]
fn compare_distinguishes_one_of_33_arms_on_16_tasks() {
    let mut trials = Vec::new();
    for task in 0..16 {
        for arm in 0..32 {
            trials.push(trial(&format!("win-{arm}"), task, 1, Some(true)));
        }
        trials.push(trial("lose", task, 1, Some(false)));
    }
    let comparison = compare(&trials, None);
    for metric in ["resolved", "passed_rate"] {
        let pair = find_pair(&comparison, "win-7", "lose", metric);
        assert_eq!((pair.adjusted_for, pair.distinguishable), (528, Some(true)), "{pair:?}");
        assert!(pair.interval_adjusted.unwrap()[0] > 0.0, "{pair:?}");
        assert!(pair.sentence.ends_with("both adjusted for 528 pairs: distinguishable."));
        assert_eq!(find_pair(&comparison, "win-0", "win-1", metric).distinguishable, Some(false));
    }
}

/// Asserts that the conclusion of a sentence follows from its numbers.
fn assert_sentence_agrees(pair: &Pair) {
    let sentence = &pair.sentence;
    let after = |mark: &str| sentence.split_once(mark).map(|(_, rest)| rest);
    let Some(rest) = after("95% interval ") else { return };
    let mut words = rest.split([' ', ',']);
    let lower: f64 = words.next().unwrap().parse().unwrap();
    let upper: f64 = words.nth(1).unwrap().parse().unwrap();
    let distinguishable = !sentence.contains("not distinguishable");
    assert_eq!(lower > 0.0 || upper < 0.0, distinguishable, "{sentence}");
    let p = after("p = ").or_else(|| after("p < ")).unwrap();
    let p: f64 = p.split([',', ':']).next().unwrap().parse().unwrap();
    assert_eq!(p < 0.05, distinguishable, "{sentence}");
    assert_eq!(pair.adjusted_for > 1, sentence.contains("adjusted for"), "{sentence}");
}

#[test]
fn sentences_agree_with_interval_and_p_value() {
    // There are four arms. `b` is better than `a` by an increasing margin, and `c` and `d` are in
    // between.
    for better in 0..24 {
        for attempts in [1, 2] {
            let mut trials = Vec::new();
            for task in 0..60 {
                for attempt in 1..=attempts {
                    let chance = (task * 7 + attempt as usize * 3).is_multiple_of(5);
                    for (arm, most) in
                        [("a", 0), ("b", better), ("c", better / 2), ("d", better / 3)]
                    {
                        trials.push(trial(arm, task, attempt, Some(chance || task < most)));
                    }
                }
            }
            let comparison = compare(&trials, None);
            assert!(comparison.pairs.iter().any(|pair| pair.adjusted_for == 6));
            comparison.pairs.iter().for_each(assert_sentence_agrees);
            trials.retain(|trial| ["a", "b"].contains(&trial.arm_name.as_str()));
            compare(&trials, None).pairs.iter().for_each(assert_sentence_agrees);
        }
    }
}

#[test]
fn compare_mentions_repositories_if_they_change_the_conclusion() {
    // 40 tasks from four repositories. In only one repository, `a` resolves all ten tasks and `b`
    // resolves none.
    let arms = |spread: bool| {
        let mut trials = Vec::new();
        for task in 0..40 {
            let repo = format!("repo-{}", if spread { task } else { task / 10 });
            let more = task < 10;
            trials.push(in_repository(&repo, trial("a", task, 1, Some(more || task % 2 == 0))));
            trials.push(in_repository(&repo, trial("b", task, 1, Some(!more && task % 2 == 0))));
        }
        compare(&trials, None)
    };
    let found = arms(false);
    let pair = find_pair(&found, "a", "b", "resolved");
    let by = pair.by_repository.unwrap();
    assert!(pair.p_value.unwrap() < 0.01 && by.p_value > 0.05 && by.changes_conclusion, "{pair:?}");
    assert!(
        pair.sentence
            .contains("distinguishable; when whole 4 repositories are resampled, p = 1.00"),
        "{}",
        pair.sentence
    );
    let found = arms(true);
    let pair = find_pair(&found, "a", "b", "resolved");
    assert!(!pair.by_repository.unwrap().changes_conclusion, "{pair:?}");
    assert!(pair.sentence.ends_with(": distinguishable."), "{}", pair.sentence);
}

/// Returns two arms on this many tasks: `a` resolves the first `a` tasks, and `b` the first `b`
/// tasks.
fn arms_for_gate(tasks: usize, a: usize, b: usize) -> Vec<TrialResult> {
    (0..tasks)
        .flat_map(|task| [trial("a", task, 1, Some(task < a)), trial("b", task, 1, Some(task < b))])
        .collect()
}

fn evaluate_gate(text: &str, trials: &[TrialResult]) -> GateReport {
    let gate = Gate::parse(text, &["a", "b"]).unwrap();
    gate.evaluate(&compare(trials, None), trials)
}

#[test]
fn gate_result_follows_the_interval() {
    // Equal on 200 tasks: the interval is from -1.4 to 1.4 points.
    let alike = arms_for_gate(200, 100, 100);
    assert_eq!(evaluate_gate("a >= b - 2", &alike).result, GateResult::Passed);
    assert_eq!(evaluate_gate("b >= a - 2", &alike).result, GateResult::Passed);
    assert_eq!(evaluate_gate("a >= b - 1", &alike).result, GateResult::Undecided);
    // 30 points worse.
    let worse = arms_for_gate(100, 30, 60);
    let gate_report = evaluate_gate("a >= b - 5", &worse);
    assert_eq!(gate_report.result, GateResult::Failed, "{gate_report:?}");
    assert!(gate_report.sentence.starts_with("gate a >= b - 5: failed: difference -30.0 points"));
    // If the arms are swapped, the same numbers have the opposite sign.
    let turned = evaluate_gate("b >= a - 5", &worse);
    assert_eq!(turned.result, GateResult::Passed);
    assert_eq!(turned.difference, gate_report.difference.map(|value| -value));
    assert_eq!(turned.interval, gate_report.interval.map(|[lower, upper]| [-upper, -lower]));
    // The gate passes if the interval starts exactly at the limit.
    let lower = evaluate_gate("a >= b - 0", &worse).interval.unwrap()[0];
    let text = format!("a >= b - {}", -lower * 100.0);
    assert_eq!(evaluate_gate(&text, &worse).result, GateResult::Passed, "{text}");
    // A control can be the reference, and other pairs have no effect.
    let mut three = worse.clone();
    three.extend((0..100).map(|task| trial("c", task, 1, Some(false))));
    assert_eq!(evaluate_gate("a >= b - 5", &three), gate_report);
    let controls: Vec<_> = worse.iter().cloned().map(as_control).collect();
    assert_eq!(evaluate_gate("a >= b - 5", &controls), gate_report);
}

#[test]
fn gate_on_incomplete_arm_is_incomplete() {
    let mut trials = arms_for_gate(100, 30, 60);
    trials[0].verdict = None;
    let found = evaluate_gate("a >= b - 5", &trials);
    assert_eq!(found.result, GateResult::Incomplete);
    assert!(found.sentence.contains("no verdict for 1 of 100 trials in a;"), "{}", found.sentence);
    let apart = [trial("a", 1, 1, Some(true)), trial("b", 2, 1, Some(true))];
    let found = evaluate_gate("a >= b - 50", &apart);
    assert_eq!((found.result, found.difference), (GateResult::Undecided, None));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["result"], "undecided");
}
