//! Tests that copies of the package under test are hidden from the agent, and from the code under
//! test until the last test has run. The copies are parts of real packages that pip, setuptools and
//! pytest bundle or need.

#![expect(clippy::print_stdout, reason = "the findings explain a failed test")]
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::{fmt::Write as _, path::Path};

use proctor_docker::Docker;
use proctor_grade::{GradeOptions, find_leaks, grade};
use proctor_native::Native;
use proctor_run::{CancelSignal, Capacity, GradingSandbox, grade_patch};
use proctor_sandbox_api::{Backend, Command, Machine, PreparedEnvironment, SandboxRequest};
use proctor_setup::{
    LayerFindings, Preparation, Purpose, ReadySandbox, Sources, prepare_for_agent,
    resolve_layer_spec,
};
use proctor_types::{Integrity, OnFinding, SandboxSpec, Task, Verdict};
use serde_json::json;

use crate::not_run::not_run;

/// A package, the file that is masked, and tests for that file's behavior.
struct Subject {
    name: &'static str,
    version: &'static str,
    sha256: &'static str,
    file: &'static str,
    tests: &'static str,
}

/// Package that pip, setuptools and others bundle. Pytest imports it late.
const PACKAGING: Subject = Subject {
    name: "packaging",
    version: "25.0",
    sha256: "d443872c98d677bf60f6a1f2f8c1cb748e8fe762d2bf9d3148b5599295b0fc4f",
    file: "src/packaging/version.py",
    tests: "def test_hidden():\n    from packaging.version import Version, parse\n    \
            assert Version('1.0.post1') > parse('1.0')\n\n\n\
            def test_kept():\n    from packaging import _structures\n    assert _structures\n",
};

/// A package that pytest needs to start.
const INICONFIG: Subject = Subject {
    name: "iniconfig",
    version: "2.1.0",
    sha256: "3abbd2e30b36733fee78f9c7f7308f2d0050e88f0087fd25c2645f63c773e1c7",
    file: "src/iniconfig/__init__.py",
    tests: "def test_hidden():\n    from iniconfig import IniConfig\n    \
            assert IniConfig('x', data='[a]\\nb = 1')['a']['b'] == '1'\n\n\n\
            def test_kept():\n    from iniconfig import exceptions\n    assert exceptions\n",
};

/// A patch that searches the sandbox for the solution instead of solving the task. It looks
/// outside its own directory for any source file, compiled file or archive with the masked file's
/// name.
const COPY_SEARCH_SCRIPT: &str = r#"import glob, marshal, os, sys, zipfile

_own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_tail = TAIL
_stem = os.path.splitext(os.path.basename(_tail))[0]


def _codes():
    for folder, _, names in os.walk("/"):
        if folder.startswith(("/proc", "/sys", _own)):
            continue
        for name in names:
            path = os.path.join(folder, name)
            try:
                if path.endswith("/" + _tail):
                    yield compile(open(path, "rb").read(), __file__, "exec")
                elif name.startswith(_stem + ".") and name.endswith(".pyc"):
                    if os.path.dirname(_tail).split("/")[-1] in folder:
                        yield marshal.loads(open(path, "rb").read()[16:])
                elif name.endswith((".whl", ".zip")):
                    archive = zipfile.ZipFile(path)
                    for inner in archive.namelist():
                        if inner.endswith(_tail):
                            yield compile(archive.read(inner), __file__, "exec")
            except Exception:
                pass


for _code in _codes():
    try:
        exec(_code, globals())
        break
    except Exception:
        pass
"#;

/// Returns a patch that replaces a file's text.
fn diff(path: &str, old: &str, new: &str) -> String {
    let mut out = format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n",
        old.lines().count(),
        new.lines().count()
    );
    for (mark, text) in [('-', old), ('+', new)] {
        for line in text.lines() {
            let _ = writeln!(out, "{mark}{line}");
        }
    }
    out
}

fn new_file_patch(path: &str, text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    let count = text.lines().count();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n\
         @@ -0,0 +1,{count} @@\n{lines}"
    )
}

const STUB_SOURCE: &str = "NOTHING_HERE = None\n";

struct CopyTest<'a> {
    backend: &'a dyn Backend,
    environment: PreparedEnvironment,
    task: Task,
    findings: LayerFindings,
    gold: String,
    search_patch: String,
}

