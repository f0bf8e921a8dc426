//! Tests that grading ends with a verdict, whatever a patch or the code under test does to its
//! sandbox within the limits. Otherwise an attack could turn a failure into a missing result.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use proctor_docker::Docker;
use proctor_grade::{GradeOptions, grade};
use proctor_native::Native;
use proctor_sandbox_api::{Backend, FailureDiagnostics, PreparedEnvironment, SandboxRequest};
use proctor_types::{SandboxSpec, Task};

use crate::{
    bench::{
        self, GradedPatch, diff, gold, grade_with_all_defenses, package_with_cheat, patch, python,
        task, write_source_files,
    },
    native::{PYTHON, prepare_environment, prepare_environment_with},
};

/// Each entry has the name of an action, and the code that the package runs when the tests import
/// it. No package solves the task.
const IMPORT_CODE: [(&str, &str); 19] = [
    ("a large file", "for f in glob('tests/*.py'): os.truncate(f, 65 << 20)"),
    ("a sparse file", "try_all(lambda: [os.truncate(f, 1 << 43) for f in glob('tests/*.py')])"),
    ("many large files", "fill('tests', 4 << 20)"),
    ("a full disk", "fill('/testbed', 1 << 20); fill('/tmp', 4096); fill('/', 1)"),
    ("no free inodes", "fill('tests', 0)"),
    ("deep folders", "os.chdir('tests')\nfor n in range(2100): os.mkdir('d'); os.chdir('d')"),
    (
        "long names",
        "os.chdir('tests')\nfor n in range(40): os.mkdir('n' * 255); os.chdir('n' * 255)",
    ),
    (
        "circular links",
        "for n in range(50): os.symlink(f'l{n + 1}', f'tests/l{n}')\n\
         os.symlink('l0', 'tests/l50')\nos.remove('tests/helper.py')\nos.symlink('l0', 'tests/helper.py')",
    ),
    (
        "a link to memory",
        "for f in glob('tests/*.py'): os.remove(f); os.symlink('/proc/self/mem', f)",
    ),
    (
        "odd names",
        "for n in [b'a\\nb', b'\\xff\\xfe', b'-rf', b'*', b'\\x01', b' ']: open(b'tests/' + n, 'w').close()",
    ),
    (
        "files and folders without permissions",
        "for f in glob('tests/*.py') + ['tests', '.']: os.chmod(f, 0)",
    ),
    (
        "special files",
        "import socket\nfor f in glob('tests/*.py'): os.remove(f)\nos.mkfifo('tests/test_roman.py')\n\
         socket.socket(socket.AF_UNIX).bind('tests/test_kept.py')\nos.mkdir('tests/helper.py')",
    ),
    (
        "an open and locked file",
        "import fcntl\nheld = [open(f, 'r+') for f in glob('tests/*.py')]\n\
         for f in held: fcntl.flock(f, fcntl.LOCK_EX)\nheld[0].write('#')\nheld[0].flush()",
    ),
    ("no work directory", "shutil.rmtree('/testbed')"),
    ("memory", "x = b'x' * (1 << 40)"),
    ("memory by pages", "x = []\nwhile True: x.append(bytearray(os.urandom(1 << 20)))"),
    (
        "a swarm",
        "for n in range(5000):\n    try:\n        if os.fork() == 0: os.setsid(); time.sleep(600)\n\
         \x20   except OSError: break",
    ),
    ("a stopped process", "os.kill(os.getpid(), signal.SIGSTOP)"),
    (
        "a flood",
        "for n in range(20): os.write(1, b'x' * (1 << 20)); os.write(2, b'y' * (1 << 20)); \
         os.write(3, b'z' * (1 << 20))",
    ),
];

const HELPERS: &str = "import os, shutil, signal, sys, time
from glob import glob

def try_all(act):
    try: act()
    except OSError as e: print(e)

def fill(folder, size):
    n = 0
    while n < 400000:
        try:
            with open(f'{folder}/fill-{size}-{n}', 'wb') as f: f.write(b'x' * size)
        except OSError as e:
            print('stopped by', e)
            return
        n += 1
";

/// Small limits, so that the sandbox fills up quickly.
fn small_limits() -> SandboxSpec {
    SandboxSpec { memory_mb: 192, disk_mb: 96, processes: 128, ..SandboxSpec::default() }
}

pub fn patch_with_cheat(line: &str) -> String {
    patch(&[("roman/__init__.py", Some(&package_with_cheat(&format!("{HELPERS}\n{line}"))))])
}

