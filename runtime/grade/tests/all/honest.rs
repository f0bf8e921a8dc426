//! Tests that honest work is not treated as an attack.

use crate::bench::{
    F2P, ROMAN_SOURCE, SOURCE_FILES, diff, gold, grade_patch, grade_with_all_defenses, patch,
};
use proctor_grade::Defenses;
use proctor_types::{Integrity, TestStatus};

#[test]
fn gold_is_resolved_and_clean() {
    let seen = grade_with_all_defenses(&gold());
    assert!(seen.is_resolved(), "{}", seen.details());
    assert_eq!(seen.0.verdict.integrity, Integrity::Clean);
    assert_eq!(seen.0.verdict.evidence, []);
    assert_eq!(seen.0.verdict.passed_rate, 1.0);
}

#[test]
fn empty_patch_is_unresolved_and_clean() {
    let seen = grade_with_all_defenses("");
    assert!(!seen.is_resolved());
    assert_eq!(seen.0.verdict.integrity, Integrity::Clean, "{}", seen.details());
    assert_eq!(seen.0.verdict.passed_rate, 0.0);
    assert!(seen.0.verdict.pass_to_pass.failed.is_empty(), "{}", seen.details());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed);
}

/// Models often write tests. Such tests neither count nor change the result.
#[test]
fn solution_that_edits_tests_is_resolved_with_evidence() {
    let edits = [
        ("tests/test_roman.py", Some("def test_mine():\n    assert False\n")),
        ("tests/test_mine.py", Some("def test_mine():\n    assert False\n")),
    ];
    // The agent never saw the hidden test, so its patch adds the file as new.
    let mine = patch(&edits).replace("--- a/tests/test_roman.py", "--- /dev/null");
    let mine = new_file(&mine);
    let seen = grade_with_all_defenses(&format!("{}{mine}", gold()));
    assert!(seen.is_resolved(), "{}", seen.details());
    assert!(seen.has_evidence("test_restored"));
    assert_eq!(seen.0.verdict.integrity, Integrity::Clean);
}

/// Scaffolds submit the output of `git diff`, which may have binary files without content and
/// submodules.
#[test]
fn parts_that_cannot_be_applied_do_not_invalidate_the_rest() {
    let binary = "diff --git a/app b/app\nnew file mode 100755\nindex 0000000..1234567\n\
                  Binary files /dev/null and b/app differ\n";
    let gitlink = "diff --git a/vendor/dep b/vendor/dep\nnew file mode 160000\nindex 0000000..1111111\n\
                   --- /dev/null\n+++ b/vendor/dep\n@@ -0,0 +1 @@\n\
                   +Subproject commit 1111111111111111111111111111111111111111\n";
    let crlf = gold().replace('\n', "\r\n");
    for patch in [format!("{binary}{}", gold()), format!("{}{gitlink}", gold()), crlf] {
        let seen = grade_with_all_defenses(&patch);
        assert!(seen.is_resolved() && seen.has_evidence("patch_incomplete"), "{}", seen.details());
        assert_eq!(seen.0.verdict.integrity, Integrity::Unverified, "{}", seen.details());
    }
    // The binary part alone changes nothing.
    let seen = grade_with_all_defenses(binary);
    assert!(!seen.is_resolved() && seen.has_evidence("patch_incomplete"), "{}", seen.details());
}

/// Moving a package and leaving a link is honest work, and so is replacing a folder with a file.
#[test]
fn patch_may_replace_a_folder_with_a_link_or_a_file() {
    let gone = patch(&[("roman/__init__.py", None)]);
    let moved = diff("roman_core/__init__.py", None, Some(ROMAN_SOURCE));
    let link = "diff --git a/roman b/roman\nnew file mode 120000\n--- /dev/null\n+++ b/roman\n\
                @@ -0,0 +1,1 @@\n+roman_core\n\\ No newline at end of file\n";
    let module = diff("roman.py", None, Some(ROMAN_SOURCE));
    let file = diff("roman", None, Some("The module is beside.\n"));
    // Try different orders of the edits, because not every tool sorts them.
    for edits in [[&*gone, &*moved, link], [link, &moved, &gone], [&gone, &module, &file]] {
        let seen = grade_with_all_defenses(&edits.concat());
        assert!(seen.is_resolved(), "{}", seen.details());
        assert_eq!(seen.0.verdict.integrity, Integrity::Clean, "{}", seen.details());
    }
}

