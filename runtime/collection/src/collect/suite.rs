//! Runs and traces a project's tests. The results are shared by all tasks from this project.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{Fault, count_with_noun};
use serde::{Deserialize, Serialize};

use super::{
    calls::Calls,
    observe::{Mode, ObserveRequest, RunResult, SuiteInputs, TestRunner},
    records::{Record, collected_tests, preloadable_modules},
    seeded_rng::SeededRng,
    settings::Settings,
    stable_message::stable_message,
};

/// A test or a test file that is not used, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedItem {
    pub id: String,
    pub why: String,
}

/// The results of running a project's tests: the tests that pass in every run, and the calls that
/// they make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Suite {
    /// Number of collected tests.
    #[serde(rename = "found")]
    pub(super) test_count: usize,
    /// Tests that passed in every run, by file.
    pub(super) steady: BTreeMap<String, Vec<String>>,
    pub(super) unused: Vec<UnusedItem>,
    pub(super) calls: Calls,
    /// Duration of the tests in the run without tracing and reordering, in seconds.
    pub(super) seconds: f64,
}

/// Runs the unchanged project's tests three times: in their normal order, in random order, and
/// traced.
///
/// # Errors
/// Fails if the environment or the sandbox has a fault.
pub(super) async fn run_suite(
    runner: &TestRunner<'_>,
    tests: Vec<String>,
    seed: &str,
    settings: &Settings,
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<Suite, Fault> {
    let records = runner
        .observe(&ObserveRequest::new(Mode::Collect, settings, tests), "searching for tests")
        .await?;
    let items = collected_tests(&records);
    let uncollected: Vec<UnusedItem> = records.iter().filter_map(collection_error).collect();
    let test_count = items.values().map(Vec::len).sum();
    let mut selection = SuiteInputs {
        files: items.keys().cloned().collect(),
        deselected_tests: BTreeSet::new(),
        preloaded_modules: preloadable_modules(&records),
    };
    let files = count_with_noun(selection.files.len(), "file");
    on_progress(&format!("{} in {files}; running them", count_with_noun(test_count, "test")));
    let (plain, _) = runner.run(Mode::Run, &selection, None, "running the tests").await?;
    on_progress("running them again, in random order");
    selection.deselected_tests.extend(plain.hung.iter().cloned());
    let order = Some(SeededRng::from_parts(&[seed, "order"]).next_u64() >> 12);
    let (random, _) =
        runner.run(Mode::Run, &selection, order, "running the tests in random order").await?;
    on_progress("tracing them");
    selection.deselected_tests.extend(random.hung.iter().cloned());
    let (traced, calls) = runner.run(Mode::Trace, &selection, None, "tracing the tests").await?;
    let mut suite = classify_tests(&items, &[&plain, &random, &traced]);
    suite.unused.splice(0..0, uncollected);
    suite.calls = calls;
    suite.seconds = plain.seconds;
    suite.test_count = test_count;
    let steady: usize = suite.steady.values().map(Vec::len).sum();
    on_progress(&format!("{} pass every time", count_with_noun(steady, "test")));
    Ok(suite)
}

/// Converts an error during collection to an unused file. If the id is empty, pytest itself failed
/// to start.
fn collection_error(record: &Record) -> Option<UnusedItem> {
    let Record::Error { id, why, .. } = record else { return None };
    let last = why.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last = stable_message(last);
    Some(match id.is_empty() {
        true => UnusedItem { id: "pytest".to_owned(), why: format!("it fails to start: {last}") },
        false => UnusedItem { id: id.clone(), why: format!("pytest cannot collect it: {last}") },
    })
}

fn classify_tests(tests_by_file: &BTreeMap<String, Vec<String>>, runs: &[&RunResult]) -> Suite {
    let mut out = Suite::default();
    let broken: BTreeMap<&String, &String> =
        runs.iter().flat_map(|run| &run.files_without_results).collect();
    for (file, why) in &broken {
        out.unused.push(UnusedItem { id: (*file).clone(), why: (*why).clone() });
    }
    for (file, ids) in tests_by_file {
        // The process was killed, so the results of its remaining tests are unknown.
        if broken.contains_key(file) {
            continue;
        }
        for id in ids {
            match flakiness_reason(id, runs) {
                Some(why) => out.unused.push(UnusedItem { id: id.clone(), why }),
                None => out.steady.entry(file.clone()).or_default().push(id.clone()),
            }
        }
    }
    out
}

fn flakiness_reason(id: &str, runs: &[&RunResult]) -> Option<String> {
    if id.chars().any(char::is_control) {
        return Some("pytest cannot select it by its id".to_owned());
    }
    if runs.iter().any(|run| run.hung.contains(id)) {
        return Some("it hangs".to_owned());
    }
    let outcomes: Vec<&str> = runs
        .iter()
        .map(|run| run.tests.get(id).map_or("missing", |ended| ended.outcome.as_str()))
        .collect();
    let first = outcomes.first().copied().unwrap_or("missing");
    let outcome_text = match outcomes.iter().all(|outcome| *outcome == first) {
        true if first == "passed" => return None,
        true => format!("it does not pass: {first}"),
        false => format!("its results vary: {}", outcomes.join(", ")),
    };
    // Leave out a message that varies between runs, because it would also vary between collections.
    let reasons: BTreeSet<&str> = runs
        .iter()
        .filter_map(|run| run.tests.get(id))
        .filter(|ended| ended.outcome != "passed")
        .map(|ended| ended.why.as_str())
        .collect();
    match reasons.first() {
        Some(why) if reasons.len() == 1 && !why.is_empty() => {
            Some(format!("{outcome_text} ({why})"))
        }
        _ => Some(outcome_text),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::observe::TestOutcome, *};

    /// Parses an outcome written as `failed: why`.
    fn parse_outcome(text: &str) -> TestOutcome {
        let (outcome, why) = text.split_once(": ").unwrap_or((text, ""));
        TestOutcome { outcome: outcome.to_owned(), why: why.to_owned() }
    }

    fn run_result(
        outcomes: &[(&str, &str)],
        hung_tests: &[&str],
        broken_files: &[(&str, &str)],
    ) -> RunResult {
        let own = |text: &&str| (*text).to_owned();
        RunResult {
            tests: outcomes.iter().map(|(id, it)| (own(id), parse_outcome(it))).collect(),
            hung: hung_tests.iter().map(own).collect(),
            files_without_results: broken_files
                .iter()
                .map(|(file, why)| (own(file), (*why).to_owned()))
                .collect(),
            seconds: 0.1,
        }
    }

    #[test]
    fn classify_tests_gives_a_reason_for_each_excluded_test() {
        let items = BTreeMap::from([
            (
                "a.py".to_owned(),
                ["a.py::1", "a.py::2", "a.py::3", "a.py::4", "a.py::5"].map(str::to_owned).to_vec(),
            ),
            ("b.py".to_owned(), vec!["b.py::1".to_owned()]),
        ]);
        let plain = run_result(
            &[
                ("a.py::1", "passed"),
                ("a.py::2", "failed: ZeroDivisionError"),
                ("a.py::3", "passed"),
                ("a.py::5", "skipped: 17 of 20"),
                ("b.py::1", "passed"),
            ],
            &["a.py::4"],
            &[],
        );
        let random = run_result(
            &[
                ("a.py::1", "passed"),
                ("a.py::2", "failed: ZeroDivisionError"),
                ("a.py::3", "error: fixture 'x' not found"),
                ("a.py::5", "skipped: 18 of 20"),
            ],
            &[],
            &[("b.py", "x")],
        );
        let suite = classify_tests(&items, &[&plain, &random]);
        assert_eq!(suite.steady, BTreeMap::from([("a.py".into(), vec!["a.py::1".into()])]));
        let reason: Vec<String> =
            suite.unused.iter().map(|it| format!("{}: {}", it.id, it.why)).collect();
        assert_eq!(
            reason,
            [
                "b.py: x",
                "a.py::2: it does not pass: failed (ZeroDivisionError)",
                "a.py::3: its results vary: passed, error (fixture 'x' not found)",
                "a.py::4: it hangs",
                "a.py::5: it does not pass: skipped"
            ]
        );
    }
}
