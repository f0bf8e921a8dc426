//! Tests reports on hand-made trials.

#![expect(clippy::expect_used, reason = "a failed expect fails the test")]

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proctor_record::GradingFailure;
use proctor_report::{
    FindingRank, GroupSelection, Report, TaskFacts, TextOptions, TrialResult, build_report,
    findings, group_tables,
};
use proctor_types::{
    ArmId, BudgetKind, BudgetScope, EarlierTries, Ending, Evidence, Fault, FaultLayer, Integrity,
    Outcome, Responder, Spending, TaskId, TestGroup, TokenClasses, Verdict,
};
use serde_json::{Value, json};

pub(crate) fn trial(
    arm: &str,
    task: &str,
    ending: Option<Ending>,
    passed: Option<f64>,
) -> TrialResult {
    let steps = if arm == "gold" { 0 } else { 10 };
    TrialResult {
        arm: ArmId::new(format!("{arm}-id")),
        arm_name: arm.into(),
        is_control: false,
        task: TaskId::new(task),
        attempt: 1,
        outcome: ending.map(|ending| Outcome {
            schema_version: 1,
            ending,
            try_number: 1,
            spent: Spending {
                steps,
                input_tokens: steps * 1000,
                output_tokens: steps * 10,
                cached_tokens: steps * 100,
                classes: TokenClasses {
                    fresh_input: Some(steps * 900),
                    cache_read: Some(steps * 100),
                    output_visible: Some(steps * 10),
                    ..TokenClasses::default()
                },
                cost_usd: steps as f64 * 0.1,
                side_requests: steps / 5,
                side_input_tokens: steps * 20,
                side_output_tokens: steps,
                grace_answers: steps / 10,
                grace_input_tokens: steps * 3,
                grace_output_tokens: steps * 2,
                grace_cost_usd: steps as f64 * 0.01,
                ..Spending::default()
            },
            tool_calls: Some(15),
            malformed_calls: 1,
            wall_seconds: 2.5,
            waited_seconds: if steps > 0 { 1.5 } else { 0.0 },
            tool_seconds: 0.5,
            left_out: vec![],
            not_enforced: vec![],
            noise: None,
            responders: Default::default(),
            changes: Default::default(),
            interruptions: Default::default(),
        }),
        earlier_tries: EarlierTries::default(),
        grading_not_requested: false,
        grading_failure: None,
        verdict: passed.map(|rate| Verdict {
            schema_version: 1,
            task: TaskId::new(task),
            resolved: rate == 1.0,
            counted: None,
            passed_rate: rate,
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
        patch_bytes: Some(if passed.is_some() && arm != "noop" { 100 } else { 0 }),
        damage: vec![],
        single_shot: None,
        facts: TaskFacts::default(),
    }
}

fn render_text(report: &Report) -> String {
    proctor_report::report_text(report, TextOptions::default())
}

fn step_limit_ending() -> Option<Ending> {
    Some(Ending::Budget { budget: BudgetKind::Steps, scope: Default::default() })
}

fn fault_ending() -> Option<Ending> {
    let fault = Fault::new(FaultLayer::Model, "503 from the endpoint").hint("is it up?");
    Some(Ending::InfrastructureFault { fault })
}

pub(crate) fn submitted_ending() -> Option<Ending> {
    Some(Ending::Submitted)
}

fn three_arms() -> Report {
    build_report(vec![
        trial("gold", "t1", submitted_ending(), Some(1.0)),
        trial("noop", "t1", submitted_ending(), Some(0.0)),
        trial("tools", "t1", submitted_ending(), Some(1.0)),
        trial("gold", "t2", submitted_ending(), Some(1.0)),
        trial("noop", "t2", submitted_ending(), Some(0.0)),
        trial("tools", "t2", step_limit_ending(), Some(0.25)),
        trial("gold", "t3", submitted_ending(), Some(1.0)),
        trial("noop", "t3", submitted_ending(), Some(0.0)),
        trial("tools", "t3", fault_ending(), None),
    ])
}

/// JSON contains every line that the other formats print below the tables.
#[test]
fn report_json_contains_all_findings() {
    let mut report = three_arms();
    report.remarks.push("A remark.".to_owned());
    let printed = findings(&report);
    assert!(printed.len() > 3, "{printed:?}");
    let report = report.with_findings();
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let texts: Vec<&str> = report.findings.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts.join("\n"), printed.join("\n"));
    let warning = report.findings.iter().find(|one| one.text.contains("warning: "));
    assert_eq!(warning.map(|one| one.rank), Some(FindingRank::Doubtful), "{texts:?}");
    assert_eq!(json["findings"][texts.len() - 1]["text"], "A remark.");
    assert_eq!(json["findings"][0]["rank"], "missing");
}

#[test]
fn report_json_has_the_documented_fields() {
    let report = serde_json::to_value(three_arms()).unwrap();
    assert_eq!(report["schema_version"], 1);
    assert_eq!(
        report["arms"][2],
        json!({
            "arm": "tools-id", "name": "tools", "trials": 3, "graded": 2, "complete": false,
            "resolved": 1, "resolved_rate": 0.3333,
            "resolved_bounds": {"lower": 0.3333, "upper": 0.6667},
            "resolved_clean": 1, "resolved_rate_clean": 0.3333,
            "passed_rate": 0.4167, "passed_bounds": {"lower": 0.4167, "upper": 0.75},
            "applied": 2, "applied_rate": 0.6667, "empty_patches": 1,
            "infrastructure_faults": 1, "unfinished": 0,
            "steps": {"mean": 10.0, "max": 10},
            "tokens": {
                "input": {"total": 30000, "mean": 10000.0},
                "output": {"total": 300, "mean": 100.0},
                "cached": {"total": 3000, "mean": 1000.0},
                "uncached_input": {"total": 27000, "mean": 9000.0},
                "classes": {
                    "fresh_input": 27000, "cache_read": 3000, "cache_write": null,
                    "output_visible": 300, "reasoning": null,
                },
            },
            "usage_estimated": false, "cost_usd": 3.0, "cost_known": true,
            "paid": {"input": 30090, "output": 360, "cost_usd": 3.3, "cost_known": true},
            "per_resolved": {
                "cost_usd": {"value": 3.3, "lower": 0.523589, "upper": null},
                "tokens": {"value": 30450.0, "lower": 4831.299, "upper": null},
            },
            "earlier_tries": {"tries": 0, "steps": 0, "input": 0, "output": 0, "cost_usd": 0.0},
            "wall_seconds": {"total": 7.5, "mean": 2.5, "max": 2.5},
            "waited_seconds": {"total": 4.5, "mean": 1.5, "max": 1.5},
            "tool_seconds": {"total": 1.5, "mean": 0.5, "max": 0.5},
            "side": {"requests": 6, "input": 600, "output": 30},
            "grace": {"answers": 3, "input": 90, "output": 60, "cost_usd": 0.3},
            "tool_calls": {"total": 45, "mean": 15.0, "max": 15},
            "per_step": {"input": 1000.0, "output": 10.0, "tool_calls": 1.5},
            "malformed_calls": 3, "outgrown": 0,
            "integrity": {"clean": 2, "unverified": 0, "suspect": 0, "contaminated": 0},
            "outcomes": {"submitted": 1, "budget_steps": 1, "infrastructure_fault_model": 1},
            "intervals": {"resolved_rate": [0.061492, 0.938508], "passed_rate": [0.091081, 0.963159]},
            "limit_bound": {"steps": 0.3333},
            "reasons": {"out_of_budget": 1, "infrastructure": 1},
        })
    );
    assert_eq!(
        report["tasks"][8],
        json!({
            "task": "t3", "arm": "tools-id", "attempt": 1,
            "outcome": "infrastructure_fault_model", "resolved": null, "passed_rate": null,
            "integrity": null, "steps": 10, "cost_usd": 1.0, "paid_usd": 1.1,
            "wall_seconds": 2.5, "waited_seconds": 1.5,
            "fault": "model fault: 503 from the endpoint (is it up?)",
            "score_valid": false, "reason": "infrastructure", "limit": null,
            "spent": {
                "steps": 10, "input_tokens": 10000, "output_tokens": 100, "cached_tokens": 1000,
                "cost_usd": 1.0,
                "classes": {
                    "fresh_input": 9000, "cache_read": 1000, "cache_write": null,
                    "output_visible": 100, "reasoning": null,
                },
                "estimated": false, "side_requests": 2, "side_input_tokens": 200,
                "side_output_tokens": 10, "grace_answers": 1, "grace_input_tokens": 30,
                "grace_output_tokens": 20, "grace_cost_usd": 0.1, "outgrown": false,
                "unpriced": false,
            },
            "tool_calls": 15, "malformed_calls": 1, "tool_seconds": 0.5, "patch_bytes": 0,
        })
    );
    let resolved = &report["tasks"][2];
    assert_eq!(
        (&resolved["score_valid"], &resolved["reason"], &resolved["limit"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    let limited = &report["tasks"][5];
    assert_eq!(
        (&limited["score_valid"], &limited["reason"], &limited["limit"]),
        (&json!(true), &json!("out_of_budget"), &json!("steps"))
    );
    assert_eq!(report["tasks"][1]["reason"], "never_edited", "an empty patch");
    assert_eq!(report["tasks"][5]["resolved"], json!(false));
    assert_eq!(report["arms"][0]["complete"], json!(true));
    let back: Report = serde_json::from_value(report).unwrap();
    assert_eq!(back, three_arms());
    assert!(!back.is_complete());
}

#[test]
fn unfinished_trial_counts_in_rates_but_not_in_means() {
    let report = build_report(vec![
        trial("tools", "t1", submitted_ending(), Some(1.0)),
        trial("tools", "t2", None, None),
    ]);
    let arm = &report.arms[0];
    assert_eq!((arm.trials, arm.graded, arm.unfinished), (2, 1, 1));
    assert_eq!((arm.resolved_rate, arm.resolved_bounds.upper), (0.5, 1.0));
    assert_eq!(arm.steps.mean, 10.0);
    assert_eq!(serde_json::to_value(&report.tasks[1]).unwrap()["outcome"], Value::Null);
    let text = render_text(&report);
    assert!(text.contains("50.0% - 100%") && text.contains("not ended"), "{text}");
    assert!(text.starts_with("incomplete: 1 of 2 trials have a verdict\n"), "{text}");
}

/// Each trial's fault remains in the JSON.
#[test]
fn report_prints_a_repeated_fault_once() {
    let faulted = ["t1", "t2", "t3"].map(|task| trial("tools", task, fault_ending(), None));
    let report = build_report(Vec::from(faulted));
    let text = render_text(&report);
    assert_eq!(text.matches("503 from the endpoint").count(), 1, "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("tools / t1 / 1, tools / t2 / 1, tools / t3 / 1 (3 times):"), "{text}");
    assert!(report.tasks.iter().all(|trial| trial.fault.is_some()));
}

#[test]
fn report_lists_why_gradings_failed() {
    let mut trials = ["t1", "t2"].map(|task| trial("tools", task, submitted_ending(), None));
    let failures = [("`reward.txt` contains \"nan\"", Some("failed-1.txt")), ("it hangs", None)];
    for (trial, (what, log_file)) in trials.iter_mut().zip(failures) {
        let fault = Fault::new(FaultLayer::Grade, what).hint("fix the verifier");
        let log_file = log_file.map(str::to_owned);
        trial.grading_failure = Some(GradingFailure { fault, log_file });
    }
    let report = build_report(Vec::from(trials));
    let reason = report.tasks[0].grading_fault.as_deref();
    assert_eq!(
        reason,
        Some("grade fault: `reward.txt` contains \"nan\" (fix the verifier)"),
        "the JSON has the reason"
    );
    let text = render_text(&report);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Grading faults (scores count these trials as not resolved):"), "{text}");
    for (trial, what) in [("t1", "contains \"nan\" (fix the verifier)"), ("t2", "it hangs")] {
        assert!(flat.contains(&format!("tools / {trial} / 1: grade fault")), "{text}");
        assert!(flat.contains(what), "{text}");
    }
}

#[test]
fn report_text_matches_the_golden_file() {
    assert_eq!(render_text(&three_arms()), include_str!("../table.txt"));
}

#[test]
fn report_groups_attempts_of_a_task() {
    let mut trials = vec![
        trial("tools", "t1", submitted_ending(), Some(1.0)),
        trial("tools", "t1", submitted_ending(), Some(0.5)),
        trial("tools", "t1", None, None),
    ];
    for (index, trial) in trials.iter_mut().enumerate() {
        trial.attempt = index as u32 + 1;
    }
    assert!(render_text(&build_report(trials)).contains("1/3, 1 open"));
}

/// If the verdicts of the official and the strict policy differ, the text and the JSON give both
/// reasons.
#[test]
fn report_lists_differing_policies_with_reasons() {
    let policy = |resolved, why: &str| proctor_types::PolicyVerdict {
        name: None,
        version: None,
        resolved,
        why: why.to_owned(),
    };
    let with = |strict| {
        let mut result = trial("tools", "t1", submitted_ending(), Some(1.0));
        result.verdict.as_mut().unwrap().policies = BTreeMap::from([
            ("official".to_owned(), policy(true, "3 of 3 passed")),
            ("strict".to_owned(), policy(strict, "1 of 3 passed")),
        ]);
        build_report(vec![result])
    };
    let differing = with(false);
    assert_eq!(differing.tasks[0].policies_differ["strict"], "not resolved, 1 of 3 passed");
    let report_text = render_text(&differing);
    assert!(
        report_text.contains("the policies differ. official: resolved, 3 of 3 passed"),
        "{report_text}"
    );
    assert!(with(true).tasks[0].policies_differ.is_empty());
    assert!(!render_text(&with(true)).contains("the policies differ"));
}

#[test]
fn report_names_suspect_and_contaminated_verdicts() {
    let mut result = trial("tools", "t1", submitted_ending(), Some(1.0));
    let verdict = result.verdict.as_mut().unwrap();
    verdict.integrity = Integrity::Suspect;
    let seen = ["upstream_tried", "install_tried", "timed_out"];
    verdict.evidence.extend(seen.map(|kind| Evidence::new(kind, "", vec![])));
    result.outcome.as_mut().unwrap().spent.estimated = true;
    let report = build_report(vec![result, trial("tools", "t2", submitted_ending(), Some(1.0))]);
    assert!(report.arms[0].usage_estimated);
    assert_eq!(report.arms[0].integrity.suspect, 1);
    let arm = &report.arms[0];
    assert_eq!((arm.resolved, arm.resolved_clean), (2, 1), "with and without the doubtful verdict");
    assert_eq!((arm.resolved_rate, arm.resolved_rate_clean), (1.0, 0.5));
    let text = render_text(&report);
    assert!(text.contains("tools / t1 / 1: the verdict is suspect (answer upstream)"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["tasks"][0]["evidence_classes"], serde_json::json!(["answer_upstream"]));
    assert_eq!(json["arms"][0]["evidence_classes"], serde_json::json!({"answer_upstream": 1}));
    assert!(
        text.contains("tools: 2/2 resolved, 1/2 (50.0%) counting only clean verdicts."),
        "{text}"
    );
    assert!(!self::render_text(&three_arms()).contains("counting only clean verdicts"));
    assert!(text.contains("~10.0k") && text.contains("are estimates"), "{text}");
    assert_eq!(self::render_text(&build_report(vec![])), "No trials.\n");
}

/// If there is no evidence against a verdict, but no check could test it either, the verdict is
/// unverified instead of clean. One line shows how many verdicts are unverified.
#[test]
fn report_counts_unverified_verdicts_separately() {
    let unverified = |task: &str, kinds: &[&str]| {
        let mut trial = trial("tools", task, submitted_ending(), Some(1.0));
        let verdict = trial.verdict.as_mut().unwrap();
        verdict.integrity = Integrity::Unverified;
        verdict.evidence = kinds.iter().map(|kind| Evidence::new(*kind, "", vec![])).collect();
        trial
    };
    let no_canary = |task: &str| unverified(task, &["no_canary", "test_restored"]);
    let clean = trial("tools", "t3", submitted_ending(), Some(1.0));
    let report = build_report(vec![no_canary("t1"), no_canary("t2"), clean]);
    let arm = &report.arms[0];
    assert_eq!((arm.resolved, arm.resolved_clean), (3, 1));
    assert_eq!((arm.integrity.clean, arm.integrity.unverified, arm.integrity.suspect), (1, 2, 0));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["tasks"][0]["integrity"], "unverified");
    let text = render_text(&report);
    for line in [
        "tools: 3/3 resolved, 1/3 (33.3%) counting only clean verdicts.\n",
        "tools: 2 verdicts are unverified: no canary test was judged.\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("verdict.json"), "one line for all of them: {text}");

    let skipped = unverified("t4", &["patch_incomplete"]);
    let text = self::render_text(&build_report(vec![no_canary("t1"), no_canary("t2"), skipped]));
    let reasons = "no canary test was judged (2), a part of the patch was skipped or repaired (1).";
    assert!(text.contains(&format!("tools: 3 verdicts are unverified: {reasons}\n")), "{text}");
}

#[test]
fn report_notes_several_responders() {
    let responder = |model: &str, provider: Option<&str>| Responder {
        model: Some(model.into()),
        provider: provider.map(Into::into),
        fingerprint: None,
    };
    let answered = |task: &str, by: &[Responder]| {
        let mut result = trial("tools", task, submitted_ending(), Some(1.0));
        let outcome = result.outcome.as_mut().unwrap();
        by.iter().for_each(|responder| outcome.responders.add(responder));
        result
    };
    let (own, other) = (responder("m", Some("A")), responder("m-mini", Some("B")));
    let report = build_report(vec![
        answered("t0", std::slice::from_ref(&own)),
        answered("t1", std::slice::from_ref(&own)),
    ]);
    assert!(!render_text(&report).contains("mixture"), "a single responder is not a mixture");
    let report = build_report(vec![answered("t0", &[own.clone(), own]), answered("t1", &[other])]);
    let line = "tools: 2 different models, providers or servers responded: `m` from A: 2 \
                responses, `m-mini` from B: 1 response.";
    let report_text = render_text(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report_text.contains(line), "{report_text}");
    assert_eq!(
        serde_json::to_value(&report.arms[0]).unwrap()["responders"],
        json!([
            {"model": "m", "provider": "A", "responses": 2},
            {"model": "m-mini", "provider": "B", "responses": 1},
        ])
    );
}

/// Returns a field of the first trial's row. Only works if no field contains a comma.
fn first_csv_field(report: &Report, column: &str) -> String {
    let sheet = proctor_report::trials_csv(report);
    let mut lines = sheet.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, first) = (lines.next().expect("a head"), lines.next().expect("a row"));
    assert_eq!(head.len(), first.len(), "{sheet}");
    first[head.iter().position(|name| *name == column).expect("a column")].to_owned()
}

/// An earlier version of the CSV had these columns first, in this order.
#[test]
fn csv_keeps_its_first_columns_and_appends_new_ones() {
    let mut result = trial("tools", "t1", submitted_ending(), Some(1.0));
    result.verdict.as_mut().unwrap().fail_to_pass =
        TestGroup { passed: vec!["a".into()], failed: vec!["b".into()] };
    let report = build_report(vec![result]);
    let sheet = proctor_report::trials_csv(&report);
    let first = "task,arm,arm_name,attempt,outcome,resolved,passed_rate,score_valid,reason,limit,integrity,\
                 steps,cost_usd,paid_usd,wall_seconds,waited_seconds,fault,";
    assert!(sheet.starts_with(first), "{sheet}");
    for (column, value) in [
        ("resolved", "true"),
        ("steps", "10"),
        ("cost_usd", "1"),
        ("fresh_input_tokens", "9000"),
        ("cache_write_tokens", ""),
        ("tool_calls", "15"),
        ("fail_to_pass", "2"),
        ("fail_to_pass_passed", "1"),
        ("integrity", "clean"),
        ("limit_steps", ""),
    ] {
        assert_eq!(first_csv_field(&report, column), value, "{column}");
    }
}

#[test]
fn report_marks_interrupted_trials_in_every_format() {
    let mut plain = vec![trial("tools", "t0", submitted_ending(), Some(1.0))];
    let report = build_report(plain.clone());
    assert!(!render_text(&report).contains("interrupted"));
    assert_eq!(first_csv_field(&report, "interruptions"), "");
    assert_eq!(serde_json::to_value(&report.tasks[0]).unwrap().get("interruptions"), None);

    let interruptions = &mut plain[0].outcome.as_mut().unwrap().interruptions;
    interruptions.started_again = Some("a server ran, and a pipe".into());
    interruptions.resumed_after = vec![2, 5];
    let report = build_report(plain);
    let words = "started over (a server ran, and a pipe), then resumed after step 2, 5";
    let report_text = render_text(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        report_text.contains(&format!("tools / t0 / 1: interrupted: {words}.")),
        "{report_text}"
    );
    let sheet = proctor_report::trials_csv(&report);
    assert!(sheet.contains(&format!(",\"{words}\"")), "{sheet}");
    assert_eq!(
        serde_json::to_value(&report.tasks[0]).unwrap()["interruptions"],
        json!({"resumed_after": [2, 5], "started_again": "a server ran, and a pipe"})
    );
}

#[test]
fn cost_without_price_is_unknown() {
    let mut result = trial("tools", "t0", submitted_ending(), Some(1.0));
    let spent = &mut result.outcome.as_mut().unwrap().spent;
    (spent.unpriced, spent.cost_usd, spent.grace_cost_usd) = (true, 0.0, 0.0);
    result.earlier_tries = EarlierTries {
        tries: 1,
        spent: Spending { input_tokens: 5, unpriced: true, ..Spending::default() },
    };
    let report = build_report(vec![result]);
    assert!(!report.arms[0].cost_known && !report.arms[0].paid.cost_known);
    assert_eq!((report.tasks[0].cost_usd, report.tasks[0].paid_usd), (None, None));
    let report_text = render_text(&report);
    assert!(report_text.contains("unknown") && !report_text.contains("$0.0000"), "{report_text}");
    let sheet = proctor_report::report_markdown(&report, None, GroupSelection::default());
    assert!(sheet.contains("unknown") && !sheet.contains("$0.0000"), "{sheet}");
}

#[test]
fn percent_never_rounds_to_0_or_100() {
    let trials = (0..3000).map(|at| {
        let rate = if at == 0 { 0.0 } else { 1.0 };
        trial("tools", &format!("t{at}"), submitted_ending(), Some(rate))
    });
    let text = render_text(&build_report(trials.collect()));
    assert!(text.contains("2999/3000") && text.contains("99.9%"));
}

fn trial_of_level(level: u32, attempt: u32, passed: f64) -> TrialResult {
    let mut result = trial("tools", &format!("t{level}"), submitted_ending(), Some(passed));
    result.attempt = attempt;
    result.facts = TaskFacts {
        level: Some(level),
        repo: Some("r".into()),
        categories: vec![],
        added_functions: Some(u64::from(level) * 4),
        ..TaskFacts::default()
    };
    result
}

#[test]
fn groups_separate_levels_sizes_and_attempts() {
    let mut trials = vec![
        trial_of_level(1, 1, 1.0),
        trial_of_level(1, 2, 0.5),
        trial_of_level(2, 1, 0.0),
        trial_of_level(2, 2, 0.0),
    ];
    trials[3].patch_bytes = Some(0);
    let report = build_report(trials.clone());
    let arm = &report.arms[0];
    let kinds: Vec<&str> = arm.groups.keys().map(String::as_str).collect();
    assert_eq!(
        kinds,
        ["attempt", "functions_added", "level"],
        "a single repo does not form groups"
    );
    let level = &arm.groups["level"]["1"];
    assert_eq!((level.trials, level.resolved, level.passed_rate), (2, 1, 0.75));
    assert_eq!(arm.groups["level"]["2"].applied_rate, 0.5, "an empty patch is not applied");
    assert_eq!(arm.groups["functions_added"]["5+"].trials, 2);
    // One of two tasks is resolved in one of two attempts, so pass@1 is (1/2 + 0) / 2 and pass@2 is
    // (1 + 0) / 2.
    assert_eq!(arm.pass_at_k, BTreeMap::from([(1, 0.25), (2, 0.5)]));
    assert!(!render_text(&report).contains("F2P 75.0%"), "groups of one task each are not shown");
    let shown = proctor_report::report_text(
        &report,
        TextOptions { show_groups: true, ..TextOptions::default() },
    );
    assert!(shown.contains("pass@2") && shown.contains("1/2 50.0% (F2P 75.0%)"), "{shown}");
    let sheet = proctor_report::groups_csv(&report);
    let id = &report.arms[0].arm;
    assert_eq!(arm.groups["functions_added"]["3+"].tasks, 2, "tasks with 4 and with 8 functions");
    assert_eq!(sheet.lines().count(), 1 + 2 + 3 + 2, "{sheet}");
    assert!(sheet.contains(&format!("\n{id},tools,level,1,1,2,2,1,0.5,0.75,1\n")), "{sheet}");
    assert!(sheet.contains(&format!("\n{id},tools,functions_added,5+,1,2,")), "{sheet}");
    let page = proctor_report::report_markdown(&report, None, GroupSelection::All);
    let table = "\n#### By level\n\n| level | `tools` |\n| --- | ---: |\n| `1` | 1/2 50.0% |\n";
    assert!(page.contains(table), "{page}");
    assert!(
        !proctor_report::report_markdown(&report, None, GroupSelection::Informative)
            .contains("By level")
    );

    trials[0].verdict = None;
    assert!(
        build_report(trials).arms[0].pass_at_k.is_empty(),
        "no estimate while a verdict is missing"
    );
}

#[test]
fn rejected_patch_counts_as_not_applied() {
    let mut result = trial("tools", "t1", submitted_ending(), Some(0.0));
    let verdict = result.verdict.as_mut().unwrap();
    let rejected = Evidence::new(proctor_types::PATCH_REJECTED_KIND, "hunk 1", vec![]);
    verdict.evidence.push(rejected);
    assert_eq!(build_report(vec![result]).arms[0].applied, 0);
}

#[test]
fn report_shows_side_requests_and_grace_separately() {
    let text = render_text(&three_arms());
    for line in [
        "tools: 6 side requests, 600 tokens in, 30 out; not counted as steps.",
        "tools: 3 responses after the limit, counted separately: 90 tokens in, 60 out, $0.3000.",
        "waited 4 s for the endpoint (not working time).",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("gold: 0"), "{text}");
}

#[test]
fn shared_limits_do_not_count_against_an_arm() {
    let shared = Ending::Budget { budget: BudgetKind::Cost, scope: BudgetScope::Run };
    let report = build_report(vec![
        trial("tools", "t1", Some(Ending::Submitted), Some(1.0)),
        trial("tools", "t2", Some(shared), None),
    ]);
    let arm = &report.arms[0];
    assert_eq!(arm.outcomes["budget_run_cost"], 1);
    assert!(!arm.complete);
    assert_eq!((arm.infrastructure_faults, arm.resolved_bounds.upper), (0, 1.0));
}

/// Tries that a kill or a fault ended were billed. Only the billed totals include them.
#[test]
fn earlier_tries_count_only_in_the_billed_usage() {
    let mut result = trial("tools", "t1", submitted_ending(), Some(1.0));
    let spent = Spending {
        steps: 4,
        input_tokens: 400,
        output_tokens: 40,
        cost_usd: 0.25,
        ..Spending::default()
    };
    result.earlier_tries = EarlierTries { tries: 2, spent };
    let plain = build_report(vec![trial("tools", "t1", submitted_ending(), Some(1.0))]);
    let report = build_report(vec![result]);
    let (arm, without) = (&report.arms[0], &plain.arms[0]);
    assert_eq!((arm.tokens, arm.steps, arm.cost_usd), (without.tokens, without.steps, 1.0));
    assert_eq!((arm.paid.input, arm.paid.output), (10_030 + 400, 120 + 40));
    assert_eq!((arm.paid.cost_usd, without.paid.cost_usd), (1.35, 1.1), "0.1 after the limit");
    assert_eq!((arm.earlier_tries.tries, arm.earlier_tries.steps), (2, 4));
    assert_eq!((report.tasks[0].cost_usd, report.tasks[0].paid_usd), (Some(1.0), Some(1.35)));
    assert_eq!(report.tasks[0].earlier_tries.cost_usd, 0.25);
    let report_text = render_text(&report);
    for part in [
        "$1.3500",
        "tools: 2 discarded tries: $0.2500 (400 tokens in, 40 out), billed but excluded",
    ] {
        assert!(report_text.contains(part), "{part}\n{report_text}");
    }
    assert!(!render_text(&plain).contains("discarded"));

    // A trial that was killed and not yet resumed has no outcome, but was paid for.
    let mut open = trial("tools", "t1", None, None);
    open.earlier_tries = EarlierTries { tries: 1, spent };
    let report = build_report(vec![open]);
    assert_eq!((report.arms[0].paid.cost_usd, report.arms[0].cost_usd), (0.25, 0.0));
    assert_eq!((report.tasks[0].cost_usd, report.tasks[0].paid_usd), (None, Some(0.25)));
}

#[test]
fn report_notes_outgrown_responses() {
    let mut result = trial("tools", "t1", submitted_ending(), Some(1.0));
    result.outcome.as_mut().unwrap().spent.outgrown = true;
    let report = build_report(vec![result, trial("tools", "t2", submitted_ending(), Some(1.0))]);
    assert_eq!((report.arms[0].outgrown, report.tasks[0].outgrown), (1, true));
    let report_text = render_text(&report);
    assert!(report_text.contains("tools: in 1 trial, a response used more"), "{report_text}");
    assert!(!render_text(&three_arms()).contains("reserved for its request"));
}

#[test]
fn groups_are_shown_if_they_combine_tasks() {
    let of = |tasks: u32, levels: u32| {
        let trials = (0..tasks).map(|at| {
            let mut result = trial_of_level(at % levels, 1, 1.0);
            result.task = TaskId::new(format!("t{at}"));
            result.facts.added_functions = None;
            result
        });
        build_report(trials.collect())
    };
    let is_shown =
        |tasks, levels| !group_tables(&of(tasks, levels), GroupSelection::Informative).is_empty();
    assert!(!is_shown(2, 2) && is_shown(3, 2), "one level has two tasks");
    assert!(!is_shown(9, 9) && is_shown(10, 10));
    let report_text = render_text(&of(3, 2));
    assert!(report_text.contains("│ level"), "{report_text}");
}

#[test]
fn report_counts_exceptions_by_arm_and_task() {
    let failed = |arm: &str, task: &str, counts: &[(&str, u64)]| {
        let mut result = trial(arm, task, submitted_ending(), Some(0.0));
        let exceptions = &mut result.verdict.as_mut().unwrap().exceptions;
        exceptions.extend(counts.iter().map(|(class, count)| ((*class).to_owned(), *count)));
        result
    };
    let report = build_report(vec![
        failed("a", "t1", &[("NameError", 3), ("TypeError", 1)]),
        failed("a", "t2", &[("NameError", 2)]),
        failed("b", "t1", &[("TypeError", 9), ("timeout", 1)]),
        trial("b", "t2", submitted_ending(), Some(1.0)),
    ]);
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["arms"][0]["exceptions"]["NameError"], json!({"tests": 5, "trials": 2}));
    assert_eq!(value["arms"][1]["exceptions"]["timeout"], json!({"tests": 1, "trials": 1}));
    assert_eq!(value["tasks"][0]["exceptions"], json!({"NameError": 3, "TypeError": 1}));
    assert_eq!(value["tasks"][3].get("exceptions"), None);
    let report_text = render_text(&report);
    let line =
        |word: &str| report_text.lines().position(|line| line.contains(word)).expect("a line");
    // Ten TypeErrors, five NameErrors.
    assert!(line("9 in 1 trial") < line("5 in 2 trials"), "{report_text}");
    let markdown = proctor_report::report_markdown(&report, None, GroupSelection::Informative);
    assert!(markdown.contains("| `TypeError` | 1 in 1 trial | 9 in 1 trial |"), "{markdown}");
    assert_eq!(first_csv_field(&report, "exceptions"), "NameError=3 TypeError=1");
}

fn task_facts_from_row(row: Value) -> TaskFacts {
    let mut task = json!({"schema_version": 1, "id": "t", "statement": "", "environment": {"base": "host"},
        "fail_to_pass": [], "test_command": ["pytest"]});
    let fields = row.as_object().expect("an object").clone();
    task.as_object_mut().expect("an object").extend(fields);
    let task: proctor_types::Task = serde_json::from_value(task).expect("a task");
    TaskFacts::from_task(&task).with_cutoff(&task, Some("2024-06-01"))
}

#[test]
fn facts_have_cutoff_and_repository_category() {
    assert_eq!(
        task_facts_from_row(json!({"created_at": "2024-05-31T23:59:59Z"})).is_after_cutoff,
        Some(false)
    );
    assert_eq!(
        task_facts_from_row(json!({"created_at": "2024-06-01T00:00:00Z"})).is_after_cutoff,
        Some(true)
    );
    assert_eq!(task_facts_from_row(json!({})).is_after_cutoff, None);
    let details = json!({"created_at": "2025-01-02T03:04:05Z"});
    let row = json!({"repo": "sympy/sympy", "benchmark": {"name": "fea-bench", "split": "lite", "details": details}});
    let facts = task_facts_from_row(row);
    assert_eq!(facts.is_after_cutoff, Some(true));
    assert_eq!(
        (facts.categories, facts.split.as_deref()),
        (vec!["Mathematics".to_owned()], Some("lite"))
    );
    assert!(
        task_facts_from_row(json!({"repo": "sympy/sympy"})).categories.is_empty(),
        "not a row of FEA-Bench"
    );
}

/// Returns the trials of an arm on ten lite tasks and ten others. `lite_resolved` and
/// `other_resolved` are how many it resolves of each; tasks from index `first_new_task` on are
/// newer than the cutoff.
fn ranked_trials(
    arm: &str,
    lite_resolved: usize,
    other_resolved: usize,
    first_new_task: usize,
) -> Vec<TrialResult> {
    let mut trials = Vec::new();
    for at in 0..20 {
        let (is_lite, of_set) = (at < 10, at % 10);
        let resolved = of_set < if is_lite { lite_resolved } else { other_resolved };
        let mut result = trial(
            arm,
            &format!("t{at:02}"),
            submitted_ending(),
            Some(f64::from(u8::from(resolved))),
        );
        result.facts = TaskFacts {
            level: Some(if is_lite { 1 } else { 2 }),
            categories: if is_lite { vec!["lite".into()] } else { vec![] },
            is_after_cutoff: Some(at >= first_new_task),
            ..TaskFacts::default()
        };
        trials.push(result);
    }
    trials
}

#[test]
fn report_compares_rankings_between_task_sets() {
    let arms =
        [ranked_trials("a", 2, 1, 15), ranked_trials("b", 5, 4, 15), ranked_trials("c", 9, 2, 15)];
    let report = build_report(arms.concat());
    let value = serde_json::to_value(&report).unwrap();
    // Level 1: a < b < c. Level 2: a < c < b, so one pair of three is reversed.
    let level = &value["rank_agreement"][0];
    assert_eq!((&level["kind"], &level["tau"]), (&json!("level"), &json!(0.3333)));
    // The full set: 3, 9 and 11 of 20 resolved.
    let lite = &value["rank_agreement"][1];
    assert_eq!(
        (&lite["b"], &lite["tau"], &lite["b_tasks"]),
        (&json!("full"), &json!(1.0), &json!(20))
    );
    let report_text = render_text(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        report_text.contains("Kendall's tau between lite (10 tasks) and full (20 tasks) is 1.00"),
        "{report_text}"
    );
    // 15 tasks are from before the cutoff. The arms resolve 2 + 1, 5 + 4 and 9 + 2 of them, and no
    // later task.
    assert_eq!(value["arms"][1]["groups"]["cutoff"]["before"]["resolved"], 9);
    assert_eq!(value["arms"][1]["groups"]["cutoff"]["after"]["trials"], 5);
    // Two arms are too few for a ranking. A missing verdict also prevents a ranking.
    assert!(build_report(arms[..2].concat()).rank_agreement.is_empty());
    let mut open = arms.concat();
    open[0].verdict = None;
    assert!(build_report(open).rank_agreement.is_empty());
}

#[test]
fn report_marks_prompts_beyond_the_window() {
    let shot = |arm: &str, task: &str, beyond: bool| {
        let mut result = trial(arm, task, submitted_ending(), Some(0.0));
        let shot = json!({"prompt_tokens": 20_000, "beyond_window": beyond});
        result.single_shot = Some(serde_json::from_value(shot).unwrap());
        result
    };
    let trials =
        ["t1", "t2"].map(|task| [shot("small", task, true), shot("large", task, task == "t1")]);
    let report = build_report(trials.concat());
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["arms"][0]["single_shot"]["beyond_window"], 2);
    assert_eq!(value["arms"][1]["single_shot"]["beyond_window"], 1);
    let report_text = render_text(&report);
    let cells = |line: &str| -> Vec<String> {
        line.split(['\u{2502}', '\u{2506}', '|']).map(|cell| cell.trim().to_owned()).collect()
    };
    let row = |first: &str| {
        let rows = report_text
            .lines()
            .map(cells)
            .filter(|row| row.get(1).is_some_and(|cell| cell == first));
        rows.collect::<Vec<_>>()
    };
    let marks = |row: &[String]| row.iter().filter(|cell| *cell == "x").count();
    assert!(row("small").iter().any(|row| marks(row) == 3), "{report_text}");
    assert!(row("large").iter().all(|row| marks(row) == 0), "{report_text}");
    assert!(row("t1").iter().any(|row| marks(row) == 2), "{report_text}");
    assert!(row("t2").iter().any(|row| marks(row) == 1), "{report_text}");
    assert!(report_text.contains("small: x: 2 of 2 prompts did not fit"), "{report_text}");
}

#[test]
fn groups_compare_benchmarks_on_shared_repositories() {
    let of = |task: &str, repo: &str, benchmark: &str, passed: f64| {
        let mut result = trial("tools", task, submitted_ending(), Some(passed));
        result.facts.repo = Some(repo.to_owned());
        result.facts.benchmark = Some(benchmark.to_owned());
        result
    };
    let report = build_report(vec![
        of("f1", "a/shared", "featurebench", 0.5),
        of("f2", "a/shared", "featurebench", 0.0),
        of("f3", "a/other", "featurebench", 1.0),
        of("s1", "a/shared", "swe-bench", 1.0),
        of("s2", "a/third", "swe-bench", 0.0),
    ]);
    let groups = &report.arms[0].groups;
    let shared = &groups["shared_repositories"];
    assert_eq!(shared.keys().collect::<Vec<_>>(), ["featurebench", "swe-bench"]);
    let (feature, swe) = (&shared["featurebench"], &shared["swe-bench"]);
    assert_eq!((feature.tasks, feature.resolved, feature.passed_rate), (2, 0, 0.25));
    assert_eq!((swe.tasks, swe.resolved), (1, 1));
    assert_eq!(groups["benchmark"]["featurebench"].tasks, 3);
    let markdown = proctor_report::report_markdown(&report, None, GroupSelection::All);
    assert!(markdown.contains("#### By shared repositories"), "{markdown}");
}

#[test]
fn groups_count_a_task_in_each_of_its_splits() {
    let of = |arm: &str, split: &str, task: usize, passed: bool| {
        let passed = Some(f64::from(u8::from(passed)));
        let mut result = trial(arm, &format!("t{task}"), submitted_ending(), passed);
        result.facts.split = Some(split.to_owned());
        result
    };
    let mut trials = Vec::new();
    for (arm, resolved) in [("a", 1), ("b", 2), ("c", 3)] {
        trials.extend((0..4).map(|task| of(arm, "full", task, task < resolved)));
        trials.extend((0..3).map(|task| of(arm, "lite", task, task < resolved)));
    }
    let report = build_report(trials);
    let agreement = &report.rank_agreement[0];
    assert_eq!(
        (agreement.kind.as_str(), agreement.a.as_str(), agreement.b.as_str()),
        ("split", "full", "lite")
    );
    assert_eq!((agreement.a_tasks, agreement.b_tasks, agreement.tau), (4, 3, 1.0));
}
