//! Fetches the official graders from PyPI and runs them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::{not_run::not_run, sample::sample};

/// The official graders in a directory, with wheels, three versions of pytest, logs and results.
pub struct Graders {
    dir: PathBuf,
    /// Deletes the directory when dropped. `None` if the directory must not be deleted.
    _temporary: Option<tempfile::TempDir>,
}

/// Environment variable that names a directory to use instead of a temporary one. Its content is
/// reused in later runs, which helps when working on the parsers.
const KEEP_DIR_VAR: &str = "PROCTOR_OFFICIAL_KEEP";

const PYTEST_SETS: [&str; 3] = ["pytest8", "pytest9", "pytest6"];
const GRADERS: [&str; 6] = [
    "swebench-3.0.4",
    "swebench-5.0.2",
    "swebench-2.1.0",
    "swebench-4.1.0",
    "featurebench-0.2.3",
    "swesmith-0.0.9",
];

/// The exit status of `fetch.py` if no package index can be reached.
const UNREACHABLE_STATUS: i32 = 77;

fn scripts_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/official")
}

fn python_command(script: &str) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(scripts_dir().join(script))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PYTHONPATH")
        .env_remove("PYTEST_ADDOPTS")
        .env_remove("FORCE_COLOR")
        .stdin(Stdio::null());
    command
}

impl Graders {
    /// Fetches the graders. If PyPI cannot be reached, prints a message with the test's name and
    /// returns `None`, or panics if `PROCTOR_REQUIRE_OFFICIAL` is set.
    pub fn fetch(test_name: &str) -> Option<Self> {
        if let Some(dir) = std::env::var_os(KEEP_DIR_VAR).map(PathBuf::from)
            && dir.join("graders").exists()
        {
            return Some(Self { dir, _temporary: None });
        }
        let temporary = tempfile::tempdir().unwrap();
        let dir = std::env::var_os(KEEP_DIR_VAR).map_or(temporary.path().to_owned(), PathBuf::from);
        let fetched = python_command("fetch.py").arg(&dir).output();
        let why = match fetched {
            Ok(output) if output.status.success() => {
                return Some(Self { dir, _temporary: Some(temporary) });
            }
            Ok(output) if output.status.code() == Some(UNREACHABLE_STATUS) => {
                "PyPI cannot be reached"
            }
            Ok(output) => panic!("fetch.py: {}", output_text(&output)),
            Err(_) => "python3 is not installed",
        };
        not_run(test_name, "OFFICIAL", why);
        None
    }

    pub fn logs_dir(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Runs the test suites to create logs. Returns the number of logs as text.
    pub fn make_logs(&self) -> String {
        std::fs::create_dir_all(self.logs_dir()).unwrap();
        let sets = sample(&PYTEST_SETS, PYTEST_SETS.len())
            .into_iter()
            .filter(|set| !self.logs_dir().join(format!("index-{set}.jsonl")).exists());
        run_two_at_once(sets.map(|set| {
            let mut command = python_command("logs.py");
            command.arg(self.dir.join(set)).arg(self.dir.join("libraries")).arg(self.logs_dir());
            command
        }));
        let output = python_command("wrap.py").arg(self.logs_dir()).output().unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs every grader. Returns the files with their results as JSON lines.
    pub fn grade(&self) -> Vec<PathBuf> {
        let results = GRADERS.map(|name| self.dir.join(format!("{name}.jsonl")));
        let missing = GRADERS.iter().zip(&results).filter(|(_, out)| !out.exists());
        run_two_at_once(missing.map(|(name, out)| {
            let mut command = python_command("official.py");
            command.arg(self.dir.join("graders").join(name)).arg(self.logs_dir()).arg(out);
            command
        }));
        results.into()
    }
}

fn run_two_at_once(commands: impl IntoIterator<Item = Command>) {
    let commands = std::sync::Mutex::new(commands.into_iter().collect::<Vec<_>>().into_iter());
    let work = || {
        loop {
            let next = commands.lock().unwrap().next();
            let Some(mut command) = next else { return };
            let output = command.output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", output_text(&output));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}

fn output_text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
