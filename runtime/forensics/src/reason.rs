//! Determines why a trial did not resolve its task, from its ending, its steps and its test log.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_types::{Envelope, Event, Fault, Layer, Outcome, Reason, TIMEOUT, Verdict, from_toml};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    calls::{calls, lines},
    command::commands,
    rules::{RuleFile, any},
};

const TEXT: &str = include_str!("../../../configs/reasons.toml");

/// Kinds of evidence that grading records if the tests did not finish.
const NO_END: [&str; 1] = ["timed_out"];

/// The start of an assertion in pytest's output, which omits the exception class.
const ASSERT: &str = "assert ";
const ASSERTION_ERROR: &str = "AssertionError";

/// A trial that has ended and its verdict.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    pub outcome: &'a Outcome,
    pub verdict: &'a Verdict,
    /// Events of the try that counts. Empty if there is only a patch.
    pub events: &'a [Envelope],
    pub patch: &'a [u8],
    /// The output of the tests.
    pub log: &'a [u8],
}

/// Returns the first reason that applies: only malformed calls, an ending without submission, no
/// edit, a broken pass-to-pass test while all fail-to-pass tests passed, unfinished tests, edits
/// that were never run, or the most frequent exception. Returns `None` if the task is resolved or
/// no test shows a reason.
///
/// # Errors
/// Returns a fault if the built-in table cannot be read.
pub fn reason(ended: &Ended<'_>) -> Result<Option<Reason>, Fault> {
    let table = Table::get()?;
    let Ended { outcome, verdict, events, .. } = *ended;
    if verdict.resolved {
        return Ok(None);
    }
    if only_malformed(events) {
        return Ok(Some(Reason::FormatErrors));
    }
    let by_ending = Reason::of_ending(&outcome.ending);
    if by_ending == Some(Reason::GaveUp) && ended_malformed(events) {
        return Ok(Some(Reason::FormatErrors));
    }
    if by_ending.is_some() {
        return Ok(by_ending);
    }
    // Tasks graded by rewards may need no change in the work directory.
    if ended.patch.is_empty() && verdict.rewards.is_empty() {
        return Ok(Some(Reason::NeverEdited));
    }
    if verdict.broke_pass_to_pass() {
        return Ok(Some(Reason::BrokePassToPass));
    }
    if did_not_end(verdict) {
        return Ok(Some(Reason::TimeOut));
    }
    if never_ran(events, table)? {
        return Ok(Some(Reason::EditedNeverRan));
    }
    Ok(exception(ended.log, table))
}

