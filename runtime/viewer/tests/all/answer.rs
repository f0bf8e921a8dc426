//! Tests the report page for trials with known results: the headline, charts, tasks and controls.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use proctor_report::{
    CURVE_SCHEMA, Curve, CurveCost, CurvePoint, TaskFacts, TrialResult, build_report, compare,
};
use proctor_types::{
    Arm, EarlierTries, Ending, Evidence, FailureReason, Integrity, Outcome, Spending, TaskId,
    TestGroup, Verdict,
};
use proctor_viewer::html::{ReportPage, render_report};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::json;

const TASKS: usize = 20;

fn arm(name: &str) -> Arm {
    let (scaffold, model) = match name {
        "gold" | "noop" => (name, json!(null)),
        _ => ("tools", json!({ "base_url": "https://model.example/v1", "name": name })),
    };
    let arm: Arm = serde_json::from_value(json!({
        "id": "", "name": name, "scaffold": scaffold, "model": model, "budget": { "steps": if name == "c" { 8 } else { 30 } },
        "sandbox": { "kind": "native", "cpus": 1.0, "memory_mb": 512 }, "network": {},
        "prompts": null, "settings": { "of": name },
    }))
    .unwrap();
    arm.with_computed_id()
}

fn trial(arm: &Arm, task: usize, resolved: Option<bool>, cost_usd: f64) -> TrialResult {
    let id = TaskId::new(format!("task-{task:02}"));
    let steps = if arm.is_control() { 0 } else { 10 + task as u64 };
    let (input_tokens, output_tokens) = (steps * 1000, steps * 10);
    let spent = Spending { steps, input_tokens, output_tokens, cost_usd, ..Spending::default() };
    TrialResult {
        arm: arm.id.clone(),
        arm_name: arm.name.clone(),
        is_control: arm.is_control(),
        task: id.clone(),
        attempt: 1,
        outcome: Some(Outcome { spent, ..Outcome::from_ending(1, Ending::Submitted) }),
        earlier_tries: EarlierTries::default(),
        grading_not_requested: false,
        grading_failure: None,
        verdict: resolved.map(|resolved| Verdict {
            schema_version: 1,
            task: id,
            resolved,
            counted: None,
            passed_rate: if resolved { 1.0 } else { 0.25 },
            rewards: Default::default(),
            fail_to_pass: TestGroup::default(),
            pass_to_pass: TestGroup::default(),
            tests: BTreeMap::new(),
            policies: BTreeMap::new(),
            integrity: Integrity::Clean,
            evidence: vec![],
            environment: None,
            noise: Default::default(),
            reason: (!resolved).then_some(FailureReason::Assertion),
            exceptions: BTreeMap::new(),
        }),
        patch_bytes: Some(10),
        damage: vec![],
        single_shot: None,
        facts: TaskFacts::default(),
    }
}

/// Renders a page with five arms. `a` resolves five tasks at 10 cents per trial, `b` resolves 15 at
/// 13 cents, and `c` resolves four at 20 cents and has one missing verdict. `gold` resolves all
/// tasks, and `noop` none.
fn render_page(curves: &[Curve]) -> String {
    let arms = ["a", "b", "c", "gold", "noop"].map(arm);
    let mut trials = Vec::new();
    for task in 0..TASKS {
        for arm in &arms {
            let (solved, cost) = match arm.name.as_str() {
                "a" => (task < 5, 0.10),
                "b" => (task < 15, 0.13),
                "c" => (task < 4, 0.20),
                name => (name == "gold", 0.0),
            };
            let is_open = arm.name == "c" && task == TASKS - 1;
            trials.push(trial(arm, task, (!is_open).then_some(solved), cost));
        }
    }
    let comparison = compare(&trials, None);
    let mut of = build_report(trials.clone());
    for (told, arm) in of.arms.iter_mut().zip(&arms) {
        told.add_plan_details(arm);
    }
    let page = ReportPage {
        report: &of,
        comparison: Some(&comparison),
        trials: &trials,
        runs: &[],
        curves,
        urls: None,
    };
    render_report(&page).unwrap()
}

/// Renders a page about the given trials, with a comparison of the arms.
fn render_trials(arms: &[Arm], trials: &[TrialResult]) -> String {
    let comparison = compare(trials, Some(arms));
    let mut report = build_report(trials.to_vec());
    for (told, arm) in report.arms.iter_mut().zip(arms) {
        told.add_plan_details(arm);
    }
    let page = ReportPage {
        report: &report,
        comparison: Some(&comparison),
        trials,
        runs: &[],
        curves: &[],
        urls: None,
    };
    render_report(&page).unwrap()
}

