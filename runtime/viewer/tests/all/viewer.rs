//! Tests that the viewer's pages are safe to render if every string in a trial is hostile input.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::HashMap;

use proctor_report::{build_report, compare};
use proctor_viewer::html::{
    ASSETS, ArmScore, Call, ChartLimit, ChartLimitKind, ComparedResult, Dashboard, DashboardRun,
    EgressRequest, EndpointRequest, Entry, Filter, FilterOptions, Folder, Hit, Links, Matrix,
    MatrixCell, MatrixRow, OpenedFile, Overview, PageLinks, RunFault, RunSummary, SearchResults,
    Sentence, ShownLabel, SideRequest, Step, StepRow, TestLine, Trial, TrialChoice, TrialColumn,
    TrialName, join_pieces, render_comparison, render_dashboard, render_matrix, render_search,
    render_side_by_side_page, render_step, render_trial,
};
use roxmltree::Document;

use crate::report::{arm, trial};

const HOSTILE_TEXT: &str = "<script>alert(1)</script>\"' onload=x></pre></span></table>{{ 7*7 }}\u{1b}[2J\u{202e}\u{0}\n+<b>\n-<i>";

fn render_all_pages() -> Vec<String> {
    let text = HOSTILE_TEXT.to_owned();
    let name = TrialName { run: text.clone(), task: text.clone(), arm: text.clone(), attempt: 1 };
    let row = StepRow {
        number: 2,
        did: vec![text.clone()],
        failed: true,
        denied: 1,
        ..StepRow::default()
    };
    let side_requests = vec![SideRequest {
        step: 1,
        conversation: text.clone(),
        path: text.clone(),
        response_text: text.clone(),
        request: "ab".into(),
        response: Some("cd".into()),
        ..SideRequest::default()
    }];
    let told = Trial {
        side_requests: side_requests.clone(),
        run: text.clone(),
        task: text.clone(),
        arm: text.clone(),
        attempt: 1,
        statement: text.clone(),
        outcome: text.clone(),
        resolved: Some(false),
        reason: text.clone(),
        failure: text.clone(),
        grading: text.clone(),
        error: text.clone(),
        why: vec![text.clone()],
        integrity: text.clone(),
        evidence: vec![(text.clone(), text.clone(), vec![2])],
        steps: vec![StepRow { number: 1, ..StepRow::default() }, row.clone()],
        limits: vec![text.clone()],
        chart_limits: vec![ChartLimit { kind: ChartLimitKind::Steps, maximum: 4.0 }],
        beside: "beside/a".into(),
        tests: vec![TestLine {
            kind: "F2P",
            id: text.clone(),
            status: text.clone(),
            passed: false,
            log: text.clone(),
            speaks: "search?q=a".into(),
        }],
        damage: vec![text.clone()],
        labels: vec![ShownLabel { step: Some(2), label: text.clone(), comment: text.clone() }],
        agent_logs: vec![(1, text.clone())],
        stderr: vec![text.clone()],
        files: vec![text.clone()],
        served_files: vec!["verdict.json"],
        ..Trial::default()
    };
    let whole = Step {
        row,
        statement: text.clone(),
        message: text.clone(),
        reasoning: text.clone(),
        refusal: text.clone(),
        is_refused: true,
        finish_reason: text.clone(),
        other_fields: vec![(text.clone(), text.clone())],
        grace_response: text.clone(),
        calls: vec![Call {
            name: text.clone(),
            arguments: text.clone(),
            ran: true,
            shown: Some(text.clone()),
            full: Some("ab".into()),
            ..Call::default()
        }],
        urls: vec![EgressRequest {
            method: text.clone(),
            url: text.clone(),
            decision: text.clone(),
            why: text.clone(),
        }],
        notes: vec![text.clone()],
        agent_logs: vec![text.clone()],
        side_requests,
        diff: text.clone(),
        so_far: text.clone(),
        sends: vec![EndpointRequest {
            attempt: 1,
            request: Some("ab".into()),
            ..EndpointRequest::default()
        }],
        labels: vec![ShownLabel { step: None, label: text.clone(), comment: text.clone() }],
        workspace: Some(Folder {
            above: vec![
                ("/".into(), "?in=#workspace".into()),
                (text.clone(), "?in=a#workspace".into()),
            ],
            entries: vec![Entry {
                name: text.clone(),
                href: "?in=a".into(),
                link: text.clone(),
                mark: "new",
                ..Entry::default()
            }],
            left_out: 1,
            paths: 2,
            opened: Some(OpenedFile {
                path: text.clone(),
                text: text.clone(),
                is_kept: true,
                ..OpenedFile::default()
            }),
        }),
    };
    let cell = MatrixCell {
        href: "1/a/b/1".into(),
        attempt: 1,
        word: "resolved",
        class: "no",
        ending: text.clone(),
        reason: text.clone(),
        failure: text.clone(),
        integrity: text.clone(),
        steps: text.clone(),
    };
    let run = Matrix {
        run: text.clone(),
        state: text.clone(),
        gap: text.clone(),
        faults: vec![
            RunFault {
                trial: name.clone(),
                href: "1/a/b/1".into(),
                others: 2,
                text: text.clone(),
            };
            4
        ],
        ended: 1,
        trials: 2,
        going_on: vec![("1/a/b/1".into(), name.clone(), text.clone())],
        arms: vec![(text.clone(), text.clone()); 2],
        rows: vec![MatrixRow {
            task: text.clone(),
            beside: String::new(),
            cells: vec![vec![cell.clone()], vec![cell.clone(), cell]],
        }],
        findings: vec![
            Sentence::from_text(text.clone()).trial_link(&name, "1/a/b/1").text(text.clone()),
        ],
    };
    let choices = vec![(text.clone(), 1)];
    let overview = Overview {
        run,
        summary: RunSummary::from_report(&build_report(vec![trial(&arm("first"), 0, Some(1.0))])),
        report: "report/1".into(),
        comparison: "compare/1".into(),
        filter: Filter { text: text.clone(), page: 1, ..Filter::default() },
        choices: FilterOptions {
            arms: choices.clone(),
            outcomes: choices.clone(),
            reasons: choices.clone(),
            integrities: choices,
        },
        shown: 1,
        of: 2,
        pages: PageLinks {
            current: 1,
            count: 2,
            next: "?page=2".into(),
            numbered: vec![(1, "?page=1".into()), (2, "?page=2".into())],
            ..PageLinks::default()
        },
        live: true,
    };
    let side = TrialColumn {
        name: name.clone(),
        href: "1/a/b/1".into(),
        word: "resolved",
        class: "yes",
        detail: text.clone(),
        steps: told.steps.clone(),
        at: Some(whole.clone()),
        saw: Some(whole.clone()),
        step_texts: HashMap::from([(1, text.clone()), (2, text.clone())]),
        result: ComparedResult {
            failed_tests: Some(vec![text.clone()]),
            patch: Some(vec![(text.clone(), text.clone())]),
            reference_patch: Some(vec![(text.clone(), format!("@@\n+{text}"))]),
            different_edit: Some(2),
        },
    };
    let other = TrialColumn {
        steps: vec![StepRow { action_hash: 5, ..told.steps[1].clone() }],
        result: ComparedResult {
            failed_tests: Some(vec![]),
            patch: Some(vec![]),
            different_edit: None,
            ..ComparedResult::default()
        },
        ..side.clone()
    };
    let choice = TrialChoice { value: text.clone(), name: name.clone(), shown: true };
    let hit = Hit {
        trial: name.clone(),
        href: "1/a/b/1".into(),
        step: 2,
        place: text.clone(),
        before: text.clone(),
        found: text.clone(),
        after: text.clone(),
        more: 1,
        fragment: "a%20b".into(),
    };
    let found = SearchResults {
        text: text.clone(),
        hits: vec![hit],
        cut: true,
        next: "search?q=a&from=3".into(),
        skipped: 1,
        read: 2,
        of: 9,
        ..SearchResults::default()
    };
    let score = ArmScore {
        name: text.clone(),
        resolved: text.clone(),
        interval: text.clone(),
        width: 50.0,
    };
    let run = DashboardRun {
        name: text.clone(),
        href: "1".into(),
        created: text.clone(),
        size: text.clone(),
        paid: text.clone(),
        live: true,
        arms: vec![score],
        more_arms: 1,
        ..DashboardRun::default()
    };
    let stopped = DashboardRun { gap: text.clone(), ..run.clone() };
    let dashboard = Dashboard { runs: vec![run, stopped], live: true };
    let arms = [arm(&text), arm("other")];
    let trials = [trial(&arms[0], 0, Some(1.0)), trial(&arms[1], 0, Some(0.0))];
    let (report, comparison) = (build_report(trials.to_vec()), compare(&trials, None));
    let links = Links {
        root: "/t/",
        here: "/t/1/a/b/1",
        trial: HOSTILE_TEXT,
        served: true,
        ..Links::default()
    };
    let rows = [1, 2, 3].map(|number| StepRow { number, ..StepRow::default() });
    let sub_agent = StepRow {
        number: 4,
        conversation: Some(text.clone()),
        parent: Some(text.clone()),
        ..StepRow::default()
    };
    let rows: Vec<StepRow> = rows.into_iter().chain([sub_agent]).collect();
    vec![
        render_matrix(&overview, &links).unwrap(),
        render_trial(&told, &links, &text, &text, true).unwrap(),
        render_step(&whole, &name, &rows, &links, true).unwrap(),
        render_side_by_side_page(&text, &[side, other], &[choice], &links).unwrap(),
        render_search(&found, &links).unwrap(),
        render_dashboard(&dashboard, &links).unwrap(),
        render_comparison(&text, "report/1", &report, Some(&comparison), &links).unwrap(),
    ]
}

