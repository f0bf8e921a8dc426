//! The official harness, in a Python process that runs for the whole bench.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;

/// The package whose `run_instance` is called.
const PACKAGE: &str = "swebench==5.0.2";
const SCRIPT: &str = include_str!("swebench_harness.py");

/// A running harness process, with its imports done and its engine connected.
pub struct Harness {
    child: Child,
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct HarnessResponse {
    seconds: f64,
    instances: Vec<(f64, f64, bool)>,
}

/// How long one instance took.
pub struct InstanceTiming {
    pub whole: Duration,
    /// The part spent on stopping and removing the container.
    pub cleanup: Duration,
}

impl Harness {
    /// Installs the package below `scratch`, or uses the Python that `PROCTOR_BENCH_SWEBENCH` names.
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
        let asked = child.stdin.take().expect("its input");
        let told = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, asked, told }
    }

    /// Grades patches with `run_instance`, `workers` at a time. All of them must resolve.
    pub fn grade(&mut self, patches: &[String], workers: usize) -> (Duration, Vec<InstanceTiming>) {
        writeln!(self.asked, "{}", json!({"patches": patches, "workers": workers}))
            .expect("the harness reads requests");
        let mut line = String::new();
        self.told.read_line(&mut line).expect("an answer");
        let answer: HarnessResponse = serde_json::from_str(&line).expect("a JSON response");
        assert_eq!(answer.instances.len(), patches.len());
        let instances = answer.instances.into_iter().map(|(whole, cleanup, resolved)| {
            assert!(resolved, "the harness rejects gold");
            let of = Duration::from_secs_f64;
            InstanceTiming { whole: of(whole), cleanup: of(cleanup) }
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
    eprintln!("installing {PACKAGE} into a throw-away environment");
    let venv = scratch.join("swebench");
    let run = |command: &mut Command| {
        assert!(command.status().expect("a program").success(), "{command:?}");
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    run(Command::new(venv.join("bin/pip")).args(["install", "--quiet", PACKAGE]));
    venv.join("bin/python")
}