/// Counts the failed tests of a log by exception class. pytest's short summary lists each failed
/// test once, so it is used if present. Otherwise every traceback counts. If grading was stopped, a
/// [`TIMEOUT`] is added.
///
/// # Errors
/// Returns a fault if the built-in table cannot be read.
pub fn exceptions(verdict: &Verdict, log: &[u8]) -> Result<BTreeMap<String, u64>, Fault> {
    if verdict.resolved {
        return Ok(BTreeMap::new());
    }
    let table = Table::get()?;
    let log = String::from_utf8_lossy(log);
    let summary: BTreeMap<&str, String> =
        log.lines().filter_map(|line| table.of_summary(line)).collect();
    let classes: Vec<String> = match summary.is_empty() {
        false => summary.into_values().collect(),
        true => log.lines().filter_map(|line| table.class(line)).map(str::to_owned).collect(),
    };
    let mut counts = BTreeMap::new();
    for class in classes {
        *counts.entry(class).or_default() += 1;
    }
    if did_not_end(verdict) {
        *counts.entry(TIMEOUT.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

fn did_not_end(verdict: &Verdict) -> bool {
    verdict.evidence.iter().any(|evidence| NO_END.contains(&evidence.kind.as_str()))
}

/// Returns whether a call with these arguments runs tests, judging by its shell line.
///
/// # Errors
/// Returns a fault if a built-in table cannot be read.
pub fn runs_tests(arguments: &Value) -> Result<bool, Fault> {
    let (table, file) = (Table::get()?, RuleFile::get()?);
    let lines = lines(arguments, file);
    let mut commands = lines.iter().flat_map(|line| commands(line, file));
    Ok(commands.any(|command| command.forms.iter().any(|form| any(&table.tests, form))))
}

/// Returns whether each tool call of the record was malformed, in order.
fn malformed(events: &[Envelope]) -> impl Iterator<Item = bool> {
    events.iter().filter_map(|envelope| match &envelope.event {
        Event::ToolReturned { malformed, .. } => Some(*malformed),
        _ => None,
    })
}

/// Returns whether tools were called but none of the calls could be parsed.
fn only_malformed(events: &[Envelope]) -> bool {
    malformed(events).next().is_some() && malformed(events).all(|malformed| malformed)
}

fn ended_malformed(events: &[Envelope]) -> bool {
    malformed(events).last() == Some(true)
}

/// Returns whether files were edited but nothing was run in that step or a later one.
fn never_ran(events: &[Envelope], table: &Table) -> Result<bool, Fault> {
    let answered = |envelope: &Envelope| matches!(envelope.event, Event::ModelAnswered { .. });
    if !events.iter().any(answered) {
        return Ok(false);
    }
    let file = RuleFile::get()?;
    let first_edit = events.iter().find_map(|envelope| match envelope.event {
        Event::SnapshotTaken { changed, removed, .. } if envelope.step > 0 => {
            (changed + removed > 0).then_some(envelope.step)
        }
        _ => None,
    });
    let calls = calls(events, file);
    // A client whose tools are not recorded may have run anything.
    if calls.is_empty() && !events.iter().any(|one| matches!(one.event, Event::ToolCalled { .. })) {
        return Ok(false);
    }
    let ran =
        calls.iter().filter(|call| first_edit.is_none_or(|first| call.step >= first)).any(|call| {
            let all = commands(&call.line, file);
            all.iter().any(|command| command.forms.iter().any(|form| any(&table.runs, form)))
        });
    Ok(!ran)
}

/// Returns the reason that corresponds to the most frequent exception class in the log.
fn exception(log: &[u8], table: &Table) -> Option<Reason> {
    let log = String::from_utf8_lossy(log);
    let mut counts: BTreeMap<Reason, u64> = BTreeMap::new();
    for line in log.lines() {
        if let Some(found) = table.of_line(line) {
            *counts.entry(found).or_default() += 1;
        }
    }
    // For equal counts, prefer the reason that prevents tests from starting.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(reason, _)| reason)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    runs: Vec<String>,
    tests: Vec<String>,
    import_or_name_error: Vec<String>,
    type_or_attribute_error: Vec<String>,
    timeout: String,
}

struct Table {
    runs: Vec<Regex>,
    tests: Vec<Regex>,
    classes: BTreeMap<String, Reason>,
    /// Matches the last line of a traceback, as printed by pytest or Python.
    raised: Regex,
    /// Matches the last line as marked by pytest. Any class counts there, such as `Failed` from
    /// `pytest.raises`.
    marked: Regex,
    /// Matches a line of pytest's short summary: the test and the failure message.
    summary: Regex,
    /// Matches the exception class at the start of such a message.
    named: Regex,
    /// Matches a plugin's message that a test timed out.
    timeout: Regex,
}

static TABLE: LazyLock<Result<Table, String>> = LazyLock::new(|| {
    let written: TableFile = from_toml(TEXT)?;
    let compiled = |text: &str| Regex::new(text).map_err(|error| error.to_string());
    let runs = written.runs.iter().map(|text| compiled(text)).collect::<Result<_, _>>()?;
    let tests = written.tests.iter().map(|text| compiled(text)).collect::<Result<_, _>>()?;
    let imports = written.import_or_name_error.into_iter();
    let types = written.type_or_attribute_error.into_iter();
    let classes = imports
        .map(|name| (name, Reason::ImportOrNameError))
        .chain(types.map(|name| (name, Reason::TypeOrAttributeError)))
        .collect();
    let raised = compiled(
        r"^(?:E\s+)?(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Warning|Iteration))(?::|$)",
    )?;
    let marked = compiled(r"^E\s+(?:[A-Za-z_]\w*\.)*([A-Z]\w*):(?:\s|$)")?;
    let summary = compiled(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?) - (.+)$")?;
    let named = compiled(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?::|$)")?;
    let timeout = compiled(&written.timeout)?;
    Ok(Table { runs, tests, classes, raised, marked, summary, named, timeout })
});

impl Table {
    fn get() -> Result<&'static Self, Fault> {
        TABLE
            .as_ref()
            .map_err(|error| Fault::new(Layer::Grade, format!("configs/reasons.toml: {error}")))
    }

    fn of_line(&self, line: &str) -> Option<Reason> {
        let class = self.class(line)?;
        Some(self.classes.get(class).copied().unwrap_or(Reason::Assertion))
    }

    /// Returns the exception class if the line ends a traceback.
    fn class<'l>(&self, line: &'l str) -> Option<&'l str> {
        // pytest shows assertions without the exception class.
        if line.strip_prefix("E ").is_some_and(|rest| rest.trim_start().starts_with(ASSERT)) {
            return Some(ASSERTION_ERROR);
        }
        let found = self.raised.captures(line).or_else(|| self.marked.captures(line))?;
        found.get(1).map(|class| class.as_str())
    }

    /// Returns the test and the exception class of a line in pytest's short summary.
    fn of_summary<'l>(&self, line: &'l str) -> Option<(&'l str, String)> {
        let found = self.summary.captures(line)?;
        let (test, said) = (found.get(1)?.as_str(), found.get(2)?.as_str());
        if self.timeout.is_match(said) {
            return Some((test, TIMEOUT.to_owned()));
        }
        if said.starts_with(ASSERT) {
            return Some((test, ASSERTION_ERROR.to_owned()));
        }
        let class = self.named.captures(said)?.get(1)?.as_str();
        Some((test, class.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{BudgetKind, BudgetScope, Ending, ExitCause, TestGroup};
    use serde_json::{Value, json};

    use super::*;

    fn event(step: u64, event: Value) -> Envelope {
        let mut line =
            json!({"v": 1, "seq": 1, "try": 1, "step": step, "t_mono": 0.0, "t_wall": 0.0});
        line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        let envelope: Envelope = serde_json::from_value(line).unwrap();
        assert!(!matches!(envelope.event, Event::Unknown(_)), "{envelope:?}");
        envelope
    }

    /// Builds a step with one shell line. With `edit`, files differ afterwards.
    fn step(step: u64, line: &str, edit: bool, malformed: bool) -> Vec<Envelope> {
        let usage = json!({"input": 1, "output": 1, "cached": 0, "estimated": false});
        let answer = json!({
            "content": "", "tool_calls": [], "extra": {}, "finish_reason": null, "refused": false,
            "usage": usage, "cost_usd": null
        });
        let changed = u64::from(edit);
        vec![
            event(step, json!({"kind": "model_answered", "answer": answer})),
            event(
                step,
                json!({"kind": "tool_called", "call_id": "c", "name": "shell", "arguments": {"command": line}}),
            ),
            event(
                step,
                json!({"kind": "tool_returned", "call_id": "c", "name": "shell", "shown": "", "full": null,
                    "exit_status": 0, "seconds": 0.1, "malformed": malformed}),
            ),
            event(
                step,
                json!({"kind": "snapshot_taken", "snapshot": "s", "changed": changed, "removed": 0, "bytes": 0, "ms": 1.0}),
            ),
        ]
    }

    fn found(ending: Ending, events: &[Envelope], patch: &str, log: &str) -> Option<Reason> {
        judged(ending, events, patch, log, (&["f"], &[]), &[])
    }

    /// Builds a verdict with these failed tests in both groups. A group without failed tests has
    /// passed.
    fn judged(
        ending: Ending,
        events: &[Envelope],
        patch: &str,
        log: &str,
        (f2p, p2p): (&[&str], &[&str]),
        evidence: &[&str],
    ) -> Option<Reason> {
        let outcome = Outcome::unmeasured(1, ending);
        let mut verdict: Verdict = serde_json::from_value(json!({
            "schema_version": 1, "task": "t", "resolved": false, "passed_rate": 0.0,
            "fail_to_pass": {"passed": [], "failed": []},
            "pass_to_pass": {"passed": [], "failed": []}, "tests": {}, "policies": {},
            "integrity": "clean",
            "evidence": evidence.iter().map(|kind| json!({"kind": kind, "what": ""})).collect::<Vec<_>>(),
        }))
        .unwrap();
        let group = |failed: &[&str]| TestGroup {
            passed: if failed.is_empty() { vec!["p".into()] } else { vec![] },
            failed: failed.iter().map(|id| (*id).to_owned()).collect(),
        };
        (verdict.fail_to_pass, verdict.pass_to_pass) = (group(f2p), group(p2p));
        let (patch, log) = (patch.as_bytes(), log.as_bytes());
        reason(&Ended { outcome: &outcome, verdict: &verdict, events, patch, log }).unwrap()
    }

    const ASSERTION: &str = "E       assert 0 == 4\n\nt.py:9: AssertionError\n";

    #[test]
    fn reason_prefers_the_ending_over_test_results() {
        let steps = Ending::Budget { budget: BudgetKind::Steps, scope: BudgetScope::Trial };
        assert_eq!(found(steps.clone(), &[], "", ""), Some(Reason::OutOfBudget));
        assert_eq!(found(steps, &[], "p", ASSERTION), Some(Reason::OutOfBudget));
        let refused = Ending::ModelRefused { why: String::new() };
        assert_eq!(found(refused, &[], "p", ASSERTION), Some(Reason::Refused));
        let left = Ending::ScaffoldExited {
            cause: ExitCause::Loop,
            why: "3 responses in a row without a tool call".into(),
        };
        let events = step(1, "ls", false, false);
        assert_eq!(found(left.clone(), &events, "", ""), Some(Reason::GaveUp));
        let events = [events, step(2, "", false, true)].concat();
        assert_eq!(found(left, &events, "", ""), Some(Reason::FormatErrors));
        let finished = Ending::ScaffoldExited { cause: ExitCause::Finished, why: String::new() };
        assert_eq!(found(finished.clone(), &[], "", ""), Some(Reason::NeverEdited));
        assert_eq!(found(finished, &[], "p", ASSERTION), Some(Reason::Assertion));
    }

    #[test]
    fn reason_without_a_valid_call_is_format_errors() {
        let steps = Ending::Budget { budget: BudgetKind::Steps, scope: BudgetScope::Trial };
        let events = [step(1, "", false, true), step(2, "", false, true)].concat();
        assert_eq!(found(steps.clone(), &events, "", ""), Some(Reason::FormatErrors));
        let events = [events, step(3, "ls", false, false)].concat();
        assert_eq!(found(steps, &events, "", ""), Some(Reason::OutOfBudget));
    }

    #[test]
    fn reason_separates_untested_edits() {
        let edit = |line| step(2, line, true, false);
        let before = step(1, "pytest -q", false, false);
        let ran = |after: Vec<Envelope>| {
            let events = [before.clone(), edit("sed -i s/a/b/ x.py"), after].concat();
            found(Ending::Submitted, &events, "p", ASSERTION)
        };
        for line in ["ls", "cat tests/test_x.py", "git diff", "grep -rn pytest .", "echo python"] {
            assert_eq!(ran(step(3, line, false, false)), Some(Reason::EditedNeverRan), "{line}");
        }
        for line in [
            "python3 -m pytest -q",
            "cd /testbed && PYTHONPATH=. timeout 60 /venv/bin/python -c 'import x'",
            "tox -e py311",
            "./run_tests.sh",
            "bash ci/test.sh",
            "uv run pytest tests",
            "make test | tail -3",
        ] {
            assert_eq!(ran(step(3, line, false, false)), Some(Reason::Assertion), "{line}");
        }
        let same = [before.clone(), edit("cat > x.py <<'E'\na = 1\nE\npython x.py")].concat();
        assert_eq!(found(Ending::Submitted, &same, "p", ASSERTION), Some(Reason::Assertion));
        // There are no edits by step for a prediction or the gold patch.
        assert_eq!(found(Ending::Submitted, &[], "p", ASSERTION), Some(Reason::Assertion));
        assert_eq!(found(Ending::Submitted, &before, "", ""), Some(Reason::NeverEdited));
    }

    #[test]
    fn reason_is_the_most_frequent_exception() {
        let of = |log: &str| found(Ending::Submitted, &[], "p", log);
        let import = "E   ImportError: cannot import name 'a' from 'b' (/testbed/b.py)\n";
        assert_eq!(of(import), Some(Reason::ImportOrNameError));
        assert_eq!(
            of("E   ModuleNotFoundError: No module named 'x'\n"),
            Some(Reason::ImportOrNameError)
        );
        assert_eq!(
            of("E     File \"x.py\", line 1\nE   SyntaxError: invalid syntax\n"),
            Some(Reason::ImportOrNameError)
        );
        assert_eq!(
            of("AttributeError: 'A' object has no attribute 'b'\n"),
            Some(Reason::TypeOrAttributeError)
        );
        assert_eq!(of("E       kit.errors.NoSuchThingError: x\n"), Some(Reason::Assertion));
        assert_eq!(of("AssertionError\n"), Some(Reason::Assertion));
        let none_raised = "E       Failed: DID NOT RAISE <class 'ValueError'>\n";
        assert_eq!(of(none_raised), Some(Reason::Assertion));
        assert_eq!(of("E   kit.errors.Refusal: no\n"), Some(Reason::Assertion));
        let types = "E   TypeError: f() takes 1\n".repeat(2);
        assert_eq!(of(&format!("{types}{ASSERTION}")), Some(Reason::TypeOrAttributeError));
        assert_eq!(of(&format!("{types}{import}{import}")), Some(Reason::ImportOrNameError));
        // An exception's name in a test's own output does not count.
        assert_eq!(of("the word ImportError: in a sentence\n8 passed\n"), None);
    }

    fn counted(log: &str, evidence: &[&str], resolved: bool) -> Vec<(String, u64)> {
        let verdict: Verdict = serde_json::from_value(json!({
            "schema_version": 1, "task": "t", "resolved": resolved, "passed_rate": 0.0,
            "fail_to_pass": {"passed": [], "failed": []},
            "pass_to_pass": {"passed": [], "failed": []}, "tests": {}, "policies": {},
            "integrity": "clean",
            "evidence": evidence.iter().map(|kind| json!({"kind": kind, "what": ""})).collect::<Vec<_>>(),
        }))
        .unwrap();
        exceptions(&verdict, log.as_bytes()).unwrap().into_iter().collect()
    }

    #[test]
    fn exceptions_counts_each_failed_test_of_the_summary_once() {
        let of = |name: &str, count| (name.to_owned(), count);
        // Both tests have a traceback, and one of them has two.
        let log = "E   KeyError: 'a'\nE   NameError: name 'f' is not defined\nE   NameError: name 'f' is not defined\n\
                   =========================== short test summary info ============================\n\
                   PASSED t.py::ok - NameError: no failure\n\
                   FAILED t.py::a - NameError: name 'f' is not defined\n\
                   FAILED t.py::b[x y] - NameError: name 'f' is not defined\n\
                   FAILED t.py::b[x y] - NameError: name 'f' is not defined\n\
                   FAILED t.py::c - assert 0 == 4\n\
                   FAILED t.py::d - kit.errors.Refusal: no\n\
                   FAILED t.py::e - Failed: DID NOT RAISE <class 'ValueError'>\n\
                   FAILED t.py::f - Failed: Timeout (>10.0s) from pytest-timeout.\n\
                   ERROR u.py - ImportError: cannot import name 'g'\n";
        assert_eq!(
            counted(log, &[], false),
            [
                of("AssertionError", 1),
                of("Failed", 1),
                of("ImportError", 1),
                of("NameError", 2),
                of("Refusal", 1),
                of("timeout", 1)
            ]
        );
        assert!(counted(log, &[], true).is_empty());
    }

    #[test]
    fn exceptions_counts_tracebacks_where_there_is_no_summary() {
        let log = format!("{ASSERTION}TypeError: f() takes 1\nTypeError: f() takes 1\n");
        let of = |name: &str, count| (name.to_owned(), count);
        assert_eq!(
            counted(&log, &["timed_out"], false),
            [of("AssertionError", 1), of("TypeError", 2), of("timeout", 1)]
        );
        assert!(counted("8 passed\n", &[], false).is_empty());
    }

    #[test]
    fn reason_reports_broken_tests_and_timeouts() {
        let of = |failed, evidence: &[&str]| {
            judged(Ending::Submitted, &[], "p", ASSERTION, failed, evidence)
        };
        assert_eq!(of((&[], &["old"]), &[]), Some(Reason::BrokePassToPass));
        assert_eq!(of((&["new"], &["old"]), &[]), Some(Reason::Assertion));
        assert_eq!(of((&["new"], &["old"]), &["timed_out"]), Some(Reason::TimeOut));
    }

    #[test]
    fn command_lines_that_run_tests_are_recognized() {
        for (line, runs) in [
            ("cd /testbed && python -m pytest -q tests/test_a.py", true),
            ("timeout 60 ./runtests.py admin", true),
            ("tox -e py", true),
            ("python app.py", false),
            ("grep -rn pytest .", false),
        ] {
            assert_eq!(runs_tests(&json!({ "command": line })).unwrap(), runs, "{line}");
        }
        assert!(!runs_tests(&json!({"path": "tests/test_a.py", "text": "pytest"})).unwrap());
    }
}
