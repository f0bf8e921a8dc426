//! Tests that the report page is safe to render if every string in the trials is hostile input.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use proctor_report::{Report, TaskFacts, TrialResult, build_report, compare};
use proctor_types::{
    Arm, ArmId, EarlierTries, Ending, Evidence, EvidenceClass, FailureReason, Fault, FaultLayer,
    Integrity, Outcome, PolicyVerdict, RunRecord, Spending, TaskId, TestGroup, TestStatus, Verdict,
};
use proctor_viewer::html::{NamedRun, ReportPage, ReportUrls, render_report};
use roxmltree::{Document, ParsingOptions};
use serde_json::json;

/// Attacks that a run's text may contain: markup, the end of the surrounding element, a template,
/// escape sequences, characters that change the text direction, and bytes that XML does not allow.
const HOSTILE_TEXTS: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=https://evil.example/x onerror=alert(1)>",
    "' onmouseover='alert(1)' x='",
    "</title></style></svg></pre></table><h1>mine</h1>",
    "{{ 7 * 7 }}{% include 'style.css' %}{#",
    "\u{1b}[2J\u{1b}]8;;https://evil.example\u{7}click\u{1b}]8;;\u{7}\u{9b}31m",
    "\u{202e}gnp.exe\u{2066}\u{200f}\u{200b}\u{feff}",
    "a\u{0}b\u{8}\r\nc\u{85}\u{2028}d\u{fffe}",
    "]]> --> <!-- &amp;lt;script&gt; &#60;b&#62;",
];

fn hostile_name(name: &str) -> String {
    format!("{name} {}", HOSTILE_TEXTS.join(" "))
}

pub(crate) fn arm(name: &str) -> Arm {
    let arm: Arm = serde_json::from_value(json!({
        "id": "", "name": hostile_name(name), "scaffold": hostile_name("scaffold"),
        "model": { "base_url": "https://model.example/v1", "name": hostile_name(name) },
        "budget": {}, "sandbox": { "kind": "native", "cpus": 1.0, "memory_mb": 512 }, "network": {},
        "prompts": { "system": hostile_name("prompt") }, "settings": { hostile_name("key"): hostile_name("value") },
    }))
    .unwrap();
    arm.with_computed_id()
}

pub(crate) fn trial(arm: &Arm, task: usize, passed: Option<f64>) -> TrialResult {
    let id = TaskId::new(hostile_name(&format!("task-{task}")));
    let fault = Fault::new(FaultLayer::Model, hostile_name("fault")).hint(hostile_name("hint"));
    let ending = match passed {
        Some(1.0) => Ending::Submitted,
        Some(_) => Ending::ModelRefused { why: hostile_name("refusal") },
        None => Ending::InfrastructureFault { fault },
    };
    let test = hostile_name("test");
    TrialResult {
        arm: arm.id.clone(),
        arm_name: arm.name.clone(),
        is_control: false,
        task: id.clone(),
        attempt: 1,
        outcome: Some(Outcome {
            spent: Spending {
                steps: 7,
                input_tokens: 12_345,
                output_tokens: 678,
                cost_usd: 0.05,
                ..Spending::default()
            },
            ..Outcome::from_ending(1, ending)
        }),
        earlier_tries: EarlierTries::default(),
        grading_not_requested: false,
        grading_failure: None,
        verdict: passed.map(|rate| Verdict {
            schema_version: 1,
            task: id,
            resolved: rate == 1.0,
            counted: None,
            passed_rate: rate,
            rewards: Default::default(),
            fail_to_pass: TestGroup { passed: vec![], failed: vec![test.clone()] },
            pass_to_pass: TestGroup::default(),
            tests: BTreeMap::from([(test, TestStatus::Failed)]),
            policies: BTreeMap::from([(
                "strict".to_owned(),
                PolicyVerdict {
                    name: None,
                    version: None,
                    resolved: false,
                    why: hostile_name("why"),
                },
            )]),
            integrity: Integrity::Suspect,
            evidence: vec![Evidence {
                class: Some(EvidenceClass::AnswerUpstream),
                ..Evidence::new(hostile_name("kind"), hostile_name("what"), vec![3, 5])
            }],
            environment: None,
            noise: Default::default(),
            reason: Some(FailureReason::Assertion),
            exceptions: BTreeMap::from([(hostile_name("exception"), 2)]),
        }),
        patch_bytes: Some(10),
        damage: vec![hostile_name("damage")],
        single_shot: None,
        facts: TaskFacts {
            repo: Some(hostile_name(&format!("repo-{}", task % 2))),
            level: Some(1 + task as u32 % 2),
            categories: vec![hostile_name("category")],
            ..TaskFacts::default()
        },
    }
}

