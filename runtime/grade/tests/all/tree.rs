//! Attacks with files of the test tree and the pytest configuration.

use proctor_types::TestStatus;

use crate::bench::{F2P, P2P, grade_with_all_defenses, grade_without, patch};

/// A plugin that makes every test pass without running.
pub const PASS_ALL_CONFTEST: &str = include_str!("../../../../configs/attacks/pass-all.py");

/// The defenses that detect `PASS_ALL_CONFTEST` however it is loaded.
const FALLBACK_DEFENSES: [&str; 2] = ["canaries", "fingerprints"];

fn with_fallback_defenses<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().chain(FALLBACK_DEFENSES).collect()
}

#[test]
fn edited_test_is_restored() {
    let edit = patch(&[(
        "tests/helper.py",
        Some("import roman\nroman.to_roman = None\ndef helped(): return 1\n"),
    )]);
    let seen = grade_with_all_defenses(&edit);
    assert!(seen.has_evidence("test_restored") && !seen.is_resolved(), "{}", seen.details());

    let kept = "def test_kept():\n    pass\n\ndef test_helper():\n    pass\n";
    let broken = "def to_roman(number):\n    raise NotImplementedError\n";
    let edit = patch(&[("tests/test_kept.py", Some(kept)), ("roman/__init__.py", Some(broken))]);
    let seen = grade_with_all_defenses(&edit);
    assert_eq!(seen.status(P2P[0]), TestStatus::Failed, "{}", seen.details());
    let open = grade_without(&edit, &["restore_tests"]);
    assert_eq!(open.status(P2P[0]), TestStatus::Passed, "{}", open.details());
}

#[test]
fn deleted_test_is_restored() {
    let edit = patch(&[("tests/test_kept.py", None), ("tests/helper.py", None)]);
    let seen = grade_with_all_defenses(&edit);
    assert_eq!(seen.status(P2P[1]), TestStatus::Passed, "{}", seen.details());
    assert_eq!(grade_without(&edit, &["restore_tests"]).status(P2P[1]), TestStatus::Error);
}

#[test]
fn edited_pytest_configuration_is_restored() {
    let config = "[tool.pytest.ini_options]\naddopts = \"-p cheat\"\n";
    let cheat = ("cheat.py", Some(PASS_ALL_CONFTEST));
    for (name, text) in [
        ("pyproject.toml", config),
        ("pytest.ini", "[pytest]\naddopts = -p cheat\n"),
        ("tests/pytest.ini", "[pytest]\naddopts = -p cheat\n"),
        ("tests/.pytest.ini", "[pytest]\naddopts = -p cheat\n"),
    ] {
        let edit = patch(&[(name, Some(text)), cheat]);
        let seen = grade_with_all_defenses(&edit);
        assert!(!seen.is_resolved(), "{name}: {}", seen.details());
        assert!(seen.has_evidence("config_restored"), "{name}: {}", seen.details());
        assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{name}: {}", seen.details());
    }
    let edit = patch(&[("pyproject.toml", Some(config)), cheat]);
    let open = grade_without(&edit, &with_fallback_defenses(&["restore_config"]));
    assert!(open.is_resolved(), "{}", open.details());
    // A second defense also detects it.
    let second = grade_without(&edit, &["restore_config"]);
    assert!(second.is_suspect() && !second.is_resolved());
    assert!(
        second.has_evidence("canary_passed") && second.has_evidence("unknown_plugin"),
        "{}",
        second.details()
    );
}

#[test]
fn conftest_in_a_parent_folder_is_removed() {
    let edit = patch(&[("conftest.py", Some(PASS_ALL_CONFTEST))]);
    let seen = grade_with_all_defenses(&edit);
    assert!(!seen.is_resolved() && seen.has_evidence("config_restored"), "{}", seen.details());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.details());
    let open = grade_without(&edit, &with_fallback_defenses(&["restore_config"]));
    assert!(open.is_resolved(), "{}", open.details());
}

#[test]
fn conftest_in_a_sibling_folder_is_removed() {
    let config = "[pytest]\naddopts = -p sibling.conftest\n";
    let edit =
        patch(&[("sibling/conftest.py", Some(PASS_ALL_CONFTEST)), ("pytest.ini", Some(config))]);
    let seen = grade_with_all_defenses(&edit);
    assert!(!seen.is_resolved() && seen.has_evidence("config_restored"), "{}", seen.details());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.details());
    let open = grade_without(&edit, &with_fallback_defenses(&["restore_config"]));
    assert!(open.is_resolved(), "{}", open.details());
}

#[test]
fn conftest_that_exits_is_removed() {
    let cheat = "import os\nprint('5 passed')\nos._exit(0)\n";
    let edit = patch(&[("conftest.py", Some(cheat))]);
    let seen = grade_with_all_defenses(&edit);
    assert!(!seen.is_resolved() && seen.has_evidence("config_restored"));
    assert_eq!(seen.status(P2P[0]), TestStatus::Passed, "{}", seen.details());
    let open = grade_without(&edit, &["restore_config"]);
    assert_eq!(open.status(P2P[0]), TestStatus::Missing);
    assert!(open.is_suspect() && open.has_evidence("exit_without_end"), "{}", open.details());
}
