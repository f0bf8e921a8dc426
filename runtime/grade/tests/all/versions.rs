//! Tests environments other than the bench's own: old versions of pytest, and plugins that rerun
//! tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use proctor_grade::{GradeOptions, GradingResult, grade};
use proctor_types::{Fault, Integrity, Task, TestStatus};

use crate::bench::{F2P, connect_agent, gold, python, task, write_source_files};

/// Returns an interpreter with the given packages, created once.
fn python_with_packages(name: &str, packages: &[&str]) -> PathBuf {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("grading-venv-{name}"));
    let python = venv.join("bin/python");
    let is_made = venv.join("is-made");
    if !is_made.exists() {
        let run = |program: &Path, args: &[&str]| {
            let status = Command::new(program).args(args).status().unwrap();
            assert!(status.success(), "{} {args:?}", program.display());
        };
        run(Path::new("/usr/bin/python3"), &["-m", "venv", "--clear", venv.to_str().unwrap()]);
        run(&python, &[&["-m", "pip", "install", "--quiet"][..], packages].concat());
        fs::write(is_made, "").unwrap();
    }
    python
}

/// Grades a patch on the bench's task after `edit` changed the task. `edit` also receives the
/// sandbox's folder.
fn grade_with_edit(
    python: &Path,
    patch: &str,
    files: &[(&str, &str)],
    edit: impl FnOnce(&mut Task, &Path),
) -> Result<GradingResult, Fault> {
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    write_source_files(&workdir);
    for (name, text) in files {
        fs::write(workdir.join(name), text).unwrap();
    }
    let mut task = task(workdir.to_str().unwrap(), python.to_str().unwrap(), &[]);
    edit(&mut task, place.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let handle = connect_agent(place.path()).await;
        let graded = grade(&handle, &task, patch.as_bytes(), &GradeOptions::default()).await;
        let _ = handle.shutdown().await;
        graded
    })
}

#[test]
fn gold_is_resolved_with_single_module_versions_of_pytest() {
    for version in ["4.6.11", "5.0.1", "5.3.5"] {
        let python =
            python_with_packages(&format!("pytest-{version}"), &[&format!("pytest=={version}")]);
        // These versions of pytest cannot rewrite assertions on Python 3.8 and later.
        let plain = |task: &mut Task, _: &Path| task.test_command.push("--assert=plain".into());
        let seen = grade_with_edit(&python, &gold(), &[], plain).unwrap().verdict;
        assert!(seen.resolved, "{version}: {seen:#?}");
        assert!(seen.integrity <= Integrity::Unverified, "{version}: {seen:#?}");
        let seen = grade_with_edit(&python, "", &[], plain).unwrap().verdict;
        assert!(!seen.resolved, "{version}: {seen:#?}");
        assert_eq!(seen.tests[F2P[0]], TestStatus::Failed, "{version}: {seen:#?}");
    }
}

#[test]
fn recorder_failure_before_the_tests_is_a_fault() {
    let broken = |task: &mut Task, place: &Path| {
        // Break a module that the recorder needs and pytest does not.
        let library = place.join("library");
        fs::create_dir(&library).unwrap();
        fs::write(library.join("hashlib.py"), "raise ImportError('there is no hashlib')\n")
            .unwrap();
        task.env.insert("PYTHONPATH".into(), library.to_str().unwrap().into());
    };
    for patch in [gold(), String::new()] {
        let fault = grade_with_edit(python(), &patch, &[], broken).unwrap_err();
        assert!(fault.what.contains("the recorder failed before pytest"), "{fault}");
        assert!(fault.what.contains("there is no hashlib"), "{fault}");
    }
}

const RERUN_TESTS: &str = "import pytest
from roman import to_roman

TRIES = []


@pytest.mark.flaky(reruns=2)
def test_four():
    TRIES.append(0)
    assert to_roman(4) == 'IV' and len(TRIES) == 2


def test_one():
    assert to_roman(1) == 'I'
";

#[test]
fn test_that_passes_on_a_rerun_is_flaky_without_evidence() {
    for package in ["pytest-rerunfailures", "pytest-retry", "flaky"] {
        let python = python_with_packages(package, &["pytest==8.4.2", package]);
        // Each plugin has its own argument for the number of tries.
        let text = match package {
            "pytest-retry" => RERUN_TESTS.replace("reruns=2", "retries=2"),
            "flaky" => RERUN_TESTS.replace("reruns=2", "max_runs=2"),
            _ => RERUN_TESTS.to_owned(),
        };
        let ids = ["tests/test_again.py::test_four", "tests/test_again.py::test_one"];
        let edit = |task: &mut Task, _: &Path| task.fail_to_pass = ids.map(str::to_owned).into();
        let files = [("tests/test_again.py", text.as_str())];
        let seen = grade_with_edit(&python, &gold(), &files, edit).unwrap().verdict;
        assert_eq!(seen.tests[ids[0]], TestStatus::Flaky, "{package}: {seen:#?}");
        assert_eq!(seen.tests[ids[1]], TestStatus::Passed, "{package}: {seen:#?}");
        assert!(!seen.resolved, "{package}: {seen:#?}");
        let forged = ["doubled_record", "report_without_run", "report_mismatch"];
        let is_forged = seen.evidence.iter().any(|one| forged.contains(&one.kind.as_str()));
        assert!(!is_forged, "{package}: {seen:#?}");
        let none = grade_with_edit(&python, "", &files, edit).unwrap().verdict;
        assert_eq!(none.tests[ids[0]], TestStatus::Failed, "{package}: {none:#?}");
    }
}
