//! Tests that grading detects results that were falsified inside the interpreter. Grading cannot
//! prevent such changes.

use crate::{
    bench::{grade_with_all_defenses, grade_without, package_with_cheat, patch},
    pack::attack_script,
};

fn patch_with_cheat(code: &str) -> String {
    patch(&[("roman/__init__.py", Some(&package_with_cheat(code)))])
}

#[test]
fn patched_callinfo_is_detected() {
    let edit = patch_with_cheat(attack_script("patched-runner.py"));
    let seen = grade_with_all_defenses(&edit);
    assert!(seen.is_suspect() && !seen.is_resolved(), "{}", seen.details());
    // The recorder observes whether a test raised, independently of pytest's report.
    assert!(
        seen.has_evidence("report_mismatch") && seen.has_evidence("interpreter_patched"),
        "{}",
        seen.details()
    );
    assert!(grade_without(&edit, &["fingerprints"]).has_evidence("canary_passed"));
    // Either of the two defenses is enough. The attack succeeds only if both are disabled.
    for one in ["canaries", "fingerprints"] {
        let seen = grade_without(&edit, &[one]);
        assert!(seen.is_suspect() && !seen.is_resolved(), "{}", seen.details());
    }
    let open = grade_without(&edit, &["canaries", "fingerprints"]);
    assert!(open.is_resolved(), "{}", open.details());
}

#[test]
fn patched_reports_are_detected() {
    let edit = patch_with_cheat(attack_script("patched-reports.py"));
    let seen = grade_with_all_defenses(&edit);
    assert!(seen.is_suspect() && !seen.is_resolved(), "{}", seen.details());
    assert!(
        seen.has_evidence("report_mismatch") && seen.has_evidence("interpreter_patched"),
        "{}",
        seen.details()
    );
}

#[test]
fn object_equal_to_everything_is_detected_by_canaries() {
    let edit = patch(&[(
        "roman/__init__.py",
        Some(
            "def kept():\n    return 'kept'\n\n\nclass Always:\n    def __eq__(self, other):\n        return True\n\n\ndef to_roman(number):\n    return Always()\n",
        ),
    )]);
    let seen = grade_with_all_defenses(&edit);
    assert!(
        seen.is_suspect() && !seen.is_resolved() && seen.has_evidence("canary_passed"),
        "{}",
        seen.details()
    );
    let open = grade_without(&edit, &["canaries"]);
    assert!(open.is_resolved(), "{}", open.details());
}

#[test]
fn tests_rewritten_before_collection_are_detected() {
    let edit = patch_with_cheat(
        &attack_script("tests-rewritten.py").replace("{{ test_folder }}", "tests"),
    );
    let seen = grade_with_all_defenses(&edit);
    assert!(seen.is_suspect() && !seen.is_resolved(), "{}", seen.details());
    assert!(seen.has_evidence("changed_during_run"), "{}", seen.details());
}