fn parse_page(page: &str) -> Document<'_> {
    let body = page.strip_prefix("<!doctype html>\n").unwrap();
    Document::parse_with_options(body, ParsingOptions::default()).unwrap()
}

fn find_by_id<'a>(tree: &'a Document<'a>, id: &str) -> Node<'a, 'a> {
    let found = tree.descendants().find(|node| node.attribute("id") == Some(id));
    found.unwrap_or_else(|| panic!("no element has the id {id}"))
}

fn has_class(node: &Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
}

/// Returns all text of a node, with single spaces.
fn node_text(node: Node<'_, '_>) -> String {
    let all: Vec<&str> =
        node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
    all.concat().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn find_by_class<'a>(node: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    node.descendants().filter(|node| has_class(node, class)).collect()
}

/// Returns the cells of each row in a table's body.
fn table_rows(table: Node<'_, '_>) -> Vec<Vec<String>> {
    let body = table.descendants().find(|node| node.has_tag_name("tbody")).unwrap();
    let rows = body.children().filter(|node| node.has_tag_name("tr"));
    rows.map(|row| row.children().filter(|node| node.is_element()).map(node_text).collect())
        .collect()
}

#[test]
fn report_page_starts_with_answer() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    let main = tree.descendants().find(|node| node.has_tag_name("main")).unwrap();
    let first = main.children().find(|node| node.is_element()).unwrap();
    assert_eq!(first.attribute("id"), Some("answer"));
    let claims: Vec<String> = find_by_class(first, "claim").into_iter().map(node_text).collect();
    let lead: Vec<String> = find_by_class(first, "lead").into_iter().map(node_text).collect();
    let ranking = "No trial is known to resolve its task within 8 steps. With their own limits, b is \
                   first: it resolves 75.0%, clearly more than a, c. The arms' limits differ: steps 30 \
                   (a, b), 8 (c).";
    assert_eq!(lead, [ranking]);
    let scores = table_rows(find_by_class(first, "scores")[0]);
    let names: Vec<&str> = scores.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["1 a", "2 b", "3 c"], "no controls");
    assert_eq!(scores[1][1], "75.0% (15/20)");
    assert_eq!(scores[1][3..], ["$2.60", "$0.17"]);
    assert!(scores[1][2].contains(" to "), "{scores:?}");
    assert!(!page.contains("Page of the run"), "a file has no links to pages");
    assert_eq!(claims.len(), 3, "no pair with a control: {claims:?}");
    let [one, other, last] = claims.as_slice() else { panic!("{claims:?}") };
    assert!(one.starts_with("b resolves 57.9 points more than c (95% "), "{one}");
    assert!(one.contains(", 19 of 20 tasks)"), "{one}");
    assert!(one.ends_with(" at 0.65 times the cost on the shared tasks."), "{one}");
    assert!(other.starts_with("b resolves 50.0 points more than a (95% "), "{other}");
    assert!(other.ends_with(" at 1.3 times the cost."), "{other}");
    assert!(last.starts_with("No clear difference: a resolves 5.3 points more than c"), "{last}");
    let better = find_by_class(first, "better").len();
    assert_eq!(better, 2, "only distinguishable differences are marked");

    let said = node_text(first);
    assert!(said.contains("75.0% vs 25.0% of 20 shared tasks"), "{said}");
    assert!(
        said.contains("Incomplete: 1 of 100 trials has no verdict (c: 1 not graded). Scores count"),
        "{said}"
    );
    assert!(said.contains("a: 15 of 20 trials fail: 15 failed an assertion"), "{said}");
    assert!(
        said.contains("c: 15 of 20 trials fail, 1 without a verdict: 15 failed an assertion"),
        "{said}"
    );
    for check in [
        "warning: 99 of 100 trials have a verdict",
        "good: No verdict is suspect",
        "good: Controls: gold resolves 20 of 20, noop resolves 0 of 20",
        "good: No trial ended at its own limit",
    ] {
        assert!(said.contains(check), "{check}: {said}");
    }
    assert!(node_text(tree.root()).contains("3 arms and 2 controls, 20 tasks, 100 trials"));
}