#[test]
fn viewer_escapes_hostile_text() {
    for page in render_all_pages() {
        assert_eq!(
            proctor_types::escape_unprintable(&page),
            page,
            "the page contains a control character"
        );
        let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        for node in tree.descendants().filter(|node| node.is_element()) {
            let name = node.tag_name().name();
            assert!(!["style", "b", "i", "img", "iframe", "object"].contains(&name), "{name}");
            if name == "script" {
                assert_eq!(node.attribute("src"), Some("/t/viewer.js"));
                assert!(
                    node.text().unwrap_or_default().is_empty(),
                    "the page contains an inline script"
                );
            }
            for attribute in node.attributes() {
                let (on, value) = (attribute.name(), attribute.value());
                assert!(!on.starts_with("on") && on != "style", "{on}");
                let inside = value.starts_with('#') || value.starts_with("/t/");
                assert!(!["href", "src", "action"].contains(&on) || inside, "{value}");
            }
        }
        let text: String = tree
            .descendants()
            .filter(|node| node.is_text())
            .filter_map(|node| node.text())
            .collect();
        let seen = text.matches("<script>alert(1)</script>\"' onload=x></pre>").count();
        assert!(seen >= 5 && text.contains("{{ 7*7 }}\\u{1b}[2J\\u{202e}\\u{0}"), "{seen}");
    }
}