/// Restoring tests does not write through a link that replaces their folder.
#[test]
fn link_in_place_of_a_test_folder_is_removed() {
    let gone: Vec<_> = SOURCE_FILES.iter().filter(|(name, _)| name.starts_with("tests/")).collect();
    let gone: Vec<_> = gone.iter().filter(|(name, _)| *name != "tests/test_roman.py").collect();
    let gone: String = gone.iter().map(|(name, _)| patch(&[(name, None)])).collect();
    let link = "diff --git a/tests b/tests\nnew file mode 120000\n--- /dev/null\n+++ b/tests\n\
                @@ -0,0 +1,1 @@\n+roman\n\\ No newline at end of file\n";
    let seen = grade_with_all_defenses(&[&*gold(), &gone, link].concat());
    assert!(seen.is_resolved() && seen.has_evidence("test_restored"), "{}", seen.details());
}

/// Turns a patch that edits the hidden test into one that creates this test.
fn new_file(edit: &str) -> String {
    let mut out = String::new();
    let mut hidden = false;
    for line in edit.lines() {
        if let Some(rest) = line.strip_prefix("diff --git ") {
            hidden = rest.contains("test_roman.py");
            out.push_str(&format!("{line}\n"));
            if hidden {
                out.push_str("new file mode 100644\n");
            }
        } else if hidden && line.starts_with("@@") {
            let added = line.rsplit('+').next().unwrap();
            out.push_str(&format!("@@ -0,0 +{added}\n"));
        } else if !(hidden && line.starts_with('-') && !line.starts_with("---")) {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

#[test]
fn patch_that_does_not_apply_gets_a_verdict() {
    for bad in [
        "garbage",
        "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1,1 @@\n+x\n",
        "diff --git a/roman/__init__.py b/roman/__init__.py\n--- a/roman/__init__.py\n+++ b/roman/__init__.py\n@@ -1,1 +1,1 @@\n-not there\n+x\n",
    ] {
        let seen = grade_with_all_defenses(bad);
        assert!(!seen.is_resolved());
        assert!(seen.has_evidence("patch_rejected"), "{}", seen.details());
        assert_eq!(seen.status(F2P[0]), TestStatus::Missing);
    }
}

#[test]
fn hanging_run_is_killed_and_reported() {
    let hang = crate::bench::package_with_cheat("import time\ntime.sleep(3600)");
    let edits = [("roman/__init__.py", Some(hang.as_str()))];
    let options = proctor_grade::GradeOptions {
        time_limit: Some(std::time::Duration::from_secs(3)),
        defenses: Defenses::default(),
        ..proctor_grade::GradeOptions::default()
    };
    let seen = crate::bench::grade_patch_with_options(&patch(&edits), &options, &[]);
    assert!(!seen.is_resolved());
    assert!(seen.has_evidence("timed_out"), "{}", seen.details());
}

#[test]
fn tests_get_the_task_variables() {
    let edits = [("roman/__init__.py", Some("import os\nassert os.environ['GIVEN'] == 'é'\n"))];
    let seen = grade_patch(&patch(&edits), Defenses::default(), &[("GIVEN", "é")]);
    let error = String::from_utf8_lossy(&seen.0.log).into_owned();
    assert!(error.contains("cannot import name 'to_roman'"), "{error}");
}

/// `JSONEncoder.default` is a documented extension point.
#[test]
fn custom_json_encoder_is_not_a_replaced_module() {
    let text = format!(
        "import json\n_default = json.JSONEncoder.default\n\n\ndef default(self, value):\n    \
         return value.__json__() if hasattr(value, '__json__') else _default(self, value)\n\n\n\
         json.JSONEncoder.default = default\n\n\n{ROMAN_SOURCE}"
    );
    let seen = grade_with_all_defenses(&patch(&[("roman/__init__.py", Some(text.as_str()))]));
    assert!(seen.is_resolved(), "{}", seen.details());
    assert_eq!(seen.0.verdict.integrity, Integrity::Clean, "{}", seen.details());
}

/// A link whose target is too long for any file system prevents collection. That is not evidence of
/// an attack.
#[test]
fn overlong_link_target_is_not_suspect() {
    let link = format!(
        "diff --git a/notes b/notes\nnew file mode 120000\n--- /dev/null\n+++ b/notes\n@@ -0,0 +1 @@\n+{}\n\
         \\ No newline at end of file\n",
        "x".repeat(300)
    );
    let seen = grade_with_all_defenses(&format!("{}{link}", gold()));
    assert!(!seen.is_suspect(), "{}", seen.details());
}