async fn grade_with_limits(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    limits: SandboxSpec,
    task: &Task,
    patch: &str,
) -> Result<GradedPatch, proctor_types::Fault> {
    let spec = SandboxRequest {
        environment: environment.clone(),
        limits,
        mounts: Vec::new(),
        purpose: "grading".into(),
    };
    let mut sandbox = backend.open(&spec).await.unwrap();
    let options =
        GradeOptions { time_limit: Some(Duration::from_secs(8)), ..GradeOptions::default() };
    let graded = grade(sandbox.handle(), task, patch.as_bytes(), &options).await;
    let _ = sandbox.close().await;
    graded.map(GradedPatch)
}

/// A patch that may exhaust its sandbox. It does not solve the task.
pub struct ExhaustionCase {
    name: &'static str,
    patch: String,
    disk_mb: u64,
}

impl ExhaustionCase {
    /// Creates an attempt whose package runs `line` when the tests import the package.
    pub fn with_import_code(name: &'static str, line: &str) -> Self {
        Self { name, patch: patch_with_cheat(line), disk_mb: 96 }
    }

    /// Creates an attempt whose patch itself exhausts a small disk: 4,096 inodes and 24 MiB.
    pub fn with_patch(name: &'static str, patch: String) -> Self {
        Self { name, patch, disk_mb: 24 }
    }
}

/// Maximum number of attempts that are graded concurrently. Most of them only wait for their time
/// limit.
const CONCURRENCY: usize = 3;

/// Grades all attempts and then gold. Returns the attempts that got no verdict or that resolved the
/// task.
pub async fn find_failed_cases(backend: &dyn Backend, cases: &[ExhaustionCase]) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let environment = &prepare_environment(backend, place.path()).await;
    let task = &task("/testbed", PYTHON, &[]);
    let graded = cases.iter().map(async |ExhaustionCase { name, patch, disk_mb }| {
        let begun = std::time::Instant::now();
        let limits = SandboxSpec { disk_mb: *disk_mb, ..small_limits() };
        match grade_with_limits(backend, environment, limits, task, patch).await {
            Ok(seen) if seen.is_resolved() => Some(format!("{name}: {}", seen.details())),
            Ok(seen) => {
                let kinds: BTreeSet<_> =
                    seen.0.verdict.evidence.iter().map(|found| &found.kind[..]).collect();
                eprintln!("{name}: {kinds:?} in {:.1?}", begun.elapsed());
                None
            }
            Err(fault) => Some(format!("{name}: {fault}")),
        }
    });
    let graded: Vec<_> = stream::iter(graded).buffer_unordered(CONCURRENCY).collect().await;
    let seen =
        grade_with_limits(backend, environment, small_limits(), task, &gold()).await.unwrap();
    assert!(seen.is_resolved() && !seen.is_suspect(), "gold: {}", seen.details());
    graded.into_iter().flatten().collect()
}

fn exhaustion_cases() -> Vec<ExhaustionCase> {
    let deep = "d/".repeat(2100);
    let long = "n".repeat(300);
    let few = |name: &str| format!("tests/{name}.py");
    let many: String =
        (0..6_000).map(|n| diff(&format!("tests/e{n}"), None, Some("x\n"))).collect();
    let block = "x".repeat(1000) + "\n";
    let large = diff("tests/large.txt", None, Some(&block.repeat(30_000)));
    let patches = [
        ("a deep path", diff(&few(&format!("{deep}a")), None, Some("x = 1\n"))),
        ("a long name", diff(&few(&long), None, Some("x = 1\n"))),
        ("more files than inodes", many),
        ("a patch as large as the disk", large),
        ("a file in place of a folder", diff("tests/helper.py/a.py", None, Some("x = 1\n"))),
    ];
    let at_import =
        IMPORT_CODE.iter().map(|(name, line)| ExhaustionCase::with_import_code(name, line));
    at_import.chain(patches.map(|(name, patch)| ExhaustionCase::with_patch(name, patch))).collect()
}

/// The folder that caches environments between test runs.
pub fn cache_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("exhaustion-cache")
}

