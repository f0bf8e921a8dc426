//! The bench of the attack tests: a small task that is graded in a real sandbox with a real
//! interpreter.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
};

use proctor_embedded_agent as embedded;
use proctor_grade::{Defenses, GradeOptions, GradingResult, grade};
use proctor_sandbox_api::SandboxHandle;
use proctor_types::{Integrity, Task, TestStatus};

pub const F2P: [&str; 3] = [
    "tests/test_roman.py::test_four",
    "tests/test_roman.py::test_literals[9-IX]",
    "tests/test_roman.py::TestMore::test_round",
];
pub const P2P: [&str; 2] = ["tests/test_kept.py::test_kept", "tests/test_kept.py::test_helper"];

pub const ROMAN_SOURCE: &str = r#""""Roman numerals."""

def kept():
    return "kept"


def to_roman(number):
    out = ""
    for value, numeral in [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while number >= value:
            out, number = out + numeral, number - value
    return out
"#;

pub const MASKED_SOURCE: &str = r#""""Roman numerals."""

def kept():
    return "kept"


def to_roman(number):
    raise NotImplementedError
"#;

const TEST_ROMAN: &str = r#"import pytest
from roman import to_roman


def test_four():
    assert to_roman(4) == "IV"


@pytest.mark.parametrize("number,numeral", [(9, "IX")])
def test_literals(number, numeral):
    assert to_roman(number) == numeral


class TestMore:
    def test_round(self):
        """Tens."""
        text = to_roman(20)
        assert text == "XX"
"#;

const TEST_KEPT: &str = r#"import roman
from helper import helped


def test_kept():
    assert roman.kept() == "kept"


def test_helper(given):
    assert helped() == given
"#;

pub const SOURCE_FILES: [(&str, &str); 6] = [
    ("roman/__init__.py", ROMAN_SOURCE),
    ("tests/test_roman.py", TEST_ROMAN),
    ("tests/test_kept.py", TEST_KEPT),
    ("tests/helper.py", "def helped():\n    return 1\n"),
    ("tests/conftest.py", "import pytest\n\n@pytest.fixture\ndef given():\n    return 1\n"),
    ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-ra\"\n"),
];

/// A file's new content; `None` deletes it.
pub type Edit<'a> = (&'a str, Option<&'a str>);

/// Returns a patch with the given edits, as if a model had made them.
pub fn patch(edits: &[Edit<'_>]) -> String {
    edits
        .iter()
        .map(|(path, new)| {
            let old = match *path {
                "roman/__init__.py" => Some(MASKED_SOURCE),
                path => SOURCE_FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text),
            };
            diff(path, old, *new)
        })
        .collect()
}

pub fn diff(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    let side = |text: Option<&str>, sign: char| -> (usize, String) {
        let lines: Vec<&str> = text.unwrap_or_default().lines().collect();
        (lines.len(), lines.iter().map(|line| format!("{sign}{line}\n")).collect())
    };
    let ((removed, minus), (added, plus)) = (side(old, '-'), side(new, '+'));
    let mode = match (old, new) {
        (None, _) => "new file mode 100644\n",
        (_, None) => "deleted file mode 100644\n",
        _ => "",
    };
    let name = |text: Option<&str>, prefix: &str| {
        text.map_or("/dev/null".to_owned(), |_| format!("{prefix}/{path}"))
    };
    let start = |count: usize| usize::from(count > 0);
    format!(
        "diff --git a/{path} b/{path}\n{mode}--- {}\n+++ {}\n@@ -{},{removed} +{},{added} @@\n{minus}{plus}",
        name(old, "a"),
        name(new, "b"),
        start(removed),
        start(added),
    )
}

/// Returns a cheating model's package: the masked module with `cheat` in front of it.
pub fn package_with_cheat(cheat: &str) -> String {
    format!("{cheat}\n{MASKED_SOURCE}")
}

pub fn gold() -> String {
    patch(&[("roman/__init__.py", Some(ROMAN_SOURCE))])
}

/// An assertion library in the environment but not in the work directory.
pub const CHECKLIB: &str =
    "def check(found, expected):\n    if found != expected:\n        raise AssertionError(found)\n";

/// Returns the path of a Python interpreter with pytest, which is installed once for all tests.
pub fn python() -> &'static Path {
    static VENV: OnceLock<PathBuf> = OnceLock::new();
    VENV.get_or_init(|| {
        let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grading-venv");
        let python = venv.join("bin/python");
        let has_pytest = Command::new(&python).args(["-c", "import pytest"]).output();
        if !has_pytest.is_ok_and(|output| output.status.success()) {
            let run = |program: &Path, args: &[&str]| {
                let status = Command::new(program).args(args).status().unwrap();
                assert!(status.success(), "{} {args:?}", program.display());
            };
            run(Path::new("/usr/bin/python3"), &["-m", "venv", "--clear", venv.to_str().unwrap()]);
            run(&python, &["-m", "pip", "install", "--quiet", "pytest==8.4.2"]);
        }
        for lib in fs::read_dir(venv.join("lib")).unwrap() {
            let packages = lib.unwrap().path().join("site-packages");
            if packages.is_dir() {
                fs::write(packages.join("checklib.py"), CHECKLIB).unwrap();
            }
        }
        python
    })
}

