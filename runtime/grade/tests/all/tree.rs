//! Attacks with files of the test tree and its configuration.

use proctor_types::TestStatus;

use crate::bench::{F2P, P2P, patch, with_all, without};

/// A plugin under which no test runs and every test passes.
pub const PASS_ALL: &str = include_str!("../../../../configs/attacks/pass-all.py");

/// The defences that detect `PASS_ALL` wherever it comes from.
const WATCHERS: [&str; 2] = ["canaries", "fingerprints"];

fn all_but<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().chain(WATCHERS).collect()
}

#[test]
fn an_edited_test() {
    let edit = patch(&[(
        "tests/helper.py",
        Some("import roman\nroman.to_roman = None\ndef helped(): return 1\n"),
    )]);
    let seen = with_all(&edit);
    assert!(seen.has("test_restored") && !seen.resolved(), "{}", seen.tell());

    let kept = "def test_kept():\n    pass\n\ndef test_helper():\n    pass\n";
    let broken = "def to_roman(number):\n    raise NotImplementedError\n";
    let edit = patch(&[("tests/test_kept.py", Some(kept)), ("roman/__init__.py", Some(broken))]);
    let seen = with_all(&edit);
    assert_eq!(seen.status(P2P[0]), TestStatus::Failed, "{}", seen.tell());
    let open = without(&edit, &["restore_tests"]);
    assert_eq!(open.status(P2P[0]), TestStatus::Passed, "{}", open.tell());
}

#[test]
fn a_deleted_test() {
    let edit = patch(&[("tests/test_kept.py", None), ("tests/helper.py", None)]);
    let seen = with_all(&edit);
    assert_eq!(seen.status(P2P[1]), TestStatus::Passed, "{}", seen.tell());
    assert_eq!(without(&edit, &["restore_tests"]).status(P2P[1]), TestStatus::Error);
}

#[test]
fn an_edited_pytest_configuration() {
    let config = "[tool.pytest.ini_options]\naddopts = \"-p cheat\"\n";
    let cheat = ("cheat.py", Some(PASS_ALL));
    for (name, text) in [
        ("pyproject.toml", config),
        ("pytest.ini", "[pytest]\naddopts = -p cheat\n"),
        ("tests/pytest.ini", "[pytest]\naddopts = -p cheat\n"),
        ("tests/.pytest.ini", "[pytest]\naddopts = -p cheat\n"),
    ] {
        let edit = patch(&[(name, Some(text)), cheat]);
        let seen = with_all(&edit);
        assert!(!seen.resolved(), "{name}: {}", seen.tell());
        assert!(seen.has("config_restored"), "{name}: {}", seen.tell());
        assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{name}: {}", seen.tell());
    }
    let edit = patch(&[("pyproject.toml", Some(config)), cheat]);
    let open = without(&edit, &all_but(&["restore_config"]));
    assert!(open.resolved(), "{}", open.tell());
    // The second defence detects it, too.
    let second = without(&edit, &["restore_config"]);
    assert!(second.suspect() && !second.resolved());
    assert!(second.has("canary_passed") && second.has("unknown_plugin"), "{}", second.tell());
}

#[test]
fn a_conftest_in_a_parent_folder() {
    let edit = patch(&[("conftest.py", Some(PASS_ALL))]);
    let seen = with_all(&edit);
    assert!(!seen.resolved() && seen.has("config_restored"), "{}", seen.tell());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.tell());
    let open = without(&edit, &all_but(&["restore_config"]));
    assert!(open.resolved(), "{}", open.tell());
}

#[test]
fn a_conftest_in_a_sibling_folder() {
    let config = "[pytest]\naddopts = -p sibling.conftest\n";
    let edit = patch(&[("sibling/conftest.py", Some(PASS_ALL)), ("pytest.ini", Some(config))]);
    let seen = with_all(&edit);
    assert!(!seen.resolved() && seen.has("config_restored"), "{}", seen.tell());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.tell());
    let open = without(&edit, &all_but(&["restore_config"]));
    assert!(open.resolved(), "{}", open.tell());
}

#[test]
fn an_exit_in_a_conftest() {
    let cheat = "import os\nprint('5 passed')\nos._exit(0)\n";
    let edit = patch(&[("conftest.py", Some(cheat))]);
    let seen = with_all(&edit);
    assert!(!seen.resolved() && seen.has("config_restored"));
    assert_eq!(seen.status(P2P[0]), TestStatus::Passed, "{}", seen.tell());
    let open = without(&edit, &["restore_config"]);
    assert_eq!(open.status(P2P[0]), TestStatus::Missing);
    assert!(open.suspect() && open.has("exit_without_end"), "{}", open.tell());
}
