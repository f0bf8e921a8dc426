//! Attacks with files that the interpreter or pytest loads automatically.

use proctor_grade::Defenses;
use proctor_types::TestStatus;

use crate::{
    bench::{F2P, grade_patch, grade_with_all_defenses, grade_without, patch},
    tree::PASS_ALL_CONFTEST,
};

#[test]
fn plugin_from_entry_points_in_the_work_directory_is_removed() {
    let edit = patch(&[
        ("cheat-1.0.dist-info/entry_points.txt", Some("[pytest11]\ncheat = cheat\n")),
        (
            "cheat-1.0.dist-info/METADATA",
            Some("Metadata-Version: 2.1\nName: cheat\nVersion: 1.0\n"),
        ),
        ("cheat.py", Some(PASS_ALL_CONFTEST)),
    ]);
    let seen = grade_with_all_defenses(&edit);
    assert!(!seen.is_resolved() && seen.is_suspect(), "{}", seen.details());
    assert!(seen.has_evidence("self_loading_removed"));
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed);
    // Each of these two defenses is enough.
    for one in ["remove_self_loading", "freeze_plugins"] {
        assert_eq!(grade_without(&edit, &[one]).status(F2P[0]), TestStatus::Failed);
    }
    let off = ["remove_self_loading", "freeze_plugins", "canaries", "fingerprints"];
    let open = grade_without(&edit, &off);
    assert!(open.is_resolved(), "{}", open.details());
}

pub const SITECUSTOMIZE_SOURCE: &str = "import _pytest.python
_pytest.python.pytest_pyfunc_call = lambda pyfuncitem: True
";

#[test]
fn sitecustomize_on_the_import_path_is_removed() {
    let edit = patch(&[("sitecustomize.py", Some(SITECUSTOMIZE_SOURCE))]);
    let path = [("PYTHONPATH", "WORKDIR")];
    let seen = grade_patch(&edit, Defenses::default(), &path);
    assert!(!seen.is_resolved() && seen.is_suspect(), "{}", seen.details());
    assert!(seen.has_evidence("self_loading_removed"), "{}", seen.details());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.details());

    // At start, the interpreter searches no folder that a patch can write to.
    let apart = Defenses::default().without("remove_self_loading");
    let seen = grade_patch(&edit, apart, &path);
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.details());

    let open = apart.without("guard_roots");
    let second = grade_patch(&edit, open, &path);
    assert!(!second.is_resolved() && second.has_evidence("canary_passed"), "{}", second.details());
    let open = grade_patch(&edit, open.without("canaries").without("fingerprints"), &path);
    assert!(open.is_resolved(), "{}", open.details());
}

#[test]
fn pth_file_is_removed() {
    let edit = patch(&[("src/cheat.pth", Some("import cheat\n"))]);
    let seen = grade_with_all_defenses(&edit);
    assert!(seen.is_suspect() && seen.has_evidence("self_loading_removed"), "{}", seen.details());
    assert!(!grade_without(&edit, &["remove_self_loading"]).has_evidence("self_loading_removed"));
}

#[test]
fn module_that_shadows_pytest_is_removed() {
    let cheat = "import sys\nfrom _pytest import runner\nprint('taken')\n";
    for name in ["pytest.py", "pluggy/__init__.py", "src/json.py"] {
        let edit = patch(&[(name, Some(cheat))]);
        let seen = grade_with_all_defenses(&edit);
        assert!(
            seen.is_suspect() && seen.has_evidence("shadowing_removed"),
            "{name}: {}",
            seen.details()
        );
        let open = grade_without(&edit, &["remove_shadowing"]);
        assert!(!open.has_evidence("shadowing_removed"));
        // Pytest is loaded before the work directory is on the import path, so nothing was replaced.
        assert!(!String::from_utf8_lossy(&open.0.log).contains("taken"), "{}", open.details());
    }
}

#[test]
fn bytecode_is_removed() {
    let edit = patch(&[("tests/__pycache__/test_roman.cpython-311.pyc", Some("x\n"))]);
    assert!(grade_with_all_defenses(&edit).has_evidence("bytecode_removed"));
    assert!(!grade_without(&edit, &["remove_bytecode"]).has_evidence("bytecode_removed"));
}
