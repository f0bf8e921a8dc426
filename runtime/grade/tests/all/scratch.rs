//! Submissions from scratch that use the library that they were to rewrite.

use proctor_grade::{Defences, Frozen, GradeOptions, grade};
use proctor_types::{Benchmark, Task};
use serde_json::json;

use crate::bench::{Seen, diff, handle, inner_defences, lay, python, task};

const SETUP: &str =
    "from setuptools import setup, find_packages\nsetup(packages=find_packages())\n";

/// Uses the library for something else.
const BESIDE: &str = "import agent_code
from roman import kept


def test_four():
    assert kept() == 'kept'
    assert agent_code.to_roman(4) == 'IV'


if hasattr(agent_code, 'to_roman'):
    def test_nine():
        assert agent_code.to_roman(9) == 'IX'
";

/// Uses nothing else from it.
const ALONE: &str = "import agent_code


def test_four():
    assert agent_code.to_roman(4) == 'IV'


if hasattr(agent_code, 'to_roman'):
    def test_nine():
        assert agent_code.to_roman(9) == 'IX'
";

const OWN: &str = r#"
def to_roman(number):
    out = ""
    for value, numeral in [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while number >= value:
            out, number = out + numeral, number - value
    return out
"#;

fn from_scratch(task: &mut Task, tests: &str) {
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

fn submitted(tests: &str, files: &[(&str, &str)]) -> Seen {
    submitted_with(tests, files, Defences::default())
}

fn submitted_with(tests: &str, files: &[(&str, &str)], defences: Defences) -> Seen {
    let patch: String = files.iter().map(|(path, text)| diff(path, None, Some(text))).collect();
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    lay(&workdir);
    let mut task = task(workdir.to_str().unwrap(), python().to_str().unwrap(), &[]);
    from_scratch(&mut task, tests);
    let frozen = ["test_four", "test_nine"].map(|name| format!("tests/test_scratch.py::{name}"));
    let frozen = Frozen { fail_to_pass: frozen.into(), pass_to_pass: Vec::new() };
    let options = GradeOptions { frozen: Some(frozen), defences, ..GradeOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let graded = runtime.block_on(async {
        let handle = handle(place.path()).await;
        let graded = grade(&handle, &task, patch.as_bytes(), &options).await;
        let _ = handle.shutdown().await;
        graded
    });
    Seen(graded.unwrap())
}

/// A package with one module.
fn package(tests: &str, text: &str) -> Seen {
    submitted(tests, &[("setup.py", SETUP), ("agent_code/__init__.py", text)])
}

/// A package that is the library under another name.
pub fn the_library_itself(defences: Defences) -> Seen {
    let taken = "from roman import to_roman\n";
    submitted_with(BESIDE, &[("setup.py", SETUP), ("agent_code/__init__.py", taken)], defences)
}

#[test]
fn code_of_ones_own_resolves_beside_the_library_and_without_it() {
    for tests in [BESIDE, ALONE] {
        let seen = package(tests, OWN);
        assert!(seen.resolved() && !seen.suspect(), "{}", seen.tell());
        let seen = submitted(
            tests,
            &[("pyproject.toml", "[project]\nname = 'x'\n"), ("src/agent_code/__init__.py", OWN)],
        );
        assert!(seen.resolved(), "{}", seen.tell());
    }
    for files in [&[("agent_code/__init__.py", OWN)][..], &[("setup.py", SETUP)], &[]] {
        let seen = submitted(BESIDE, files);
        assert!(!seen.resolved() && !seen.suspect(), "{}", seen.tell());
    }
}

#[test]
fn the_library_in_the_submissions_place_is_told_by_name() {
    let own = |first: &str| format!("{first}\n{OWN}");
    let cases: [(&str, String); 9] = [
        ("imports to_roman of roman", "from roman import to_roman\n".into()),
        ("imports roman", "import roman\nto_roman = roman.to_roman\n".into()),
        (
            "imports roman",
            "import importlib\nto_roman = importlib.import_module('ro' + 'man').to_roman\n".into(),
        ),
        // It is loaded after a test has been, so attribute access is checked then.
        (
            "agent_code.to_roman is to_roman of roman/__init__.py",
            "import sys\ndef __getattr__(name):\n    return getattr(sys.modules['roman'], name)\n"
                .into(),
        ),
        (
            "to_roman is to_roman of roman/__init__.py",
            // Wrapped, once a test has loaded it.
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
        // Failed attempts are reported, too.
        ("imports to_roman of roman", own("try:\n    from roman import to_roman\nexcept ImportError:\n    pass\n")),
        (
            "imports to_roman of roman",
            "def to_roman(number):\n    from roman import to_roman\n    return to_roman(number)\n"
                .into(),
        ),
    ];
    for (said, text) in cases {
        let seen = package(BESIDE, &text);
        let evidence = &seen.0.verdict.evidence;
        let told = evidence.iter().any(|e| e.kind == "original_used" && e.what.contains(said));
        assert!(!seen.resolved() && seen.suspect() && told, "{said}: {}", seen.tell());
        assert!(seen.0.verdict.policies["strict"].why.starts_with("original_used: "));
        let files = [("setup.py", SETUP), ("agent_code/__init__.py", text.as_str())];
        let open = submitted_with(BESIDE, &files, inner_defences().without("guard_original"));
        assert!(open.resolved() && !open.suspect(), "{said}: {}", open.tell());
    }
}

/// Libraries expose their classes under a different module than the defining one, and a rewrite may
/// do the same. A class that really is the library's is still reported.
#[test]
fn a_class_of_ones_own_may_carry_the_librarys_name() {
    let errors = "\n\nclass NumeralWarning(UserWarning):\n    __module__ = 'roman'\n\n\n\
                  class Late(UserWarning):\n    pass\n\n\nLate.__module__ = 'roman'\n";
    let seen = package(BESIDE, &format!("{OWN}{errors}"));
    assert!(seen.resolved() && !seen.suspect(), "{}", seen.tell());
    // The library has the class, and a class statement with its name is beside it.
    let tests = BESIDE.replace(
        "from roman import kept\n",
        "import roman\nroman.Taken = type('Taken', (Exception,), {'__module__': 'roman'})\nfrom roman import kept\n",
    );
    let taken = "\n\nclass Taken(Exception):\n    pass\n\n\ndef __getattr__(name):\n    import sys\n    \
                 return getattr(sys.modules['roman'], name)\n\n\ndel Taken\n";
    let tests = tests.replace("def test_four():\n", "def test_four():\n    agent_code.Taken\n");
    let seen = package(&tests, &format!("{OWN}{taken}"));
    let evidence = &seen.0.verdict.evidence;
    let told = evidence.iter().any(|e| e.what.contains("agent_code.Taken is Taken of roman"));
    assert!(!seen.resolved() && told, "{}", seen.tell());
}

/// If no test needs the library, it is removed for all code.
#[test]
fn a_library_that_no_test_names_is_gone() {
    for text in [
        "import sys\nto_roman = lambda n: sys.modules['roman'].to_roman(n)\n",
        "import subprocess, sys\ndef to_roman(n):\n    code = 'import roman; print(roman.to_roman(%d), end=\"\")' % n\n    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout\n",
    ] {
        let beside = package(BESIDE, text);
        assert!(beside.resolved(), "known to pass: {}", beside.tell());
        let alone = package(ALONE, text);
        assert!(!alone.resolved(), "{}", alone.tell());
    }
}

/// The code under test decides what is collected.
#[test]
fn a_test_that_is_not_collected_is_missed() {
    let hidden = format!(
        "{OWN}\n_once = to_roman\ndel to_roman\ndef __getattr__(name):\n    import sys\n    if name == 'to_roman' and sys._getframe(1).f_code.co_name != '<module>':\n        return _once\n    raise AttributeError(name)\n"
    );
    let seen = package(BESIDE, &hidden);
    assert!(!seen.resolved(), "{}", seen.tell());
    assert_eq!(seen.status("tests/test_scratch.py"), proctor_types::TestStatus::Missing);
}

/// A submission's own plugin, configuration or replacement module is never used.
#[test]
fn a_submission_beside_the_tests_replaces_nothing() {
    let evil = "raise SystemExit(0)\n";
    let seen = submitted(
        BESIDE,
        &[
            ("setup.py", evil),
            ("conftest.py", evil),
            ("pytest.ini", "[pytest]\npython_files = none\n"),
            ("sitecustomize.py", evil),
            ("json/__init__.py", evil),
            ("roman/__init__.py", "def kept():\n    return 'mine'\n"),
            ("tests/test_scratch.py", "def test_four():\n    pass\ndef test_nine():\n    pass\n"),
            ("agent_code/__init__.py", OWN),
        ],
    );
    assert!(seen.resolved() && !seen.suspect(), "{}", seen.tell());
}