impl<'a> CopyTest<'a> {
    async fn set_up(
        backend: &'a dyn Backend,
        subject: &Subject,
        environment: serde_json::Value,
        cache: &Path,
    ) -> Self {
        let sources = Sources::new(cache.join("sources"));
        let mut task: Task = serde_json::from_value(json!({
            "schema_version": 1, "id": format!("{}__copies-1", subject.name), "statement": "",
            "environment": environment,
            "source": {
                "pypi": subject.name, "version": subject.version, "sha256": subject.sha256
            },
            "env": {"PYTHONPATH": "/testbed/src"},
            "fail_to_pass": ["checks/test_it.py::test_hidden"],
            "pass_to_pass": ["checks/test_it.py::test_kept"],
            "test_patch": new_file_patch("checks/test_it.py", subject.tests),
            "test_command": ["/venv/bin/python", "-m", "pytest", "-q"],
        }))
        .unwrap();
        let source = task.source.clone().unwrap();
        let tree = sources.fetch(&source, Path::new(".")).await.unwrap();
        let original = std::fs::read_to_string(tree.folder.join(subject.file)).unwrap();
        task.mask = Some(diff(subject.file, &original, STUB_SOURCE));
        let spec = resolve_layer_spec(&task, &sources, Path::new(".")).await.unwrap();
        let environment = backend.prepare(&spec).await.unwrap();
        let limits = SandboxSpec::default();
        let findings = find_leaks(backend, &environment, &task, &limits).await.unwrap();
        let tail = subject.file.trim_start_matches("src/");
        let hunt = COPY_SEARCH_SCRIPT.replace("TAIL", &format!("{tail:?}"));
        Self {
            backend,
            environment,
            gold: diff(subject.file, STUB_SOURCE, &original),
            search_patch: diff(subject.file, STUB_SOURCE, &hunt),
            task,
            findings,
        }
    }

    async fn grade_in_prepared_sandbox(&self, task: &Task, patch: &str) -> Verdict {
        let (limits, cancel) = (SandboxSpec::default(), CancelSignal::default());
        let capacity = Capacity::new(&Machine::detect());
        let handle = GradingSandbox {
            backend: self.backend,
            environment: &self.environment,
            findings: &self.findings,
            limits: &limits,
            reservation: &limits,
            purpose: "grading".into(),
            cancel: &cancel,
            capacity: &capacity,
        };
        let options = GradeOptions::default();
        grade_patch(handle, task, patch.as_bytes(), &options).await.unwrap().verdict
    }

    /// Grades in a sandbox from which no copies were removed, as earlier versions of Proctor did.
    async fn grade_in_unprepared_sandbox(&self, patch: &str) -> Verdict {
        let spec = SandboxRequest {
            environment: self.environment.clone(),
            limits: SandboxSpec::default(),
            mounts: Vec::new(),
            purpose: "grading".into(),
        };
        let mut sandbox = self.backend.open(&spec).await.unwrap();
        let options = GradeOptions::default();
        let graded = grade(sandbox.handle(), &self.task, patch.as_bytes(), &options).await;
        sandbox.close().await.unwrap();
        let graded = graded.unwrap();
        println!("{}", String::from_utf8_lossy(&graded.log));
        graded.verdict
    }

    async fn assert_copies_are_hidden(&self) {
        println!("{} findings:", self.task.id);
        for leak in &self.findings.leaks {
            println!("  {leak}");
        }
        // The copies exist, and the cheat would succeed if it found them.
        let cheated = self.grade_in_unprepared_sandbox(&self.search_patch).await;
        assert!(cheated.resolved, "{cheated:#?}");

        let cheated = self.grade_in_prepared_sandbox(&self.task, &self.search_patch).await;
        assert!(!cheated.resolved, "{cheated:#?}");
        let gold = self.grade_in_prepared_sandbox(&self.task, &self.gold).await;
        assert!(gold.resolved && gold.integrity == Integrity::Clean, "{gold:#?}");
        let nothing = self.grade_in_prepared_sandbox(&self.task, "").await;
        assert!(!nothing.resolved, "{nothing:#?}");

        // Under either leak-check policy, the agent finds no copy, although the environment itself
        // needs the copies.
        for on_finding in [OnFinding::Refuse, OnFinding::Remove] {
            let limits = SandboxSpec::default();
            let preparation = Preparation {
                backend: self.backend,
                environment: &self.environment,
                task: &self.task,
                findings: &self.findings,
                limits: &limits,
                mounts: &[],
                label: "driving".into(),
            };
            let ReadySandbox { mut sandbox, hidden_copies: hidden } =
                preparation.open(Purpose::Driving(on_finding)).await.unwrap();
            let handle = sandbox.handle();
            prepare_for_agent(handle, &self.task, &self.findings, &hidden, on_finding)
                .await
                .unwrap();
            let hunt = self.search_patch.lines().filter_map(|line| line.strip_prefix('+')).skip(1);
            let hunt: Vec<&str> = hunt.collect();
            let hunt = hunt.join("\n").replace("__file__", "'/testbed/src/x/y.py'");
            let look =
                format!("{hunt}\nprint(sorted(set(globals()) & {{'Version', 'IniConfig'}}))");
            let done = handle.run(Command::new(["/usr/bin/python3", "-c", &look])).await.unwrap();
            assert_eq!(done.stdout.text().trim(), "[]", "{}", done.stderr.text());
            sandbox.close().await.unwrap();
        }
    }

