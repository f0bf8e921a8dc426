//! Attacks on the recorder itself: its hooks, the functions that it calls, its observations. One of
//! the recorder's own defenses stops each attack, and the attack succeeds without this defense.

use crate::{attack::Attack, bench};

/// A forked process reads the tests.
const FORK_ATTACK: &str = r#"import os
import re


def text():
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, open('tests/test_roman.py', 'rb').read())
        os._exit(0)
    os.close(writer)
    os.wait()
    return os.read(reader, 60000).decode()


def kept():
    return 'kept'


def to_roman(number):
    found = re.findall(r'(\d+)[^"\d]*"([IVX]+)"', text())
    return {int(value): numeral for value, numeral in found}[number]
"#;

/// A path-like object that raises an exception when its class is accessed. A program that receives
/// this path reads the tests.
const RAISING_PATH_ATTACK: &str = r#"import re
import subprocess


class Path:
    @property
    def __class__(self):
        raise RuntimeError

    def __fspath__(self):
        return 'tests/test_roman.py'


def text():
    return subprocess.check_output(['cat', Path()]).decode()


def kept():
    return 'kept'


def to_roman(number):
    found = re.findall(r'(\d+)[^"\d]*"([IVX]+)"', text())
    return {int(value): numeral for value, numeral in found}[number]
"#;

/// Replaces the tests' class with a class whose code is not in a file.
const TEST_CLASS_ATTACK: &str = r#"
import sys

def find(kind):
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == kind:
                return value
        frame = frame.f_back

def kept():
    scope = {}
    exec('def runtest(self): pass', scope)
    for item in find('Session').items:
        if 'roman' in item.nodeid:
            kind = type(item)
            item.__class__ = type('Function', (kind,), {'__module__': kind.__module__, 'runtest': scope['runtest']})
    return 'kept'


def to_roman(number):
    return None
"#;

/// Changes an expectation when the test is called.
const PROFILE_FUNCTION_ATTACK: &str = r#"import sys


def watch(frame, event, argument):
    if event == 'call' and frame.f_code.co_name == 'test_late':
        frame.f_globals['EXPECTED'] = None


sys.setprofile(watch)


def kept():
    return 'kept'


def to_roman(number):
    return None
"#;

/// Changes the expectation from a garbage collector callback.
const GC_CALLBACK_ATTACK: &str = "import gc
import sys


def watch(phase, found):
    if 'test_late' in sys.modules:
        sys.modules['test_late'].EXPECTED = None


gc.callbacks.append(watch)


def kept():
    return 'kept'


def to_roman(number):
    gc.collect()
    return None
";

/// Changes the expectation from a signal handler.
const TIMER_ATTACK: &str = "import os
import signal
import sys


def watch(number, frame):
    sys.modules['test_late'].EXPECTED = None


signal.signal(signal.SIGALRM, watch)


def kept():
    return 'kept'


def to_roman(number):
    os.kill(os.getpid(), signal.SIGALRM)
    return None
";

/// Changes the expectation from a thread.
const THREAD_ATTACK: &str = "import _thread
import sys
import time


def watch():
    while True:
        time.sleep(0.001)
        if hasattr(sys.modules.get('test_late'), 'test_late'):
            sys.modules['test_late'].EXPECTED = None


_thread.start_new_thread(watch, ())


def kept():
    return 'kept'


def to_roman(number):
    time.sleep(0.2)
    return None
";

/// Replaces a function of the standard library with another one.
const REPLACED_FUNCTION_ATTACK: &str = r#"import math

math.isclose = max


def kept():
    return 'kept'


def to_roman(number):
    return 'nothing'
"#;

/// A program that does not get the tests' names reads the tests.
const PROGRAM_ATTACK: &str = r#"import re
import subprocess
import sys

SCAN = 'import pathlib; [print(path.read_text()) for path in pathlib.Path.cwd().rglob("*.py")]'


def text():
    return subprocess.check_output([sys.executable, '-c', SCAN], universal_newlines=True)


def kept():
    return 'kept'


def to_roman(number):
    found = re.findall(r'(\d+)[^"\d]*"([IVX]+)"', text())
    return {int(value): numeral for value, numeral in found}[number]
"#;

const TEST_LATE: &str = r#"from roman import to_roman

EXPECTED = 'I' + 'V'


def test_late():
    found = to_roman(4)
    assert found == EXPECTED
"#;

const TEST_CLOSE: &str = r#"import math
from roman import to_roman


def test_close():
    assert math.isclose(len(to_roman(4)), 2.0)
"#;

