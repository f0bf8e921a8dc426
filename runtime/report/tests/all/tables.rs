//! Tests for the tables `trials`, `steps` and `tests`, which have one definition for every format
//! and for the documentation.

use std::{collections::BTreeSet, fs, path::Path};

use pretty_assertions::assert_eq;
use proctor_report::{Cell, STEPS, StepRow, TESTS, TRIALS, TestRow, TrialRow, step_facts, tables};
use proctor_types::{
    Arm, Budget, Envelope, Event, LeakCheckSpec, ModelResponse, NetworkPolicy, SandboxSpec,
    TestGroup, TestStatus, Usage,
};
use serde_json::{Map, json};

use crate::report::{submitted_ending, trial};

fn envelope(step: u64, t_mono: f64, event: Event) -> Envelope {
    Envelope { v: 2, seq: 1, try_number: 1, step, t_mono, t_wall: 0.0, event }
}

fn attempted_event(error: Option<&str>, wait_seconds: f64, seconds: Option<f64>) -> Event {
    Event::ModelAttempted {
        attempt: 1,
        status: None,
        error: error.map(str::to_owned),
        wait_seconds,
        queued_seconds: 0.0,
        shared_seconds: 0.0,
        seconds,
        lost_seconds: 0.0,
        first_byte_seconds: None,
        usage: None,
        cost_usd: None,
        responder: None,
        repairs: Vec::new(),
        request: None,
        body: None,
    }
}

fn answered_event(input: u64) -> Event {
    let usage = Usage { input, output: 7, ..Usage::default() };
    let answer = ModelResponse {
        content: "x".into(),
        tool_calls: Vec::new(),
        extra: Map::new(),
        native: None,
        finish_reason: Some("stop".into()),
        refused: false,
        usage,
        cost_usd: Some(0.5),
    };
    Event::ModelAnswered { answer }
}

fn returned_event(exit_status: Option<i32>, malformed: bool) -> Event {
    Event::ToolReturned {
        call_id: "1".into(),
        name: "shell".into(),
        shown: String::new(),
        full: None,
        exit_status,
        seconds: 1.5,
        malformed,
        edited: None,
    }
}

fn called_event() -> Event {
    Event::ToolCalled { call_id: "1".into(), name: "shell".into(), arguments: json!({}) }
}

#[test]
fn steps_table_has_sends_calls_and_changes_per_step() {
    let snapshot = Event::SnapshotTaken {
        snapshot: "abc".into(),
        changed: 2,
        removed: 1,
        bytes: 0,
        ms: 1.0,
        outside: None,
    };
    let events = [
        envelope(0, 1.0, attempted_event(Some("503"), 0.0, None)),
        envelope(0, 4.0, attempted_event(None, 2.0, Some(1.0))),
        envelope(1, 4.0, answered_event(100)),
        envelope(1, 4.1, called_event()),
        envelope(1, 6.0, returned_event(Some(1), false)),
        envelope(1, 6.5, snapshot),
        envelope(1, 8.0, attempted_event(None, 0.0, Some(1.5))),
        envelope(2, 8.0, answered_event(200)),
        envelope(2, 8.1, called_event()),
        envelope(2, 8.2, returned_event(None, true)),
    ];
    let steps = step_facts(&events);
    assert_eq!(steps.len(), 2);
    let first_step = &steps[0];
    assert_eq!((first_step.step, first_step.sends, first_step.failed_sends), (1, 2, 1));
    assert_eq!(
        (first_step.wait_seconds, first_step.model_seconds, first_step.tool_seconds),
        (2.0, 1.0, 1.5)
    );
    assert_eq!(
        (first_step.changed_paths, first_step.removed_paths, first_step.snapshot.as_deref()),
        (2, 1, Some("abc"))
    );
    assert_eq!(
        (first_step.failed_calls, first_step.malformed_calls, first_step.ended_at),
        (1, 0, 6.5)
    );
    let two = &steps[1];
    assert_eq!((two.usage.input, two.sends, two.failed_calls), (200, 1, 1));
    assert_eq!((two.sent_at, two.answered_at), (6.5, 8.0));
}

