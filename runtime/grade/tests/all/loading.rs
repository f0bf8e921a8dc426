//! Attacks with files that the interpreter or pytest loads automatically.

use proctor_grade::Defences;
use proctor_types::TestStatus;

use crate::{
    bench::{F2P, graded, patch, with_all, without},
    tree::PASS_ALL,
};

#[test]
fn plugin_from_entry_points_in_the_work_directory_is_removed() {
    let edit = patch(&[
        ("cheat-1.0.dist-info/entry_points.txt", Some("[pytest11]\ncheat = cheat\n")),
        (
            "cheat-1.0.dist-info/METADATA",
            Some("Metadata-Version: 2.1\nName: cheat\nVersion: 1.0\n"),
        ),
        ("cheat.py", Some(PASS_ALL)),
    ]);
    let seen = with_all(&edit);
    assert!(!seen.resolved() && seen.suspect(), "{}", seen.details());
    assert!(seen.has("self_loading_removed"));
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed);
    // Each of these two defences is enough.
    for one in ["remove_self_loading", "freeze_plugins"] {
        assert_eq!(without(&edit, &[one]).status(F2P[0]), TestStatus::Failed);
    }
    let off = ["remove_self_loading", "freeze_plugins", "canaries", "fingerprints"];
    let open = without(&edit, &off);
    assert!(open.resolved(), "{}", open.details());
}

pub const SITE: &str = "import _pytest.python
_pytest.python.pytest_pyfunc_call = lambda pyfuncitem: True
";

#[test]
fn sitecustomize_on_the_import_path_is_removed() {
    let edit = patch(&[("sitecustomize.py", Some(SITE))]);
    let path = [("PYTHONPATH", "WORKDIR")];
    let seen = graded(&edit, Defences::default(), &path);
    assert!(!seen.resolved() && seen.suspect(), "{}", seen.details());
    assert!(seen.has("self_loading_removed"), "{}", seen.details());
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.details());

    // When the interpreter starts, it searches no folder that a patch can write to.
    let apart = Defences::default().without("remove_self_loading");
    let seen = graded(&edit, apart, &path);
    assert_eq!(seen.status(F2P[0]), TestStatus::Failed, "{}", seen.details());

    let open = apart.without("guard_roots");
    let second = graded(&edit, open, &path);
    assert!(!second.resolved() && second.has("canary_passed"), "{}", second.details());
    let open = graded(&edit, open.without("canaries").without("fingerprints"), &path);
    assert!(open.resolved(), "{}", open.details());
}

#[test]
fn pth_file_is_removed() {
    let edit = patch(&[("src/cheat.pth", Some("import cheat\n"))]);
    let seen = with_all(&edit);
    assert!(seen.suspect() && seen.has("self_loading_removed"), "{}", seen.details());
    assert!(!without(&edit, &["remove_self_loading"]).has("self_loading_removed"));
}

#[test]
fn module_that_shadows_pytest_is_removed() {
    let cheat = "import sys\nfrom _pytest import runner\nprint('taken')\n";
    for name in ["pytest.py", "pluggy/__init__.py", "src/json.py"] {
        let edit = patch(&[(name, Some(cheat))]);
        let seen = with_all(&edit);
        assert!(seen.suspect() && seen.has("shadowing_removed"), "{name}: {}", seen.details());
        let open = without(&edit, &["remove_shadowing"]);
        assert!(!open.has("shadowing_removed"));
        // Pytest is loaded before the work directory is on the import path, so nothing was replaced.
        assert!(!String::from_utf8_lossy(&open.0.log).contains("taken"), "{}", open.details());
    }
}

#[test]
fn bytecode_is_removed() {
    let edit = patch(&[("tests/__pycache__/test_roman.cpython-311.pyc", Some("x\n"))]);
    assert!(with_all(&edit).has("bytecode_removed"));
    assert!(!without(&edit, &["remove_bytecode"]).has("bytecode_removed"));
}