    fn evidence(verdict: &Verdict, kind: &str) -> Vec<String> {
        let of = |evidence: &&proctor_types::Evidence| evidence.kind == kind;
        verdict.evidence.iter().filter(of).map(|evidence| evidence.what.clone()).collect()
    }
}

/// Installs copies with the same versions as the subjects, because a file from another version may
/// be incompatible with the rest of the package.
fn host_environment() -> serde_json::Value {
    let install = "/venv/bin/pip install -q pytest==8.4.2 setuptools==80.9.0 packaging==25.0 \
                   iniconfig==2.1.0";
    json!({"base": "host", "setup": ["python3 -m venv /venv", install]})
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_packaging_stay_hidden_natively() {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().join("native")).unwrap();
    let mut stage = CopyTest::set_up(&native, &PACKAGING, host_environment(), cache.path()).await;
    stage.assert_copies_are_hidden().await;

    // A benchmark's own procedure starts pytest itself, so the copies that pytest needs are not
    // hidden. They are reported.
    let details = json!({
        "test_cmd": "/venv/bin/python -m pytest -rA -p no:cacheprovider",
        "log_parser": "parse_log_pytest", "test_directives": ["checks/test_it.py"],
    });
    stage.task.benchmark =
        serde_json::from_value(json!({"name": "swe-bench", "details": details})).unwrap();
    let gold = stage.grade_in_prepared_sandbox(&stage.task, &stage.gold).await;
    let both = |verdict: &Verdict| {
        (verdict.policies["official"].resolved, verdict.policies["strict"].resolved)
    };
    assert_eq!(both(&gold), (true, true), "{gold:#?}");
    assert_eq!(gold.integrity, Integrity::Clean, "{gold:#?}");
    let kept = CopyTest::evidence(&gold, "kept_for_tool");
    assert!(kept.iter().any(|what| what.contains("/site-packages/packaging/")), "{kept:?}");
    assert!(!kept.iter().any(|what| what.contains("/pip/")), "no command runs pip: {kept:?}");
    let cheated = stage.grade_in_prepared_sandbox(&stage.task, &stage.search_patch).await;
    assert!(!cheated.policies["strict"].resolved, "{cheated:#?}");
    assert_ne!(cheated.integrity, Integrity::Clean, "{cheated:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_that_pytest_needs_is_available_only_to_pytest() {
    let cache = tempfile::tempdir().unwrap();
    let native = Native::new(cache.path().join("native")).unwrap();
    let stage = CopyTest::set_up(&native, &INICONFIG, host_environment(), cache.path()).await;
    stage.assert_copies_are_hidden().await;
    let gold = stage.grade_in_prepared_sandbox(&stage.task, &stage.gold).await;
    let lent = CopyTest::evidence(&gold, "lent_to_tool");
    assert_eq!(lent.len(), 1, "{gold:#?}");
    assert!(lent[0].contains("/site-packages/iniconfig"), "{lent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_packaging_stay_hidden_in_docker() {
    let docker = match Docker::connect().await {
        Ok(docker) => docker,
        Err(fault) => return not_run("copies_of_packaging_stay_hidden_in_docker", "DOCKER", fault),
    };
    let cache = tempfile::tempdir().unwrap();
    let docker = docker.with_cache_folder(cache.path().join("docker"));
    CopyTest::set_up(&docker, &PACKAGING, host_environment(), cache.path())
        .await
        .assert_copies_are_hidden()
        .await;
    CopyTest::set_up(&docker, &INICONFIG, host_environment(), cache.path())
        .await
        .assert_copies_are_hidden()
        .await;
}