/// Renders a page about four tasks and two arms with hostile names. One trial has no verdict.
fn hostile_page() -> String {
    let arms = [arm("first"), arm("second")];
    let mut trials = Vec::new();
    for task in 0..4 {
        for (index, arm) in arms.iter().enumerate() {
            let passed = match (index, task) {
                (1, 3) => None,
                (0, _) => Some(1.0),
                _ => Some(0.25),
            };
            trials.push(trial(arm, task, passed));
        }
    }
    let mut report_of = build_report(trials.clone());
    report_of.remarks.push(hostile_name("remark"));
    for arm in &arms {
        let told = report_of.arms.iter_mut().find(|told| told.arm == arm.id);
        told.unwrap().add_plan_details(arm);
    }
    let record: RunRecord = serde_json::from_value(json!({
        "schema_version": 2, "proctor": hostile_name("version"), "created": 1_795_372_800, "attempts": 1,
        "jobs": 1, "arms": arms, "tasks": [], "config": { "key": hostile_name("config") },
        "host": { "os": hostile_name("os") }, "agent": hostile_name("agent"),
    }))
    .unwrap();
    let runs = [NamedRun { name: hostile_name("run"), record }];
    let comparison = compare(&trials, None);
    let page = ReportPage {
        report: &report_of,
        comparison: Some(&comparison),
        trials: &trials,
        runs: &runs,
        curves: &[],
        urls: None,
    };
    render_report(&page).unwrap()
}

/// Parses the page as XML, which is stricter than any browser. The templates write XML-compatible
/// HTML.
fn parse_page(page: &str) -> Document<'_> {
    let body = page.strip_prefix("<!doctype html>\n").unwrap();
    Document::parse_with_options(body, ParsingOptions::default()).unwrap()
}

#[test]
fn report_page_escapes_hostile_text() {
    let page = hostile_page();
    let tree = parse_page(&page);
    let names: Vec<&str> = tree
        .descendants()
        .filter(|node| node.is_element())
        .map(|node| node.tag_name().name())
        .collect();
    for name in ["script", "img", "iframe", "object", "embed", "link", "form", "base", "style"] {
        let allowed = usize::from(name == "style");
        assert_eq!(names.iter().filter(|found| **found == name).count(), allowed, "{name}");
    }
    assert_eq!(names.iter().filter(|name| **name == "h1").count(), 1);
    let known = [
        "aria-hidden",
        "aria-label",
        "aria-labelledby",
        "charset",
        "checked",
        "class",
        "content",
        "cx",
        "cy",
        "d",
        "data-name",
        "dx",
        "dy",
        "height",
        "href",
        "http-equiv",
        "id",
        "lang",
        "name",
        "open",
        "preserveAspectRatio",
        "r",
        "role",
        "scope",
        "tabindex",
        "type",
        "vector-effect",
        "viewBox",
        "width",
        "x",
        "x1",
        "x2",
        "y",
        "y1",
        "y2",
    ];
    for attribute in tree.descendants().flat_map(|node| node.attributes().collect::<Vec<_>>()) {
        assert!(known.contains(&attribute.name()), "{}", attribute.name());
    }
    // Every attack must be readable in full, either unchanged or with its active characters
    // replaced by visible escapes.
    let text: String =
        tree.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
    for trick in HOSTILE_TEXTS {
        let shown = proctor_types::escape_unprintable(trick).into_owned();
        assert!(text.contains(&shown), "{shown}");
    }
    for one in [
        "task-2", "fault", "hint", "refusal", "what", "why", "remark", "config", "repo-1", "damage",
    ] {
        assert!(text.contains(&format!("{one} <script>")), "{one}");
    }
    assert!(!text.contains("49{"), "a template in a name was rendered");
}

#[test]
fn report_page_has_no_active_content() {
    let page = hostile_page();
    assert_eq!(
        proctor_types::escape_unprintable(&page),
        page,
        "the page contains a control character or a directional mark"
    );
}

