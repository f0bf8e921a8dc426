//! What all end-to-end tests share: the binary, a clean HOME, and one cache of environments.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::{not_run::not_run, users::User};

/// The directory of a test. Commands run with the repository as the current directory.
pub struct Stage {
    pub dir: tempfile::TempDir,
    /// The user who runs `proctor`; `None` means the current user.
    user: Option<User>,
}

/// A single command that solves the demo task.
pub const DEMO_SOLUTION: &str = r#"cat >> numerals/roman.py <<'END'


def from_roman(text: str) -> int:
    total, rest = 0, text
    for numeral, value in VALUES.items():
        while rest.startswith(numeral):
            total += value
            rest = rest[len(numeral):]
    if rest or not 1 <= total <= 3999 or to_roman(total) != text:
        raise ValueError(f"not a Roman numeral: {text!r}")
    return total
END
sed -i 's/import to_roman/import from_roman, to_roman/; s/__all__ = \[/__all__ = ["from_roman", /' numerals/__init__.py"#;

/// Returns the root directory of the repository.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the cache for all tests, in which each environment is built only once. Tests that build
/// environments use their own cache.
pub fn cache_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("proctor-cache")
}

impl Stage {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), user: None }
    }

    /// Creates a stage for a user other than root. The directory belongs to that user and contains
    /// copies of `proctor` and of the demo's files, because the user may not be able to read the
    /// repository.
    pub fn for_user(user: User) -> Self {
        let stage = Self { user: Some(user), ..Self::new() };
        fs::copy(env!("CARGO_BIN_EXE_proctor"), stage.path("proctor")).unwrap();
        let demo = ["demo.toml", "tasks", "recipes", "scripts"];
        let demo = demo.map(|name| repository_root().join("configs").join(name));
        fs::create_dir(stage.path("configs")).unwrap();
        let mut copy = Command::new("cp");
        copy.arg("-r").args(demo).arg(stage.path("configs"));
        assert!(copy.status().unwrap().success());
        let mut give = Command::new("chown");
        give.arg("-R").arg(format!("{}:{}", user.uid, user.gid)).arg(stage.dir.path());
        assert!(give.status().unwrap().success());
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file. Returns its path.
    pub fn write_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn proctor<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(
        &self,
        args: I,
    ) -> Command {
        let Some(user) = self.user else {
            let mut command = Command::new(env!("CARGO_BIN_EXE_proctor"));
            command
                .args(args)
                .current_dir(repository_root())
                .env("HOME", self.dir.path())
                .env("PROCTOR_CACHE", cache_folder());
            return command;
        };
        let mut command = Command::new(self.path("proctor"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env("PROCTOR_CACHE", self.path("cache"))
            .uid(user.uid)
            .gid(user.gid);
        command
    }

    /// Runs a command to its end. Panics with its output unless it exits with the expected status.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(
        &self,
        args: I,
        status: i32,
    ) -> Output {
        let output = self.proctor(args).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(status),
            "stdout:\n{}\nstderr:\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// Returns the output of `proctor report --format json` for a run.
    pub fn report(&self, run: &Path) -> Value {
        let run = run.to_str().unwrap();
        let output = self.run(["report", run, "--format", "json"], 0);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Returns the arm with the given name from a report.
pub fn find_arm<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == name).unwrap()
}

/// Returns all files with the given name below a directory.
pub fn find_files(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(find_files(&path, name));
        } else if entry.file_name() == name {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the events of a kind in a journal.
pub fn events(journal: &Path, kind: &str) -> Vec<Value> {
    fs::read_to_string(journal)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == kind)
        .collect()
}

/// Returns whether a Docker engine responds. If not, reports that the test does not run, or fails
/// the test if CI requires Docker.
pub fn has_docker(test_name: &str) -> bool {
    let answers =
        Command::new("docker").arg("info").output().is_ok_and(|output| output.status.success());
    if !answers {
        not_run(test_name, "DOCKER", "Docker is not responding");
    }
    answers
}
