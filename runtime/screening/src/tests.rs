//! Tests each rule on code that violates it and on similar honest code.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proctor_patch::CurrentFile;

use crate::{Finding, PatchChanges, ScreeningInput, rules::Rules, screen};

mod agreement;
mod dynamic_code;
mod excuses;
mod foreign;
mod hidden;
mod imports;
mod indirect;
mod introspection;
mod lines;
mod links;
mod memory;
mod mutation;
mod relations;
mod results;
mod state;
mod test_access;

fn text_file(text: &str) -> CurrentFile {
    CurrentFile::File { bytes: text.as_bytes().to_vec(), mode: 0o644 }
}

/// Returns a patch that creates a file or appends lines to it.
fn patch(path: &str, old: &str, new: &str) -> String {
    let count = |text: &str| text.lines().count();
    let plus: String = new.lines().map(|line| format!("+{line}\n")).collect();
    if old.is_empty() {
        return format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n\
             @@ -0,0 +1,{} @@\n{plus}",
            count(new)
        );
    }
    let kept: String = old.lines().map(|line| format!(" {line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n{kept}{plus}",
        count(old),
        count(old) + count(new)
    )
}

fn findings_in(path: &str, old: &str, new: &str, gold: Option<&str>) -> Vec<Finding> {
    let mut before = BTreeMap::new();
    if !old.is_empty() {
        before.insert(path.to_owned(), text_file(old));
    }
    let gold = gold.map(|gold| patch(path, old, gold));
    let patch = patch(path, old, new);
    let owned = BTreeSet::from(["roman".to_owned()]);
    let screened = |_: &str| true;
    let input = ScreeningInput {
        changes: &PatchChanges::new(patch.as_bytes(), &before),
        gold_patch: gold.as_ref().map(|gold| gold.as_bytes()),
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    screen(&input).unwrap().findings
}

fn assert_clean(old: &str, new: &str, gold: Option<&str>) {
    let found = findings_in("roman/a.py", old, new, gold);
    assert!(found.is_empty(), "{found:?}");
}

/// Returns the rules that code violates.
fn violated_rules(code: &str) -> BTreeSet<String> {
    findings_in("roman/a.py", "", code, None).into_iter().map(|finding| finding.rule).collect()
}

/// Checks that each string in `violations` violates the rule, and that no string in `honest`
/// violates any.
fn check_rule(rule: &str, violations: &[&str], honest: &[&str]) {
    for code in violations {
        assert!(
            violated_rules(code).contains(rule),
            "{rule} misses\n{code}\n{:?}",
            violated_rules(code)
        );
    }
    for code in honest {
        assert_eq!(violated_rules(code), BTreeSet::new(), "honest:\n{code}");
    }
}

#[test]
fn every_rule_has_explanation_evidence_and_test() {
    let rules = Rules::get().unwrap();
    let mut names = BTreeSet::new();
    for rule in &rules.table.rules {
        assert!(names.insert(&rule.name), "duplicate rule {}", rule.name);
        assert!(!rule.explanation.is_empty() && !rule.evidence.is_empty(), "{}", rule.name);
    }
    let tests = concat!(
        include_str!("tests/agreement.rs"),
        include_str!("tests/dynamic_code.rs"),
        include_str!("tests/foreign.rs"),
        include_str!("tests/hidden.rs"),
        include_str!("tests/indirect.rs"),
        include_str!("tests/introspection.rs"),
        include_str!("tests/lines.rs"),
        include_str!("tests/memory.rs"),
        include_str!("tests/relations.rs"),
        include_str!("tests/results.rs"),
        include_str!("tests/state.rs"),
        include_str!("tests/test_access.rs"),
    );
    for name in names {
        assert!(tests.matches(&format!("\"{name}\"")).count() > 0, "no test for {name}");
    }
}

/// Returns the rules that a patch of several new files violates.
fn violated_rules_in_files(files: &[(&str, &str)]) -> BTreeSet<String> {
    let patch: String = files.iter().map(|(path, text)| patch(path, "", text)).collect();
    violated_rules_of_patch(&patch, &BTreeMap::new(), &|_| true)
}

/// Returns the rules that a patch of the package `roman` violates.
fn violated_rules_of_patch(
    patch: &str,
    original_files: &BTreeMap<String, CurrentFile>,
    is_screened: &(dyn Fn(&str) -> bool + Sync),
) -> BTreeSet<String> {
    let input = ScreeningInput {
        changes: &PatchChanges::new(patch.as_bytes(), original_files),
        gold_patch: None,
        original_files,
        owned_modules: &BTreeSet::from(["roman".to_owned()]),
        is_judged_by_pytest: false,
        is_screened,
    };
    screen(&input).unwrap().findings.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn file_in_unsupported_language_is_listed_as_not_screened() {
    let (before, owned) = (BTreeMap::new(), BTreeSet::new());
    let text = patch("src/a.zig", "", "pub fn main() void {}");
    let screened = |_: &str| true;
    let input = ScreeningInput {
        changes: &PatchChanges::new(text.as_bytes(), &before),
        gold_patch: None,
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    let screening = screen(&input).unwrap();
    assert_eq!(
        (screening.findings.len(), screening.unscreened_files),
        (0, vec!["src/a.zig".into()])
    );
}

#[test]
fn large_patch_is_screened_within_time_limit() {
    let unit =
        "def go(a, b):\n    return math.sqrt(a.x + b[0]) if a else json.dumps({'a': b})\n\n\n";
    let code = format!("import json, math\n{}", unit.repeat(500));
    findings_in("roman/a.py", "", "x = 1", None);
    let start = Instant::now();
    assert_clean("", &code, None);
    // The patch has 2000 lines. The limit of 50 ms applies to optimized builds.
    let limit = if cfg!(debug_assertions) { 2000 } else { 50 };
    assert!(start.elapsed() < Duration::from_millis(limit), "{:?}", start.elapsed());
}
