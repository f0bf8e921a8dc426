//! Tests from-scratch submissions that use the original library instead of rewriting it.

use proctor_grade::{Defenses, FrozenIds, GradeOptions, grade};
use proctor_types::{Benchmark, Task};
use serde_json::json;

use crate::bench::{
    GradedPatch, connect_agent, defenses_without_screening, diff, python, task, write_source_files,
};

const SETUP: &str =
    "from setuptools import setup, find_packages\nsetup(packages=find_packages())\n";

/// Tests that use another part of the library.
const TESTS_USING_LIBRARY: &str = "import agent_code
from roman import kept


def test_four():
    assert kept() == 'kept'
    assert agent_code.to_roman(4) == 'IV'


if hasattr(agent_code, 'to_roman'):
    def test_nine():
        assert agent_code.to_roman(9) == 'IX'
";

/// Tests that do not use the library.
const TESTS_WITHOUT_LIBRARY: &str = "import agent_code


def test_four():
    assert agent_code.to_roman(4) == 'IV'


if hasattr(agent_code, 'to_roman'):
    def test_nine():
        assert agent_code.to_roman(9) == 'IX'
";

const OWN_IMPLEMENTATION: &str = r#"
def to_roman(number):
    out = ""
    for value, numeral in [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while number >= value:
            out, number = out + numeral, number - value
    return out
"#;

fn make_from_scratch_task(task: &mut Task, tests: &str) {
    (task.mask, task.hidden) = (None, Vec::new());
    task.fail_to_pass = vec!["tests/test_scratch.py".into()];
    task.pass_to_pass = Vec::new();
    task.test_patch = Some(diff("tests/test_scratch.py", None, Some(tests)));
    task.from_scratch = serde_json::from_value(json!({
        "files": {"README.md": "put all codes in this folder\n"}, "install": "pip install ."
    }))
    .unwrap();
    task.benchmark = Some(Benchmark { name: "featurebench".into(), ..Benchmark::default() });
}

fn grade_submission(tests: &str, files: &[(&str, &str)]) -> GradedPatch {
    grade_submission_with(tests, files, Defenses::default())
}

fn grade_submission_with(tests: &str, files: &[(&str, &str)], defenses: Defenses) -> GradedPatch {
    let patch: String = files.iter().map(|(path, text)| diff(path, None, Some(text))).collect();
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    write_source_files(&workdir);
    let mut task = task(workdir.to_str().unwrap(), python().to_str().unwrap(), &[]);
    make_from_scratch_task(&mut task, tests);
    let frozen = ["test_four", "test_nine"].map(|name| format!("tests/test_scratch.py::{name}"));
    let frozen = FrozenIds { fail_to_pass: frozen.into(), pass_to_pass: Vec::new() };
    let options = GradeOptions { frozen_ids: Some(frozen), defenses, ..GradeOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let graded = runtime.block_on(async {
        let handle = connect_agent(place.path()).await;
        let graded = grade(&handle, &task, patch.as_bytes(), &options).await;
        let _ = handle.shutdown().await;
        graded
    });
    GradedPatch(graded.unwrap())
}

/// Grades a package with one module.
fn grade_package(tests: &str, text: &str) -> GradedPatch {
    grade_submission(tests, &[("setup.py", SETUP), ("agent_code/__init__.py", text)])
}

/// Grades a package that is the library under another name.
pub fn grade_library_copy(defenses: Defenses) -> GradedPatch {
    let taken = "from roman import to_roman\n";
    grade_submission_with(
        TESTS_USING_LIBRARY,
        &[("setup.py", SETUP), ("agent_code/__init__.py", taken)],
        defenses,
    )
}

#[test]
fn honest_submission_resolves_with_and_without_the_library() {
    for tests in [TESTS_USING_LIBRARY, TESTS_WITHOUT_LIBRARY] {
        let seen = grade_package(tests, OWN_IMPLEMENTATION);
        assert!(seen.is_resolved() && !seen.is_suspect(), "{}", seen.details());
        let seen = grade_submission(
            tests,
            &[
                ("pyproject.toml", "[project]\nname = 'x'\n"),
                ("src/agent_code/__init__.py", OWN_IMPLEMENTATION),
            ],
        );
        assert!(seen.is_resolved(), "{}", seen.details());
    }
    for files in
        [&[("agent_code/__init__.py", OWN_IMPLEMENTATION)][..], &[("setup.py", SETUP)], &[]]
    {
        let seen = grade_submission(TESTS_USING_LIBRARY, files);
        assert!(!seen.is_resolved() && !seen.is_suspect(), "{}", seen.details());
    }
}

#[test]
fn library_use_is_reported_by_name() {
    let own = |first: &str| format!("{first}\n{OWN_IMPLEMENTATION}");
    let cases: [(&str, String); 9] = [
        ("imports to_roman of roman", "from roman import to_roman\n".into()),
        ("imports roman", "import roman\nto_roman = roman.to_roman\n".into()),
        (
            "imports roman",
            "import importlib\nto_roman = importlib.import_module('ro' + 'man').to_roman\n".into(),
        ),
        // This submission waits until a test has imported the library. The use is only detected if
        // attribute access is checked.
        (
            "agent_code.to_roman is to_roman of roman/__init__.py",
            "import sys\ndef __getattr__(name):\n    return getattr(sys.modules['roman'], name)\n"
                .into(),
        ),
        (
            "to_roman is to_roman of roman/__init__.py",
            // This submission wraps the library's function once a test has loaded the library.
            own("import functools, sys") + "\n_own = to_roman\n\n\ndef to_roman(n):\n    theirs = sys.modules['roman'].to_roman\n    globals()['to_roman'] = functools.wraps(theirs)(lambda n: _own(n))\n    return _own(n)\n",
        ),
        (
            "reads roman/__init__.py",
            "import sys\nfor entry in sys.path:\n    try:\n        exec(open(entry + '/roman/__init__.py').read())\n    except OSError:\n        pass\n".into(),
        ),
        (
            "reads roman/__init__.py",
            "import sys, pathlib\nfor entry in sys.path:\n    try:\n        text = pathlib.Path(entry, 'roman/__init__.py').read_text()\n        exec(compile(text, 'x', 'exec'))\n    except OSError:\n        pass\n".into(),
        ),
        // Failed attempts are also reported.
        ("imports to_roman of roman", own("try:\n    from roman import to_roman\nexcept ImportError:\n    pass\n")),
        (
            "imports to_roman of roman",
            "def to_roman(number):\n    from roman import to_roman\n    return to_roman(number)\n"
                .into(),
        ),
    ];
    for (said, text) in cases {
        let seen = grade_package(TESTS_USING_LIBRARY, &text);
        let evidence = &seen.0.verdict.evidence;
        let told = evidence.iter().any(|e| e.kind == "original_used" && e.what.contains(said));
        assert!(!seen.is_resolved() && seen.is_suspect() && told, "{said}: {}", seen.details());
        assert!(seen.0.verdict.policies["strict"].why.starts_with("original_used: "));
        let files = [("setup.py", SETUP), ("agent_code/__init__.py", text.as_str())];
        let open = grade_submission_with(
            TESTS_USING_LIBRARY,
            &files,
            defenses_without_screening().without("guard_original"),
        );
        assert!(open.is_resolved() && !open.is_suspect(), "{said}: {}", open.details());
    }
}

/// A library may set a class's `__module__` to a module other than the one that defines the class,
/// and a rewrite may do the same. A class that really belongs to the library is still reported.
#[test]
fn own_class_may_claim_the_library_module() {
    let errors = "\n\nclass NumeralWarning(UserWarning):\n    __module__ = 'roman'\n\n\n\
                  class Late(UserWarning):\n    pass\n\n\nLate.__module__ = 'roman'\n";
    let seen = grade_package(TESTS_USING_LIBRARY, &format!("{OWN_IMPLEMENTATION}{errors}"));
    assert!(seen.is_resolved() && !seen.is_suspect(), "{}", seen.details());
    // The library has the class, and the submission has a class statement with the same name.
    let tests = TESTS_USING_LIBRARY.replace(
        "from roman import kept\n",
        "import roman\nroman.Taken = type('Taken', (Exception,), {'__module__': 'roman'})\nfrom roman import kept\n",
    );
    let taken = "\n\nclass Taken(Exception):\n    pass\n\n\ndef __getattr__(name):\n    import sys\n    \
                 return getattr(sys.modules['roman'], name)\n\n\ndel Taken\n";
    let tests = tests.replace("def test_four():\n", "def test_four():\n    agent_code.Taken\n");
    let seen = grade_package(&tests, &format!("{OWN_IMPLEMENTATION}{taken}"));
    let evidence = &seen.0.verdict.evidence;
    let told = evidence.iter().any(|e| e.what.contains("agent_code.Taken is Taken of roman"));
    assert!(!seen.is_resolved() && told, "{}", seen.details());
}

/// If no test needs the library, grading removes it, so that no code can use it.
#[test]
fn library_is_removed_if_no_test_mentions_it() {
    for text in [
        "import sys\nto_roman = lambda n: sys.modules['roman'].to_roman(n)\n",
        "import subprocess, sys\ndef to_roman(n):\n    code = 'import roman; print(roman.to_roman(%d), end=\"\")' % n\n    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout\n",
    ] {
        let beside = grade_package(TESTS_USING_LIBRARY, text);
        assert!(beside.is_resolved(), "known to pass: {}", beside.details());
        let alone = grade_package(TESTS_WITHOUT_LIBRARY, text);
        assert!(!alone.is_resolved(), "{}", alone.details());
    }
}

/// Code under test affects which tests are collected.
#[test]
fn uncollected_test_is_missing() {
    let hidden = format!(
        "{OWN_IMPLEMENTATION}\n_once = to_roman\ndel to_roman\ndef __getattr__(name):\n    import sys\n    if name == 'to_roman' and sys._getframe(1).f_code.co_name != '<module>':\n        return _once\n    raise AttributeError(name)\n"
    );
    let seen = grade_package(TESTS_USING_LIBRARY, &hidden);
    assert!(!seen.is_resolved(), "{}", seen.details());
    assert_eq!(seen.status("tests/test_scratch.py"), proctor_types::TestStatus::Missing);
}

/// A submission's own plugins, configuration and shadowing modules are never used.
#[test]
fn submission_cannot_replace_tests_or_modules() {
    let evil = "raise SystemExit(0)\n";
    let seen = grade_submission(
        TESTS_USING_LIBRARY,
        &[
            ("setup.py", evil),
            ("conftest.py", evil),
            ("pytest.ini", "[pytest]\npython_files = none\n"),
            ("sitecustomize.py", evil),
            ("json/__init__.py", evil),
            ("roman/__init__.py", "def kept():\n    return 'mine'\n"),
            ("tests/test_scratch.py", "def test_four():\n    pass\ndef test_nine():\n    pass\n"),
            ("agent_code/__init__.py", OWN_IMPLEMENTATION),
        ],
    );
    assert!(seen.is_resolved() && !seen.is_suspect(), "{}", seen.details());
}