#[test]
fn differing_settings_are_listed_next_to_the_answer() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    let answer = find_by_id(&tree, "answer");
    let said = node_text(answer);
    assert!(said.contains("What differs between the arms"), "{said}");
    assert!(said.contains("warning: The arms' limits differ: steps 30 (a, b), 8 (c)"), "{said}");
    let tables: Vec<_> = answer.descendants().filter(|node| node.has_tag_name("table")).collect();
    let rows = table_rows(*tables.last().unwrap());
    // Each value has its arm's number and name, which only a phone shows.
    let expected = [
        ["budget.steps limit", "1 a 30", "2 b 30", "3 c 8"],
        ["model.name", "1 a a", "2 b b", "3 c c"],
        ["settings.of", "1 a a", "2 b b", "3 c c"],
    ];
    assert_eq!(rows, expected.map(|row| row.map(str::to_owned).to_vec()));
    // On a phone, each cell has its own label.
    for table in [tables[0], *tables.last().unwrap()] {
        let cells = table.descendants().filter(|node| node.has_tag_name("td"));
        assert!(cells.into_iter().all(|cell| cell.attribute("data-name").is_some()));
    }
}

#[test]
fn equal_limits_are_named_next_to_the_settings_that_differ() {
    let arms = ["a", "b"].map(arm);
    let trials: Vec<_> = arms.iter().map(|arm| trial(arm, 0, Some(true), 0.10)).collect();
    let page = render_trials(&arms, &trials);
    let tree = parse_page(&page);
    let said = node_text(find_by_id(&tree, "answer"));
    let heading = "What differs between the arms The limits are the same for all arms.";
    assert!(said.contains(heading), "{said}");
    // The note is not in the box of the table, so it doesn't scroll with it.
    let note = find_by_id(&tree, "factors-note");
    assert!(!note.ancestors().any(|node| has_class(&node, "scroll")));
}

#[test]
fn text_of_a_check_is_one_element() {
    let arms = ["a", "שלום"].map(arm);
    let mut trials: Vec<_> = arms.iter().map(|arm| trial(arm, 0, Some(true), 0.10)).collect();
    trials[1].verdict.as_mut().unwrap().integrity = Integrity::Suspect;
    let page = render_trials(&arms, &trials);
    let tree = parse_page(&page);
    let checks = find_by_class(tree.root(), "check");
    // The elements are laid out next to each other: the sign, its name, and the text.
    for check in &checks {
        let elements = check.children().filter(|node| node.is_element()).count();
        let has_other_text = check
            .children()
            .any(|node| node.is_text() && node.text().is_some_and(|text| !text.trim().is_empty()));
        assert!(elements == 3 && !has_other_text, "{}", node_text(*check));
    }
    let is_isolated =
        |check: &&Node<'_, '_>| check.descendants().any(|one| one.has_tag_name("bdi"));
    assert_eq!(checks.iter().filter(is_isolated).count(), 1);
}

#[test]
fn evidence_has_a_column_of_steps_only_if_it_names_steps() {
    let arms = [arm("a")];
    let header = |steps: Vec<u64>| {
        let mut one = trial(&arms[0], 0, Some(true), 0.10);
        let verdict = one.verdict.as_mut().unwrap();
        verdict.integrity = Integrity::Suspect;
        verdict.evidence = vec![Evidence::new("kind", "what", steps)];
        let page = render_trials(&arms, &[one]);
        let tree = parse_page(&page);
        let table = find_by_id(&tree, "findings")
            .descendants()
            .filter(|node| node.has_tag_name("table"))
            .nth(1)
            .unwrap();
        node_text(table.descendants().find(|node| node.has_tag_name("thead")).unwrap())
    };
    assert!(header(vec![3]).ends_with("steps"));
    assert!(header(vec![]).ends_with("details"));
}