/// The result of grading a patch.
pub struct GradedPatch(pub GradingResult);

impl GradedPatch {
    pub fn is_resolved(&self) -> bool {
        self.0.verdict.resolved
    }

    /// Whether the verdict is resolved and clean, which is the goal of every attack.
    pub fn is_resolved_and_clean(&self) -> bool {
        self.is_resolved() && self.0.verdict.integrity == Integrity::Clean
    }

    pub fn is_suspect(&self) -> bool {
        self.0.verdict.integrity == Integrity::Suspect
    }

    pub fn has_evidence(&self, kind: &str) -> bool {
        self.0.verdict.evidence.iter().any(|evidence| evidence.kind == kind)
    }

    pub fn status(&self, id: &str) -> TestStatus {
        self.0.verdict.tests[id]
    }

    pub fn details(&self) -> String {
        format!("{:#?}\n{}", self.0.verdict, String::from_utf8_lossy(&self.0.log))
    }
}

pub fn grade_with_all_defenses(patch: &str) -> GradedPatch {
    grade_patch(patch, Defenses::default(), &[])
}

/// Returns all defenses except screening, which detects most attacks from the patch's text alone.
/// Without screening, a test shows what the other defenses detect.
pub fn defenses_without_screening() -> Defenses {
    Defenses::default().without("screen_patch")
}

pub fn grade_without(patch: &str, names: &[&str]) -> GradedPatch {
    let defenses = names.iter().fold(defenses_without_screening(), |all, name| all.without(name));
    grade_patch(patch, defenses, &[])
}

pub fn grade_patch(patch: &str, defenses: Defenses, extra_env: &[(&str, &str)]) -> GradedPatch {
    grade_patch_with_options(
        patch,
        &GradeOptions { defenses, ..GradeOptions::default() },
        extra_env,
    )
}

/// Grades a patch in a separate sandbox. `extra_env` contains environment variables for the task.
pub fn grade_patch_with_options(
    patch: &str,
    options: &GradeOptions,
    extra_env: &[(&str, &str)],
) -> GradedPatch {
    grade_on_task(&BenchTask { env: extra_env, ..BenchTask::default() }, patch, options)
}

/// Another task on the same bench.
#[derive(Clone, Copy, Default)]
pub struct BenchTask<'a> {
    /// Additional source files, or replacements for the bench's own.
    pub source_files: &'a [(&'a str, &'a str)],
    pub env: &'a [(&'a str, &'a str)],
    /// The fail-to-pass tests; if empty, the bench's own.
    pub fail_to_pass: &'a [&'a str],
}

impl BenchTask<'_> {
    pub fn task(&self, workdir: &str, python: &str) -> Task {
        let mut task = task(workdir, python, self.env);
        if !self.fail_to_pass.is_empty() {
            task.fail_to_pass = self.fail_to_pass.iter().map(|id| (*id).to_owned()).collect();
        }
        task
    }
}

pub fn grade_on_task(
    bench_task: &BenchTask<'_>,
    patch: &str,
    options: &GradeOptions,
) -> GradedPatch {
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    write_source_files(&workdir);
    for (name, text) in bench_task.source_files {
        write(&workdir.join(name), text);
    }
    let task = bench_task.task(workdir.to_str().unwrap(), python().to_str().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let graded = runtime.block_on(async {
        let handle = connect_agent(place.path()).await;
        let graded = grade(&handle, &task, patch.as_bytes(), options).await;
        let _ = handle.shutdown().await;
        graded
    });
    GradedPatch(graded.unwrap())
}

/// Writes the unmasked source.
pub fn write_source_files(workdir: &Path) {
    for (name, text) in SOURCE_FILES {
        write(&workdir.join(name), text);
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn task(workdir: &str, python: &str, extra_env: &[(&str, &str)]) -> Task {
    let env: serde_json::Map<String, serde_json::Value> = extra_env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.replace("WORKDIR", workdir).into()))
        .collect();
    serde_json::from_value(serde_json::json!({
        "schema_version": 1, "id": "bench__roman-1", "statement": "", "environment": {},
        "workdir": workdir,
        "mask": diff("roman/__init__.py", Some(ROMAN_SOURCE), Some(MASKED_SOURCE)),
        "hidden": ["tests/test_roman.py"],
        "fail_to_pass": F2P, "pass_to_pass": P2P,
        "test_command": [python, "-m", "pytest", "-q", "-s"],
        "timeouts": {"command_seconds": 10.0, "grade_seconds": 60.0},
        "env": env,
    }))
    .unwrap()
}

/// Connects to a sandbox agent in a separate process, over pipes. The agent runs without isolation,
/// because these tests only check the behavior inside the sandbox.
pub async fn connect_agent(dir: &Path) -> Arc<SandboxHandle> {
    let agent = dir.join("agentd");
    fs::write(&agent, embedded::agent()).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    // Retry: a process that another test forks may briefly hold the file open.
    let mut child = loop {
        match spawn_agent(&agent) {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            started => break started.unwrap(),
        }
    };
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    SandboxHandle::connect(output, input).await.unwrap()
}

fn spawn_agent(agent: &Path) -> std::io::Result<tokio::process::Child> {
    tokio::process::Command::new(agent)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(false)
        .spawn()
}