#[test]
fn report_page_loads_nothing() {
    let page = hostile_page();
    let tree = parse_page(&page);
    for node in tree.descendants() {
        for attribute in node.attributes() {
            let value = attribute.value();
            match attribute.name() {
                "href" => assert!(value.starts_with('#'), "{value}"),
                "src" | "srcset" | "action" | "style" => panic!("{}: {value}", attribute.name()),
                _ => assert!(!value.contains("://") && !value.contains("url("), "{value}"),
            }
        }
    }
    let style = tree.descendants().find(|node| node.has_tag_name("style")).unwrap();
    let style = style.text().unwrap();
    assert!(
        !style.contains("url(") && !style.contains("@import"),
        "the style sheet loads a resource"
    );
    assert!(style.contains("prefers-color-scheme: dark") && style.contains("@media print"));
    let policy = tree.descendants().find(|node| node.attribute("http-equiv").is_some()).unwrap();
    let policy = policy.attribute("content").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn report_page_has_every_arm_plot_and_section() {
    let page = hostile_page();
    let tree = parse_page(&page);
    let ids: Vec<&str> = tree.descendants().filter_map(|node| node.attribute("id")).collect();
    assert!(page.contains("evidence: answer upstream"), "the classes of evidence have a row");
    for id in [
        "answer",
        "results",
        "comparisons",
        "cost",
        "endings",
        "tasks",
        "groups",
        "findings",
        "trials",
        "configuration",
    ] {
        assert!(ids.contains(&id), "{id}");
    }
    for link in tree.descendants().filter_map(|node| node.attribute("href")) {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link} has no target");
    }
    // Everything that an image shows must also be on the page as text: as a name and a value next
    // to the image, or in a table below it.
    for picture in tree.descendants().filter(|node| node.has_tag_name("svg")) {
        let is_inner = picture.ancestors().skip(1).any(|above| above.has_tag_name("svg"));
        let is_beside =
            picture.ancestors().any(|node| node.attribute("aria-hidden") == Some("true"));
        let is_named = picture.attribute("aria-labelledby").is_some_and(|id| ids.contains(&id));
        assert!(is_inner || is_beside || is_named && picture.attribute("role") == Some("img"));
    }
    for plot in tree.descendants().filter(|node| node.attribute("role") == Some("img")) {
        let section = plot.ancestors().find(|node| node.has_tag_name("section")).unwrap();
        let below = section.descendants().filter(|node| node.has_tag_name("table"));
        let mut starts = below.map(|table| table.range().start);
        assert!(starts.any(|start| start > plot.range().start), "no numbers below the chart");
    }
    for id in
        ["plot-resolved", "plot-passed", "plot-forest-resolved", "plot-cost", "plot-each-cost"]
    {
        assert!(ids.contains(&id), "{id}");
    }
    for figure in tree.descendants().filter(|node| node.has_tag_name("figure")) {
        let name = figure.attribute("aria-labelledby").filter(|id| ids.contains(id));
        assert!(name.or(figure.attribute("aria-label")).is_some(), "a figure has no name");
    }
    let rows = |id: &str| {
        let section = tree.descendants().find(|node| node.attribute("id") == Some(id)).unwrap();
        let table = section.descendants().find(|node| node.has_tag_name("tbody")).unwrap();
        table.children().filter(|node| node.has_tag_name("tr")).count()
    };
    assert_eq!(rows("results"), 2);
    assert_eq!(rows("trials"), 8);
    let text: String =
        tree.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
    for said in [
        "100.0",
        "4/4",
        "0/4, 1 open",
        "resolves",
        "not distinguishable",
        "12.3k / 678",
        "Incomplete",
    ] {
        assert!(text.contains(said), "{said}");
    }
}

fn page_without_comparison<'a>(report: &'a Report, trials: &'a [TrialResult]) -> ReportPage<'a> {
    ReportPage { report, comparison: None, trials, runs: &[], curves: &[], urls: None }
}

#[test]
fn served_report_links_to_run_and_trials() {
    let trials = [trial(&arm("first"), 0, Some(1.0)), trial(&arm("first"), 1, Some(0.0))];
    let report = build_report(trials.to_vec());
    let urls = ReportUrls {
        run: "/token/1".to_owned(),
        trials: vec!["/token/1/x".to_owned(), "/token/1/y".to_owned()],
    };
    let page = ReportPage { urls: Some(&urls), ..page_without_comparison(&report, &trials) };
    let page = render_report(&page).unwrap();
    let tree = parse_page(&page);
    let links: Vec<&str> = tree
        .descendants()
        .filter_map(|node| node.attribute("href"))
        .filter(|link| !link.starts_with('#'))
        .collect();
    assert_eq!(links, ["/token/1", "/token/1/x", "/token/1/y"]);
}

#[test]
fn report_page_without_model_or_trials_renders() {
    let arm = ArmId::new("a".repeat(64));
    let mut one = trial(&self::arm("gold"), 0, Some(1.0));
    one.arm = arm;
    if let Some(outcome) = &mut one.outcome {
        outcome.spent = Spending::default();
    }
    let trials = [one];
    let report_of = build_report(trials.to_vec());
    let page = render_report(&page_without_comparison(&report_of, &trials)).unwrap();
    parse_page(&page);
    assert!(page.contains("there is nothing to plot") && !page.contains("id=\"comparisons\""));
    // A plan without trials must not fail either.
    let none = build_report(Vec::new());
    let page = render_report(&page_without_comparison(&none, &[])).unwrap();
    parse_page(&page);
}