#[test]
fn answer_lists_every_failure_reason() {
    let arms = [arm("a")];
    let reasons = [
        FailureReason::Assertion,
        FailureReason::GaveUp,
        FailureReason::TimeOut,
        FailureReason::NeverEdited,
        FailureReason::Refused,
    ];
    let failed = |(task, reason): (usize, FailureReason)| {
        let mut one = trial(&arms[0], task, Some(false), 0.10);
        one.verdict.as_mut().unwrap().reason = Some(reason);
        one
    };
    let trials: Vec<_> = reasons.into_iter().enumerate().map(failed).collect();
    let page = render_trials(&arms, &trials);
    let said = node_text(find_by_id(&parse_page(&page), "answer"));
    for words in
        ["an assertion", "gave up", "timed out in the tests", "changed nothing", "a refusal"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn unknown_and_estimated_costs_are_marked() {
    let arms = ["a", "b"].map(arm);
    let with = |change: fn(&mut Spending)| {
        let mut trials = Vec::new();
        for task in 0..2 {
            trials.extend(arms.iter().map(|arm| trial(arm, task, Some(true), 0.10)));
        }
        for one in &mut trials {
            change(&mut one.outcome.as_mut().unwrap().spent);
        }
        render_trials(&arms, &trials)
    };
    let unknown = with(|spent| spent.unpriced = true);
    assert!(unknown.contains("The cost is unknown, because a model has no price, so there is"));
    assert!(!unknown.contains("No arm was billed"));
    let estimated = with(|spent| spent.estimated = true);
    let tree = parse_page(&estimated);
    let scores = table_rows(find_by_class(find_by_id(&tree, "answer"), "scores")[0]);
    assert_eq!(scores[0][3..], ["~$0.20", "~$0.10"]);
}

#[test]
fn right_to_left_arm_names_are_isolated_in_sentences() {
    let arms = ["a", "שלום"].map(arm);
    let mut trials = Vec::new();
    for task in 0..TASKS {
        trials.push(trial(&arms[0], task, Some(task < 5), 0.10));
        trials.push(trial(&arms[1], task, Some(task < 15), 0.10));
    }
    let page = render_trials(&arms, &trials);
    let tree = parse_page(&page);
    let claim = find_by_class(tree.root(), "claim")[0];
    let isolated = claim.children().find(|node| node.has_tag_name("bdi")).map(node_text);
    assert_eq!(isolated.as_deref(), Some("שלום"));
    assert!(node_text(claim).starts_with("שלום resolves 50.0 points more than a "));
}

#[test]
fn controls_are_listed_separately() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    for id in ["plot-resolved", "plot-passed", "plot-forest-resolved", "plot-each-cost"] {
        let names: Vec<String> =
            find_by_class(find_by_id(&tree, id), "name").into_iter().map(node_text).collect();
        assert_eq!(names.len(), 3, "{id}: {names:?}");
        assert!(names.iter().all(|name| !name.contains("gold") && !name.contains("noop")));
    }
    let results = find_by_id(&tree, "results");
    let tables: Vec<_> = results.descendants().filter(|node| node.has_tag_name("table")).collect();
    let names = |table: Node<'_, '_>, column: usize| -> Vec<String> {
        table_rows(table).into_iter().map(|row| row[column].clone()).collect()
    };
    assert_eq!(names(tables[0], 1), ["a", "b", "c"]);
    assert_eq!(names(tables[1], 0), ["gold", "noop"]);
    let resolved = &table_rows(tables[1])[0][1];
    assert!(resolved.starts_with("100.0") && resolved.ends_with("20/20"), "{resolved}");
}

#[test]
fn forest_plot_lists_better_arm_first() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    let plot = find_by_id(&tree, "plot-forest-resolved");
    let names: Vec<String> = find_by_class(plot, "name").into_iter().map(node_text).collect();
    assert_eq!(names, ["b minus c", "b minus a", "a minus c"], "the order of the headlines");
    let values: Vec<String> = find_by_class(plot, "value").into_iter().map(node_text).collect();
    assert!(values[0].starts_with("+57.9") && values[1].starts_with("+50.0"), "{values:?}");
    // Each row has a point between the ends of its interval. Only one interval includes 0.
    let percent = |node: &Node<'_, '_>, of: &str| -> f64 {
        node.attribute(of).unwrap().strip_suffix('%').unwrap().parse().unwrap()
    };
    let mut crossing = Vec::new();
    for (row, name) in plot.children().filter(|node| node.is_element()).skip(1).zip(&names) {
        let point = percent(&find_by_class(row, "point")[0], "cx");
        let line = find_by_class(row, "range")[0];
        let (from, to) = (percent(&line, "x1"), percent(&line, "x2"));
        assert!(from < point && point < to && from >= 0.0 && to <= 100.0, "{name}");
        if from < 50.0 {
            crossing.push(name.as_str());
        }
    }
    assert_eq!(crossing, ["a minus c"]);
}

#[test]
fn pareto_plot_fills_undominated_arms() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    let cost = find_by_id(&tree, "cost");
    // `c` is not on the front, because it costs more than `b` and resolves less.
    let filled = |dot: &Node<'_, '_>| !has_class(dot, "hollow");
    let plane = find_by_class(cost, "plane")[0];
    let dots: Vec<bool> = find_by_class(plane, "point").iter().map(filled).collect();
    assert_eq!(dots, [true, true, false]);
    assert_eq!(find_by_class(plane, "front").len(), 1);
    let table = cost.descendants().find(|node| node.has_tag_name("table")).unwrap();
    let front: Vec<[String; 2]> =
        table_rows(table).into_iter().map(|row| [row[1].clone(), row[6].clone()]).collect();
    let expected = [["a", "yes"], ["b", "yes"], ["c", "no"]];
    assert_eq!(front, expected.map(|row| row.map(str::to_owned)));
    // The costs are 2 dollars for 5 tasks, 2.60 for 15 tasks, and 4 dollars for 4 tasks.
    let each: Vec<String> = table_rows(table).into_iter().map(|row| row[5].clone()).collect();
    assert_eq!(each, ["$0.40", "$0.17", "$1.00"]);
}

