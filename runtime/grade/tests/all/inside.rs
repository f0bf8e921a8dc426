//! Falsification inside the interpreter: it cannot be prevented there, so it is detected.

use crate::{
    bench::{package, patch, with_all, without},
    pack::script,
};

fn cheat(code: &str) -> String {
    patch(&[("roman/__init__.py", Some(&package(code)))])
}

#[test]
fn patching_callinfo() {
    let edit = cheat(script("patched-runner.py"));
    let seen = with_all(&edit);
    assert!(seen.suspect() && !seen.resolved(), "{}", seen.tell());
    // The recorder sees what a test raised, independently of pytest's report.
    assert!(seen.has("report_mismatch") && seen.has("interpreter_patched"), "{}", seen.tell());
    assert!(without(&edit, &["fingerprints"]).has("canary_passed"));
    // Each of the two is enough; with neither the attack succeeds.
    for one in ["canaries", "fingerprints"] {
        let seen = without(&edit, &[one]);
        assert!(seen.suspect() && !seen.resolved(), "{}", seen.tell());
    }
    let open = without(&edit, &["canaries", "fingerprints"]);
    assert!(open.resolved(), "{}", open.tell());
}

#[test]
fn patching_reports() {
    let edit = cheat(script("patched-reports.py"));
    let seen = with_all(&edit);
    assert!(seen.suspect() && !seen.resolved(), "{}", seen.tell());
    assert!(seen.has("report_mismatch") && seen.has("interpreter_patched"), "{}", seen.tell());
}

#[test]
fn an_object_that_is_equal_to_everything() {
    let edit = patch(&[(
        "roman/__init__.py",
        Some(
            "def kept():\n    return 'kept'\n\n\nclass Always:\n    def __eq__(self, other):\n        return True\n\n\ndef to_roman(number):\n    return Always()\n",
        ),
    )]);
    let seen = with_all(&edit);
    assert!(seen.suspect() && !seen.resolved() && seen.has("canary_passed"), "{}", seen.tell());
    let open = without(&edit, &["canaries"]);
    assert!(open.resolved(), "{}", open.tell());
}

#[test]
fn rewriting_the_tests_before_they_are_collected() {
    let edit = cheat(&script("tests-rewritten.py").replace("{{ test_folder }}", "tests"));
    let seen = with_all(&edit);
    assert!(seen.suspect() && !seen.resolved(), "{}", seen.tell());
    assert!(seen.has("changed_during_run"), "{}", seen.tell());
}