/// Returns each attack with the defenses that stop it. Any one of them is enough.
pub fn attacks() -> Vec<(&'static [&'static str], Attack)> {
    let package = |name: &'static str, text: &str, expected_kinds: &'static [&'static str]| {
        Attack::new(name, bench::patch(&[("roman/__init__.py", Some(text))]), expected_kinds)
    };
    let watcher = |name: &'static str, text: &str| {
        package(name, text, &["interpreter_patched"])
            .with_source_file("tests/test_late.py", TEST_LATE)
            .with_fail_to_pass("tests/test_late.py::test_late")
    };
    vec![
        (
            &["see_watchers"],
            watcher(
                "a garbage collector callback that changes what a test expects",
                GC_CALLBACK_ATTACK,
            ),
        ),
        (
            &["see_watchers"],
            watcher("a timer's handler that changes what a test expects", TIMER_ATTACK),
        ),
        (
            &["see_watchers", "see_readers"],
            watcher("a thread that changes what a test expects", THREAD_ATTACK),
        ),
        (
            &["follow_forks"],
            package("tests read by a forked process", FORK_ATTACK, &["tests_read"]),
        ),
        (
            &["see_openings"],
            package("tests read by a program that finds them", PROGRAM_ATTACK, &["tests_read"]),
        ),
        (
            &["tell_failures", "see_openings"],
            package("a path that makes a hook raise", RAISING_PATH_ATTACK, &["hook_failed"]),
        ),
        (
            &["compare_objects"],
            package("a test's class replaced", TEST_CLASS_ATTACK, &["interpreter_patched"]),
        ),
        (
            &["see_watchers", "see_readers"],
            watcher("a profile function that changes what a test expects", PROFILE_FUNCTION_ATTACK),
        ),
        (
            &["compare_snapshots"],
            package(
                "a standard library function in place of another",
                REPLACED_FUNCTION_ATTACK,
                &["module_replaced"],
            )
            .with_source_file("tests/test_close.py", TEST_CLOSE)
            .with_fail_to_pass("tests/test_close.py::test_close"),
        ),
    ]
}

#[test]
fn each_attack_is_detected_and_succeeds_without_its_defense() {
    let wrong: Vec<String> =
        attacks().iter().filter_map(|(defenses, attack)| attack.find_problem(defenses)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A forked process that continues with the tests could tell its parent what comes next.
#[test]
fn forked_process_that_runs_tests_is_detected() {
    let forks = bench::ROMAN_SOURCE.replace(
        "    return \"kept\"",
        "    import os\n    if os.fork():\n        os.wait()\n    return \"kept\"",
    );
    let patch = bench::patch(&[("roman/__init__.py", Some(forks.as_str()))]);
    let seen = bench::grade_without(&patch, &[]);
    assert!(seen.has_evidence("interpreter_patched") && seen.is_suspect(), "{}", seen.details());
    let open = bench::grade_without(&patch, &["follow_forks"]);
    assert!(!open.has_evidence("interpreter_patched"), "{}", open.details());
}

/// The patch swallows every exception in a `with` statement. The recorder detects that on Python
/// 3.12 and later; a canary in the statement detects it on every version.
#[test]
fn canary_in_a_with_statement_detects_swallowed_exceptions() {
    let swallows = "class quiet:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def kept():
    return 'kept'


def to_roman(number):
    raise NotImplementedError
";
    let test = "from roman import quiet, to_roman


def test_quiet():
    with quiet():
        found = to_roman(4)
        assert found == 'IV'
";
    let attack = Attack::new(
        "every exception swallowed",
        bench::patch(&[("roman/__init__.py", Some(swallows))]),
        &["canary_passed", "exception_swallowed"],
    )
    .with_source_file("tests/test_quiet.py", test)
    .with_fail_to_pass("tests/test_quiet.py::test_quiet");
    let seen = attack.grade(bench::defenses_without_screening());
    assert!(!seen.is_resolved_and_clean(), "{}", seen.details());
}

/// Expectations in branches also have canaries, so an honest solution is not `unverified`.
#[test]
fn honest_solution_is_clean_if_all_expectations_are_in_branches() {
    let test = "import sys
from roman import to_roman


def test_branches():
    for number in range(3, 6):
        if number == 4:
            assert to_roman(number) == 'IV'
        elif number == 5:
            assert to_roman(number) == 'V'


def test_version():
    if sys.version_info < (3, 0):
        assert to_roman(9) == 'VIIII'
    else:
        assert to_roman(9) == 'IX'
";
    let honest = Attack::new("honest", bench::gold(), &[])
        .with_source_file("tests/test_branches.py", test)
        .with_fail_to_pass("tests/test_branches.py::test_branches")
        .with_fail_to_pass("tests/test_branches.py::test_version");
    let seen = honest.grade(proctor_grade::Defenses::default());
    assert!(seen.is_resolved_and_clean(), "{}", seen.details());
    assert_eq!(seen.0.verdict.evidence, [], "{}", seen.details());
}
