//! The official harness, in one Python process that runs during the whole bench.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;

/// The package that contains `run_instance`.
const PACKAGE: &str = "swebench==5.0.2";
const SCRIPT: &str = include_str!("swebench_harness.py");

/// A running process with the harness. It has already imported the package and connected to the
/// engine.
pub struct Harness {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct HarnessResponse {
    seconds: f64,
    instances: Vec<(f64, f64, bool)>,
}

/// The duration of one instance.
pub struct InstanceTiming {
    pub total: Duration,
    /// The time spent on stopping and removing the container.
    pub cleanup: Duration,
}

impl Harness {
    /// Installs the package in `scratch`, or uses the Python interpreter in
    /// `PROCTOR_BENCH_SWEBENCH`.
    pub fn start(scratch: &Path, row: &str) -> Self {
        let python = match std::env::var_os("PROCTOR_BENCH_SWEBENCH") {
            Some(python) => PathBuf::from(python),
            None => install_swebench(scratch),
        };
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, row])
            .current_dir(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the harness");
        let stdin = child.stdin.take().expect("its input");
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, stdin, stdout }
    }

    /// Grades patches with `run_instance`, at most `workers` at a time. Each patch must resolve the
    /// instance.
    pub fn grade(&mut self, patches: &[String], workers: usize) -> (Duration, Vec<InstanceTiming>) {
        writeln!(self.stdin, "{}", json!({"patches": patches, "workers": workers}))
            .expect("the harness reads requests");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("an answer");
        let answer: HarnessResponse = serde_json::from_str(&line).expect("a JSON response");
        assert_eq!(answer.instances.len(), patches.len());
        let instances = answer.instances.into_iter().map(|(whole, cleanup, resolved)| {
            assert!(resolved, "the harness rejects gold");
            let of = Duration::from_secs_f64;
            InstanceTiming { total: of(whole), cleanup: of(cleanup) }
        });
        (Duration::from_secs_f64(answer.seconds), instances.collect())
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install_swebench(scratch: &Path) -> PathBuf {
    eprintln!("installing {PACKAGE} into a throwaway environment");
    let venv = scratch.join("swebench");
    let run = |command: &mut Command| {
        assert!(command.status().expect("a program").success(), "{command:?}");
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    run(Command::new(venv.join("bin/pip")).args(["install", "--quiet", PACKAGE]));
    venv.join("bin/python")
}