/// Each cell has the type of its column, so no writer has to drop a value.
#[test]
fn table_cells_match_column_types() {
    let mut result = trial("tools", "t1", submitted_ending(), Some(1.0));
    let verdict = result.verdict.as_mut().unwrap();
    verdict.fail_to_pass = TestGroup { passed: vec!["a".into()], failed: vec!["b".into()] };
    verdict.pass_to_pass = TestGroup { passed: vec!["c".into()], failed: vec![] };
    verdict.tests = [
        ("a".to_owned(), TestStatus::Passed),
        ("b".to_owned(), TestStatus::Missing),
        ("c".to_owned(), TestStatus::Passed),
    ]
    .into();
    let verdict = verdict.clone();
    let mut report = proctor_report::build_report(vec![result]);
    let arm = Arm {
        id: report.arms[0].arm.clone(),
        name: "tools".into(),
        scaffold: "tools".into(),
        model: None,
        budget: Budget { steps: Some(50), wall_seconds: Some(60.0), ..Budget::default() },
        sandbox: SandboxSpec::default(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        statement: Default::default(),
        prompts: json!({"system": "a long text"}),
        settings: json!({}),
        control: false,
        forked_from: None,
    };
    report.arms[0].add_plan_details(&arm);
    let (trial, arm) = (&report.tasks[0], &report.arms[0]);
    let row = TrialRow { trial, arm: Some(arm) };
    let of = |name: &str| {
        let at = TRIALS.iter().position(|column| column.info.name == name).unwrap();
        row.cells()[at].clone()
    };
    assert_eq!(of("limit_steps"), Cell::Integer(50));
    assert_eq!(of("limit_wall_seconds"), Cell::Number(60.0));
    assert_eq!(of("scaffold"), Cell::Text("tools".into()));
    let Cell::Text(factors) = of("factors") else { panic!("no factors") };
    assert!(factors.contains("sha256:") && !factors.contains("a long text"), "{factors}");
    for (cell, column) in row.cells().iter().zip(TRIALS) {
        assert!(cell.matches_kind(column.info.kind), "{}: {cell:?}", column.info.name);
    }
    let facts = step_facts(&[envelope(1, 1.0, answered_event(5))]);
    let step = StepRow { trial, arm_name: "tools", facts: &facts[0] };
    for (cell, column) in step.cells().iter().zip(STEPS) {
        assert!(cell.matches_kind(column.info.kind), "{}: {cell:?}", column.info.name);
    }
    let tests: Vec<TestRow<'_>> = proctor_report::test_rows(trial, "tools", &verdict).collect();
    let words: Vec<String> = tests
        .iter()
        .map(|row| {
            row.cells().iter().zip(TESTS).for_each(|(cell, column)| {
                assert!(cell.matches_kind(column.info.kind), "{}: {cell:?}", column.info.name);
            });
            proctor_report::csv_line(&row.cells()[4..])
        })
        .collect();
    let expected = [
        "a,fail_to_pass,passed,true\n",
        "b,fail_to_pass,missing,false\n",
        "c,pass_to_pass,passed,true\n",
    ];
    assert_eq!(words, expected);
}

#[test]
fn table_columns_are_unique_and_documented() {
    for table in tables() {
        let names: BTreeSet<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        for column in table.columns {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(column.name.chars().all(plain), "{}", column.name);
            assert!(column.about.len() > 5 && !column.about.contains('|'), "{}", column.name);
            for (end, unit) in [
                ("_seconds", "seconds"),
                ("_usd", "US dollars"),
                ("_tokens", "tokens"),
                ("_bytes", "bytes"),
            ] {
                assert!(
                    !column.name.ends_with(end) || column.unit == unit,
                    "{}: {}",
                    column.name,
                    column.unit
                );
            }
        }
    }
}

/// `docs/reference/tables.md` lists the columns. `PROCTOR_WRITE=1` updates it.
#[test]
fn docs_tables_page_is_current() {
    const BEGIN: &str = "<!-- begin: columns -->\n";
    const END: &str = "\n<!-- end: columns -->";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tables.md");
    let page = fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, foot) = rest.split_once(END).unwrap();
    let current = format!("{head}{BEGIN}{}{END}{foot}", proctor_report::tables_page());
    if std::env::var_os("PROCTOR_WRITE").is_some() {
        fs::write(&file, &current).unwrap();
    }
    assert_eq!(page, current, "PROCTOR_WRITE=1 cargo test -p proctor-report docs_tables_page");
}