#[test]
fn viewer_pages_link_to_each_other() {
    let pages = render_all_pages();
    let links = |page: &str| -> Vec<String> {
        let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        tree.descendants().filter_map(|node| node.attribute("href")).map(str::to_owned).collect()
    };
    assert!(links(&pages[0]).contains(&"/t/1/a/b/1".to_owned()));
    assert!(links(&pages[0]).contains(&"/t/?page=2".to_owned()));
    assert!(links(&pages[1]).contains(&"/t/beside/a".to_owned()));
    assert!(links(&pages[1]).contains(&"/t/1/a/b/1/step/2".to_owned()));
    assert!(links(&pages[2]).contains(&"/t/1/a/b/1/step/3".to_owned()));
    assert!(links(&pages[2]).contains(&"/t/1/a/b/1/step/1".to_owned()));
    assert!(links(&pages[2]).contains(&"/t/1/a/b/1/step/4".to_owned()), "the sub-agent's steps");
    assert!(links(&pages[1]).contains(&"/t/1/a/b/1/bytes/cd".to_owned()), "a side request");
    assert!(links(&pages[0]).contains(&"/t/report/1".to_owned()));
    assert!(links(&pages[0]).contains(&"/t/compare/1".to_owned()));
    assert!(links(&pages[6]).contains(&"/t/report/1".to_owned()));
    assert!(links(&pages[5]).contains(&"/t/1".to_owned()));
    assert!(links(&pages[4]).contains(&"/t/search?q=a&from=3".to_owned()));
}

#[test]
fn trial_page_shows_failing_tests_and_folds_passing_ones() {
    let test = |id: &str, passed| TestLine {
        id: id.to_owned(),
        passed,
        log: if passed { String::new() } else { "assert 1 == 2".to_owned() },
        ..TestLine::default()
    };
    let told = Trial {
        resolved: Some(false),
        failure: "failed an assertion (at the step limit)".into(),
        tests: vec![test("fails", false), test("passes", true)],
        ..Trial::default()
    };
    let page = render_trial(&told, &Links::default(), "", "", false).unwrap();
    let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
    let find = |id: &str| tree.descendants().find(|node| node.attribute("id") == Some(id)).unwrap();
    let text = |id: &str| -> String {
        find(id)
            .descendants()
            .filter(|node| node.is_text())
            .filter_map(|node| node.text())
            .collect()
    };
    assert_eq!(find("log-1").attribute("open"), Some("open"));
    assert!(text("log-1").contains("assert 1 == 2"));
    assert_eq!(find("passed").attribute("open"), None);
    assert!(text("passed").contains("1 passing test") && text("passed").contains("passes"));
    assert!(page.contains("failed an assertion (at the step limit);"), "{page}");
    assert!(page.find("id=\"tests\"") < page.find("id=\"diff\""), "tests come first");
}

