//! Runs the benchmark's own harness, which is installed from PyPI, on the same patches in the same
//! images.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use super::rows::SolvedRow;
use crate::not_run::not_run;
use crate::stage::{Stage, cache_folder, repository_root};

/// The harness declares that it requires Python 3.12, but the parts that are used here also run on
/// 3.11.
const HARNESS_REQUIREMENT: &str = "featurebench==0.2.3";
const DEPENDENCIES: [&str; 2] = ["docker==7.1.0", "pandas==2.2.3"];

/// Returns the path of an interpreter that has the harness installed. The environment is created
/// only once. Returns `None` if the package index is unreachable.
fn harness_python(test_name: &str) -> Option<PathBuf> {
    let venv = cache_folder().join("featurebench-harness");
    let python = venv.join("bin/python");
    let works = || {
        let import = ["-c", "import featurebench.harness.runtime"];
        Command::new(&python).args(import).output().is_ok_and(|done| done.status.success())
    };
    if works() {
        return Some(python);
    }
    let made = Command::new("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&venv).status();
    assert!(made.unwrap().success());
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(&python);
        let done = pip.args(["-m", "pip", "install", "-q"]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        done.status.success().then_some(()).ok_or(said)
    };
    let fetched = pip(&DEPENDENCIES)
        .and_then(|()| pip(&["--no-deps", "--ignore-requires-python", HARNESS_REQUIREMENT]));
    if let Err(said) = fetched {
        not_run(test_name, "OFFICIAL", said);
        return None;
    }
    assert!(works(), "the harness cannot be imported");
    Some(python)
}

/// Returns, for each patch, whether the patch is resolved according to the harness, and how many
/// seconds the harness took.
pub fn harness_verdicts(
    test_name: &str,
    stage: &Stage,
    cases: &[(&SolvedRow, String)],
) -> Option<Vec<(bool, f64)>> {
    let python = harness_python(test_name)?;
    let lines = cases.iter().map(|(made, patch)| json!({"row": made.row, "patch": patch}));
    let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
    let file = stage.path("cases.jsonl");
    fs::write(&file, lines.join("\n")).unwrap();
    let script = repository_root().join("tests/official/run_featurebench.py");
    let done = Command::new(python).arg(script).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let found: Vec<(bool, f64)> = String::from_utf8_lossy(&done.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| (line["resolved"].as_bool().unwrap(), line["seconds"].as_f64().unwrap()))
        .collect();
    assert_eq!(found.len(), cases.len(), "{said}");
    Some(found)
}
