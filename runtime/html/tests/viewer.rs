//! The viewer's pages, of a trial whose every text is hostile.

#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not there")]

use proctor_html::{
    Call, Cell, Links, Matrix, Step, StepRow, TestLine, Trial, Url, matrix, step, trial,
};
use roxmltree::Document;

const TRICK: &str = "<script>alert(1)</script>\"' onload=x></pre></span></table>{{ 7*7 }}\u{1b}[2J\u{202e}\u{0}\n+<b>\n-<i>";

fn all_pages() -> Vec<String> {
    let text = TRICK.to_owned();
    let row = StepRow {
        number: 2,
        did: vec![text.clone()],
        failed: true,
        denied: 1,
        ..StepRow::default()
    };
    let told = Trial {
        run: text.clone(),
        task: text.clone(),
        arm: text.clone(),
        attempt: 1,
        outcome: text.clone(),
        resolved: Some(false),
        reason: text.clone(),
        why: vec![text.clone()],
        integrity: text.clone(),
        evidence: vec![(text.clone(), text.clone(), vec![2])],
        steps: vec![StepRow { number: 1, ..StepRow::default() }, row.clone()],
        limits: vec![text.clone()],
        tests: vec![TestLine {
            kind: "F2P",
            id: text.clone(),
            status: text.clone(),
            passed: false,
            log: text.clone(),
        }],
        damage: vec![text.clone()],
        files: vec![text.clone()],
        ..Trial::default()
    };
    let whole = Step {
        row,
        message: text.clone(),
        reasoning: text.clone(),
        calls: vec![Call {
            name: text.clone(),
            arguments: text.clone(),
            shown: Some(text.clone()),
            ..Call::default()
        }],
        urls: vec![Url {
            method: text.clone(),
            url: text.clone(),
            decision: text.clone(),
            why: text.clone(),
        }],
        notes: vec![text.clone()],
        diff: text.clone(),
    };
    let cell = Cell {
        href: "1/a/b/1".into(),
        attempt: 1,
        word: text.clone(),
        class: "no",
        detail: text.clone(),
    };
    let run = Matrix {
        run: text.clone(),
        arms: vec![(text.clone(), text.clone())],
        rows: vec![(text.clone(), vec![vec![cell]])],
        findings: vec![text.clone()],
    };
    let links = Links { root: "/t/", here: "/t/1/a/b/1", ..Links::default() };
    vec![
        matrix(&[run], &links).unwrap(),
        trial(&told, &links, &text, &text).unwrap(),
        step(&whole, &text, true, &links).unwrap(),
    ]
}

#[test]
fn hostile_text_is_text_on_every_page() {
    for page in all_pages() {
        assert_eq!(proctor_types::visible(&page), page, "something on the page acts on its reader");
        let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        for node in tree.descendants().filter(|node| node.is_element()) {
            let name = node.tag_name().name();
            assert!(!["script", "b", "i", "img", "iframe", "form"].contains(&name), "{name}");
            for attribute in node.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                assert!(!name.starts_with("on") && name != "style" && name != "src", "{name}");
                let inside = value.starts_with('#') || value.starts_with("/t/");
                assert!(name != "href" || inside, "{value}");
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
fn pages_lead_to_each_other() {
    let pages = all_pages();
    let links = |page: &str| -> Vec<String> {
        let tree = Document::parse(page.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        tree.descendants().filter_map(|node| node.attribute("href")).map(str::to_owned).collect()
    };
    assert_eq!(links(&pages[0]), ["/t/1/a/b/1"]);
    assert!(links(&pages[1]).contains(&"/t/1/a/b/1/step/2".to_owned()));
    assert!(links(&pages[1]).contains(&"#step-2".to_owned()), "evidence leads to its step");
    assert!(links(&pages[2]).contains(&"/t/1/a/b/1/step/3".to_owned()));
    assert!(links(&pages[2]).contains(&"/t/1/a/b/1/step/1".to_owned()));
}
