//! Renamed copies of real tests that must fail.

use std::collections::BTreeMap;

use proctor_record::patch::Current;
use proctor_sandbox_api::SandboxHandle;
use proctor_types::{Evidence, Fault, Layer, Task, TestStatus, sha256_hex};
use serde::{Deserialize, Serialize};

use crate::{
    TestRun,
    evidence::{self, note},
    launch::Launch,
    paths::{escaped, file_of},
    policy::Policy,
    pristine::Pristine,
    probe::{isolated, random},
};

const SCRIPT: &str = include_str!("../python/canary.py");

/// A test that must not pass. Laid after the patch, run with the real tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Canary {
    /// Its file, relative to the work directory.
    pub file: String,
    /// Its function within the file: `test_a` or `TestA::test_b`.
    pub function: String,
    /// The file that it is a copy of.
    #[serde(skip)]
    pub origin: String,
    /// `raise` or `literal`.
    #[serde(skip)]
    pub kind: String,
    #[serde(skip)]
    pub text: String,
}

#[derive(Serialize)]
struct Order<'a> {
    token: String,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    text: &'a str,
    functions: Vec<&'a str>,
}

#[derive(Deserialize)]
struct Made {
    origin: String,
    function: String,
    kind: String,
    text: String,
}

/// Makes this run's canaries from the pristine test files, in a sandbox that holds nothing of the
/// model's yet. Which tests they copy differs from run to run.
pub(crate) async fn make(
    handle: &SandboxHandle,
    launch: &Launch,
    task: &Task,
    pristine: &Pristine,
) -> Result<Vec<Canary>, Fault> {
    let limits = &Policy::get()?.canaries;
    let mut canaries = Vec::new();
    for (ids, raise, literal) in [
        (&task.fail_to_pass, limits.fail_to_pass_raise, limits.fail_to_pass_literal),
        (&task.pass_to_pass, limits.pass_to_pass_raise, 0),
    ] {
        let files = shuffled(ids, pristine, limits.files)?;
        if files.is_empty() {
            continue;
        }
        let order = Order { token: proctor_types::hex(&random::<6>()?), files };
        let order = serde_json::to_string(&order).map_err(|error| broken(&error))?;
        let stdin = crate::session::ascii(&order).into_bytes();
        let user = task.user.as_deref();
        let out = isolated(handle, launch, &task.workdir, &task.env, user, SCRIPT, &stdin).await?;
        let made: Vec<Made> = serde_json::from_slice(&out).map_err(|error| broken(&error))?;
        for (kind, limit) in [("raise", raise), ("literal", literal)] {
            for made in made.iter().filter(|made| made.kind == kind).take(limit) {
                canaries.push(Canary {
                    file: sibling(&made.origin)?,
                    function: made.function.clone(),
                    origin: made.origin.clone(),
                    kind: made.kind.clone(),
                    text: made.text.clone(),
                });
            }
        }
    }
    Ok(canaries)
}

/// Test files and their functions, in an order that nobody can know.
fn shuffled<'a>(
    ids: &'a [String],
    pristine: &'a Pristine,
    limit: usize,
) -> Result<Vec<File<'a>>, Fault> {
    let mut functions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in ids {
        let function = function_of(id);
        let of_file = functions.entry(file_of(id)).or_default();
        if !function.is_empty() && !of_file.contains(&function) {
            of_file.push(function);
        }
    }
    let seed = random::<16>()?;
    let rank = |name: &str| sha256_hex(&[&seed[..], name.as_bytes()].concat());
    let mut files: Vec<File<'_>> = functions
        .into_iter()
        .filter_map(|(name, mut functions)| {
            let Some(Current::File { bytes, .. }) = pristine.files.get(&escaped(name)) else {
                return None;
            };
            functions.sort_by_cached_key(|function| rank(function));
            Some(File { name, text: std::str::from_utf8(bytes).ok()?, functions })
        })
        .collect();
    files.sort_by_cached_key(|file| rank(file.name));
    files.truncate(limit);
    Ok(files)
}

/// The function of an id, without its parameters.
fn function_of(id: &str) -> &str {
    let rest = id.split_once("::").map_or("", |(_, rest)| rest);
    rest.split('[').next().unwrap_or(rest)
}

fn sibling(origin: &str) -> Result<String, Fault> {
    let stem = origin.strip_suffix(".py").unwrap_or(origin);
    Ok(format!("{stem}_{}.py", proctor_types::hex(&random::<4>()?)))
}

/// A canary is judged where the test that it copies passed: there, it must have failed.
pub(crate) fn judge(canaries: &[Canary], run: &TestRun) -> Vec<Evidence> {
    let mut found = Vec::new();
    if canaries.is_empty() {
        found.push(note(evidence::NO_CANARY, "no test file lends itself to one"));
    }
    for canary in canaries {
        let of = |file: &str| -> Vec<TestStatus> {
            let ids = run.tests.iter();
            ids.filter(|(id, _)| file_of(id) == file && function_of(id) == canary.function)
                .map(|(_, status)| *status)
                .collect()
        };
        let passed = of(&canary.origin).contains(&TestStatus::Passed);
        if !passed {
            continue;
        }
        let what = format!("{} copy of {}::{}", canary.kind, canary.origin, canary.function);
        let failed = |status: &TestStatus| matches!(status, TestStatus::Failed | TestStatus::Error);
        let statuses = of(&canary.file);
        if let Some(status) = statuses.iter().find(|s| !failed(s) && **s != TestStatus::Missing) {
            found.push(note(evidence::CANARY_PASSED, format!("{what}: {status}").to_lowercase()));
        } else if run.complete && (statuses.is_empty() || statuses.contains(&TestStatus::Missing)) {
            found.push(note(evidence::CANARY_MISSING, what));
        }
    }
    found
}

fn broken(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(Layer::Grade, format!("making canaries: {error}"))
}