#[test]
fn tasks_are_sorted_easiest_first() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    let tasks = find_by_id(&tree, "tasks");
    assert!(
        node_text(tasks)
            .contains("Of 20 tasks, 4 are resolved by every arm in every attempt and 4 by none")
    );
    let table = find_by_class(tasks, "heat")[0];
    let shown = table_rows(table);
    assert_eq!(shown.len(), TASKS);
    assert_eq!(shown[0], ["task-00", "yes", "yes", "yes"]);
    assert_eq!(shown[4], ["task-04", "yes", "yes", "no (25.0% F2P)"]);
    assert_eq!(shown[TASKS - 1], ["task-19", "no (25.0% F2P)", "no (25.0% F2P)", "not graded"]);
    let count = |class: &str| {
        let cells = table.descendants().filter(|node| node.has_tag_name("td"));
        cells.filter(|cell| has_class(cell, class)).count()
    };
    assert_eq!([count("all"), count("none"), count("unknown")], [24, 35, 1]);
    // There is one tile for each resolved task, and one for the missing verdict.
    let strips = find_by_class(tasks, "tiles");
    let tiles: Vec<usize> =
        strips.iter().map(|strip| find_by_class(*strip, "tile").len() - 1).collect();
    assert_eq!(tiles, [5, 15, 5]);
    assert_eq!(find_by_class(strips[2], "open").len(), 1);
}

#[test]
fn budget_curves_cover_usage_and_graded_snapshots() {
    let a = arm("a");
    let point = |at: f64, resolved: u64| CurvePoint {
        arm: a.id.clone(),
        name: "a".to_owned(),
        budget: "steps".to_owned(),
        at,
        trials: 20,
        graded: 20,
        resolved,
        resolved_rate: resolved as f64 / 20.0,
        interval: Some([0.0, 0.5]),
        passed_rate: 0.5,
        passed_interval: None,
        truncated: false,
        bound: 3,
    };
    let curve = Curve {
        schema_version: CURVE_SCHEMA,
        points: vec![point(10.0, 1), point(20.0, 4)],
        first_resolved: vec![],
        checks: vec![],
        cost: CurveCost::default(),
        notes: vec![],
    };
    let page = render_page(&[curve]);
    let tree = parse_page(&page);
    // The trials of the first task took 10 steps, and those of the fifth took 14. Each trial counts
    // as five percent.
    let figure =
        find_by_id(&tree, "plot-within-steps").ancestors().find(|node| node.has_tag_name("figure"));
    let figure = figure.unwrap();
    assert_eq!(find_by_class(figure, "line").len(), 3, "a line for each arm");
    let table = figure.descendants().find(|node| node.has_tag_name("table")).unwrap();
    // The curve of `c` ends at its limit of 8 steps, which has a row of its own.
    let rows = table_rows(table);
    assert_eq!(rows[0], ["8", "0%", "0%", "0%"]);
    assert_eq!(rows.last().unwrap()[1..], ["25.0%", "75.0%", "-"]);
    let figure =
        find_by_id(&tree, "plot-curve-1").ancestors().find(|node| node.has_tag_name("figure"));
    let figure = figure.unwrap();
    assert_eq!(find_by_class(figure, "point").len(), 2);
    let table = figure.descendants().find(|node| node.has_tag_name("table")).unwrap();
    let expected = [["10", "5.0% (0.0 to 50.0)"], ["20", "20.0% (0.0 to 50.0)"]];
    assert_eq!(table_rows(table), expected.map(|row| row.map(str::to_owned).to_vec()));
}

#[test]
fn failure_reasons_have_a_bar_per_arm() {
    let page = render_page(&[]);
    let tree = parse_page(&page);
    let endings = find_by_id(&tree, "endings");
    let table = find_by_class(endings, "bars")[0];
    let expected = [["failed an assertion", "15", "5", "15"], ["have no verdict", "", "", "1"]];
    assert_eq!(table_rows(table), expected.map(|row| row.map(str::to_owned).to_vec()));
    let bars: Vec<&str> =
        find_by_class(table, "bar").iter().filter_map(|bar| bar.attribute("width")).collect();
    assert_eq!(bars, ["100.0%", "33.33%", "100.0%", "6.67%"]);
    assert!(node_text(endings).contains("No trial ended at its own limit."));
}