#[test]
fn trial_page_distinguishes_an_empty_patch_from_none() {
    let page = |outcome: &str, has_patch| {
        let told = Trial { outcome: outcome.to_owned(), has_patch, ..Trial::default() };
        render_trial(&told, &Links::default(), "", "", false).unwrap()
    };
    for (outcome, has_patch, expected) in [
        ("submitted", true, "No changes."),
        ("infrastructure fault model", false, "No patch was collected."),
        ("", false, "The trial has not ended"),
    ] {
        assert!(page(outcome, has_patch).contains(expected), "{outcome}");
    }
    assert!(!page("submitted", false).contains("No changes."));
}

#[test]
fn trial_and_step_pages_fold_the_statement() {
    let statement = "Write the function.".to_owned();
    let told = Trial { statement: statement.clone(), ..Trial::default() };
    let step = Step { statement, ..Step::default() };
    let (links, name) = (Links::default(), TrialName::default());
    for page in [
        render_trial(&told, &links, "", "", false).unwrap(),
        render_step(&step, &name, &[], &links, false).unwrap(),
    ] {
        let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        let task = tree.descendants().find(|node| node.attribute("id") == Some("task")).unwrap();
        assert!(task.has_tag_name("details") && task.attribute("open").is_none());
        assert!(task.descendants().any(|node| node.text() == Some("Write the function.")));
    }
}

#[test]
fn right_to_left_name_does_not_move_the_attempt() {
    let name =
        TrialName { task: "\u{5e9}".into(), arm: "a".into(), attempt: 2, ..Default::default() };
    let page = render_step(&Step::default(), &name, &[], &Links::default(), false).unwrap();
    assert!(page.contains("<bdi>\u{5e9}</bdi> / <bdi>a</bdi> / 2"), "{page}");
}

#[test]
fn narrow_pages_link_to_the_steps() {
    let steps = vec![StepRow { number: 1, ..StepRow::default() }];
    let told = Trial { steps: steps.clone(), ..Trial::default() };
    let name = TrialName::default();
    for page in [
        render_trial(&told, &Links::default(), "", "", false).unwrap(),
        render_step(&Step::default(), &name, &steps, &Links::default(), false).unwrap(),
    ] {
        let link = page.find("href=\"#steps\"").unwrap();
        assert!(page[..link].contains("<h1>") && page.contains("id=\"steps\""), "{page}");
    }
}

#[test]
fn filter_keeps_labels_with_their_fields_and_matrix_rows_are_short() {
    let page = render_all_pages().swap_remove(0);
    let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
    let is_in_main = |node: &roxmltree::Node<'_, '_>| {
        node.ancestors().any(|above| above.attribute("id") == Some("main"))
    };
    let labels = tree.descendants().filter(|node| node.has_tag_name("label")).filter(is_in_main);
    let fields: Vec<_> = labels.map(|label| label.parent().unwrap().attribute("class")).collect();
    assert_eq!(fields, [Some("field"); 6]);
    // The ending and the number of steps are in the title only.
    let cell = tree.descendants().find(|node| node.attribute("class") == Some("cell")).unwrap();
    let link = cell.children().find(|node| node.has_tag_name("a")).unwrap();
    assert!(link.attribute("title").unwrap().contains("; "));
    let shown = cell.descendants().filter(|node| node.attribute("class") == Some("word")).count();
    assert_eq!(shown, 1, "the reason stands for the verdict");
}

#[test]
fn viewer_assets_are_small_and_self_contained() {
    let bytes: usize = ASSETS.iter().map(|(_, _, pieces)| join_pieces(pieces).len()).sum();
    assert!(bytes < 40_000, "{bytes}");
    for (name, _, pieces) in &ASSETS {
        let text = join_pieces(pieces);
        assert!(!text.contains("://") && !text.contains("innerHTML"), "{name}");
    }
}