/// Connects to Docker. Prints a message and returns `None` if Docker is not available.
pub async fn connect_docker() -> Option<Docker> {
    match Docker::connect().await {
        Ok(docker) => Some(docker),
        Err(fault) => {
            assert!(std::env::var_os("PROCTOR_REQUIRE_DOCKER").is_none(), "{fault}");
            eprintln!("skipped: Docker is absent");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_that_exhausts_its_native_sandbox_gets_a_verdict() {
    let native = Native::new(cache_dir()).unwrap();
    let escaped = find_failed_cases(&native, &exhaustion_cases()).await;
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// Runs the attempts whose result depends on the container's disk and engine.
#[tokio::test(flavor = "multi_thread")]
async fn patch_that_exhausts_its_container_gets_a_verdict() {
    let Some(docker) = connect_docker().await else { return };
    // Filling the disk is not tested: without a quota, all processes share the machine's disk.
    let none = ["a full disk", "many large files", "no free inodes"];
    let attempts: Vec<_> =
        exhaustion_cases().into_iter().filter(|attempt| !none.contains(&attempt.name)).collect();
    let escaped = find_failed_cases(&docker, &attempts).await;
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// Tests that fill the disk and can only run once per process. If a canary runs before them, they
/// fail and must run again.
const DISK_FILLING_TESTS: &str = "import os
from roman import register


def fill(size):
    try:
        for n in range(400000):
            with open(f'/tmp/{os.getpid()}-{size}-{n}', 'wb') as f:
                f.write(b'x' * size)
    except OSError:
        pass


fill(1 << 20)
fill(1)


def test_once():
    assert register('a') == 1
";

const REGISTER_MODULE: &str = "SEEN = []\n\n\ndef kept():\n    return 'kept'\n\n\ndef register(name):\n    \
    SEEN.append(name)\n    return len(SEEN)\n";

/// The grader has enough space for a second run of the tests even if the first one filled the disk.
#[tokio::test(flavor = "multi_thread")]
async fn honest_patch_is_resolved_even_if_its_tests_fill_the_disk() {
    let native = Native::new(cache_dir()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let files = [("tests/test_once.py", DISK_FILLING_TESTS)];
    let environment = prepare_environment_with(&native, place.path(), &files).await;
    let mut task = task("/testbed", PYTHON, &[]);
    task.fail_to_pass = vec!["tests/test_once.py::test_once".to_owned()];
    task.pass_to_pass.clear();
    let honest = patch(&[("roman/__init__.py", Some(REGISTER_MODULE))]);
    let mut second = 0;
    for _ in 0..8 {
        let seen =
            grade_with_limits(&native, &environment, small_limits(), &task, &honest).await.unwrap();
        assert!(seen.is_resolved() && !seen.is_suspect(), "{}", seen.details());
        second += usize::from(seen.has_evidence("run_again"));
    }
    assert!(second > 0, "no canary came before its test in eight grading runs");
}

/// The grader's own reads are bounded even if the sandbox has no limit.
#[test]
fn grown_test_file_is_detected_without_reading_it() {
    let seen = grade_with_all_defenses(&patch_with_cheat(
        "for f in glob('tests/*.py'): os.truncate(f, 3 << 30)",
    ));
    assert!(!seen.is_resolved() && seen.has_evidence("changed_during_run"), "{}", seen.details());
}

/// Diagnostics that claim or deny, as given, that the kernel killed the sandbox.
struct StubWitness(bool);

#[async_trait::async_trait]
impl FailureDiagnostics for StubWitness {
    async fn kill_reason(&self) -> Option<String> {
        self.0.then(|| "the kernel killed it".to_owned())
    }

    async fn has_filled_disk(&self) -> bool {
        true
    }
}

/// Code under test can kill the bench's agent. The result is a verdict if the kernel reports that
/// it killed the sandbox, and a fault otherwise.
#[test]
fn killed_agent_gives_a_verdict_only_if_the_kernel_killed_the_sandbox() {
    let place = tempfile::tempdir().unwrap();
    let graded = |killed| {
        let workdir = place.path().join("testbed");
        write_source_files(&workdir);
        let task = bench::task(workdir.to_str().unwrap(), python().to_str().unwrap(), &[]);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let handle = bench::connect_agent(place.path()).await;
            handle.set_diagnostics(Arc::new(StubWitness(killed)));
            let patch = patch_with_cheat("os.kill(os.getppid(), 9); time.sleep(5)");
            grade(&handle, &task, patch.as_bytes(), &GradeOptions::default()).await
        })
    };
    let seen = GradedPatch(graded(true).unwrap());
    assert!(!seen.is_resolved() && seen.has_evidence("sandbox_killed"), "{}", seen.details());
    let fault = graded(false).unwrap_err();
    assert!(fault.what.contains("the sandbox is gone"), "{fault}");
}
