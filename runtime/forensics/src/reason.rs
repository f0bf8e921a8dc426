//! Determines why a trial did not resolve its task, from how it ended, its steps and its test log.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_types::{
    Envelope, Event, FailureReason, Fault, FaultLayer, Outcome, TIMEOUT_EXCEPTION, Verdict,
    from_toml,
};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    calls::{shell_calls, shell_lines},
    command::commands,
    rules::{RuleFile, any_matches},
};

const REASONS_TOML: &str = include_str!("../../../configs/tables/reasons.toml");

/// Kinds of evidence that grading records if the tests did not finish.
const UNFINISHED_KINDS: [&str; 1] = ["timed_out"];

/// Number of bytes at the end of an output in which a test runner's summary is looked for.
const MAX_RUNNER_OUTPUT: usize = 16 << 10;

/// How pytest's output starts a line about a failed assertion. Such a line omits the exception
/// class.
const ASSERT_PREFIX: &str = "assert ";
const ASSERTION_ERROR: &str = "AssertionError";

/// A trial that has ended, with its verdict.
#[derive(Debug, Clone, Copy)]
pub struct EndedTrial<'a> {
    pub outcome: &'a Outcome,
    pub verdict: &'a Verdict,
    /// The events of the counted try. Empty if there is only a patch.
    pub events: &'a [Envelope],
    pub patch: &'a [u8],
    /// The output from the tests.
    pub log: &'a [u8],
}

/// Returns the first reason that applies:
///
/// * All tool calls were malformed.
/// * The trial ended without a submission.
/// * Nothing was edited.
/// * All fail-to-pass tests passed, but a pass-to-pass test failed.
/// * The tests did not finish.
/// * The edits were never run.
/// * The most frequent exception.
///
/// Returns `None` if the task is resolved or no test indicates a reason.
///
/// # Errors
/// Returns a fault if the built-in table cannot be read.
pub fn failure_reason(trial: &EndedTrial<'_>) -> Result<Option<FailureReason>, Fault> {
    let table = ReasonTable::get()?;
    let EndedTrial { outcome, verdict, events, .. } = *trial;
    if verdict.resolved {
        return Ok(None);
    }
    if has_only_malformed_calls(events) {
        return Ok(Some(FailureReason::FormatErrors));
    }
    let by_ending = FailureReason::from_ending(&outcome.ending);
    if by_ending == Some(FailureReason::GaveUp) && ends_with_malformed_call(events) {
        return Ok(Some(FailureReason::FormatErrors));
    }
    if by_ending.is_some() {
        return Ok(by_ending);
    }
    // If rewards grade the task, it may need no change in the work directory.
    if trial.patch.is_empty() && verdict.rewards.is_empty() {
        return Ok(Some(FailureReason::NeverEdited));
    }
    if verdict.broke_pass_to_pass() {
        return Ok(Some(FailureReason::BrokePassToPass));
    }
    if is_unfinished(verdict) {
        return Ok(Some(FailureReason::TimeOut));
    }
    if has_untested_edits(events, table)? {
        return Ok(Some(FailureReason::EditedNeverRan));
    }
    Ok(reason_from_exceptions(trial.log, table))
}

/// Counts the failed tests in a log by exception class. pytest's short summary lists each failed
/// test once, so the summary is used if there is one. Otherwise, every traceback counts. If grading
/// was stopped, one [`TIMEOUT_EXCEPTION`] is added.
///
/// # Errors
/// Returns a fault if the built-in table cannot be read.
pub fn count_exceptions(verdict: &Verdict, log: &[u8]) -> Result<BTreeMap<String, u64>, Fault> {
    if verdict.resolved {
        return Ok(BTreeMap::new());
    }
    let table = ReasonTable::get()?;
    let log = String::from_utf8_lossy(log);
    let summary: BTreeMap<&str, String> =
        log.lines().filter_map(|line| table.parse_summary_line(line)).collect();
    let classes: Vec<String> = match summary.is_empty() {
        false => summary.into_values().collect(),
        true => {
            log.lines().filter_map(|line| table.exception_class(line)).map(str::to_owned).collect()
        }
    };
    let mut counts = BTreeMap::new();
    for class in classes {
        *counts.entry(class).or_default() += 1;
    }
    if is_unfinished(verdict) {
        *counts.entry(TIMEOUT_EXCEPTION.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

/// Returns the reason that corresponds to the most frequent of the exception classes, as
/// [`count_exceptions`] counts them. Returns `None` if there are none.
///
/// # Errors
/// Returns a fault if the built-in table cannot be read.
pub fn reason_for_exceptions(
    exceptions: &BTreeMap<String, u64>,
) -> Result<Option<FailureReason>, Fault> {
    let table = ReasonTable::get()?;
    let mut counts: BTreeMap<FailureReason, u64> = BTreeMap::new();
    for (class, count) in exceptions {
        let reason = match class.as_str() {
            TIMEOUT_EXCEPTION => FailureReason::TimeOut,
            class => table.reason_by_class.get(class).copied().unwrap_or(FailureReason::Assertion),
        };
        *counts.entry(reason).or_default() += count;
    }
    Ok(most_frequent_reason(counts))
}

/// Returns the most frequent reason. If counts are equal, prefers the reason that keeps tests from
/// starting.
fn most_frequent_reason(counts: BTreeMap<FailureReason, u64>) -> Option<FailureReason> {
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(reason, _)| reason)
}

fn is_unfinished(verdict: &Verdict) -> bool {
    verdict.evidence.iter().any(|evidence| UNFINISHED_KINDS.contains(&evidence.kind.as_str()))
}

/// Returns whether a call with the given arguments runs tests, according to its shell line.
///
/// # Errors
/// Returns a fault if a built-in table cannot be read.
pub fn runs_tests(arguments: &Value) -> Result<bool, Fault> {
    let (table, file) = (ReasonTable::get()?, RuleFile::get()?);
    let lines = shell_lines(arguments, file);
    let mut commands = lines.iter().flat_map(|line| commands(line, file));
    Ok(commands
        .any(|command| command.forms.iter().any(|form| any_matches(&table.test_commands, form))))
}

/// Returns whether a test runner ran tests, according to the end of its output. Returns `None` if the
/// output does not say so.
///
/// # Errors
/// Returns a fault if the built-in table cannot be read.
pub fn has_run_tests(output: &str) -> Result<Option<bool>, Fault> {
    let table = ReasonTable::get()?;
    let from = output.len().saturating_sub(MAX_RUNNER_OUTPUT);
    let from = (from..output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(0);
    let end = &output[from..];
    if any_matches(&table.ran_tests, end) {
        return Ok(Some(true));
    }
    Ok(any_matches(&table.ran_no_tests, end).then_some(false))
}

/// Returns, for each tool call in the record in order, whether the call was malformed.
fn malformed_flags(events: &[Envelope]) -> impl Iterator<Item = bool> {
    events.iter().filter_map(|envelope| match &envelope.event {
        Event::ToolReturned { malformed, .. } => Some(*malformed),
        _ => None,
    })
}

/// Returns whether tools were called but none of the calls could be parsed.
fn has_only_malformed_calls(events: &[Envelope]) -> bool {
    malformed_flags(events).next().is_some() && malformed_flags(events).all(|malformed| malformed)
}

fn ends_with_malformed_call(events: &[Envelope]) -> bool {
    malformed_flags(events).last() == Some(true)
}

/// Returns whether files were edited but nothing was run in the same step or a later one.
fn has_untested_edits(events: &[Envelope], table: &ReasonTable) -> Result<bool, Fault> {
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
    let calls = shell_calls(events, file);
    // If a client's tools are not recorded, it may have run anything.
    if calls.is_empty() && !events.iter().any(|one| matches!(one.event, Event::ToolCalled { .. })) {
        return Ok(false);
    }
    let has_run =
        calls.iter().filter(|call| first_edit.is_none_or(|first| call.step >= first)).any(|call| {
            let all = commands(&call.line, file);
            all.iter().any(|command| {
                command.forms.iter().any(|form| any_matches(&table.run_commands, form))
            })
        });
    Ok(!has_run)
}

/// Returns the reason that corresponds to the most frequent exception class in the log.
fn reason_from_exceptions(log: &[u8], table: &ReasonTable) -> Option<FailureReason> {
    let log = String::from_utf8_lossy(log);
    let mut counts: BTreeMap<FailureReason, u64> = BTreeMap::new();
    for line in log.lines() {
        if let Some(found) = table.reason_for_line(line) {
            *counts.entry(found).or_default() += 1;
        }
    }
    most_frequent_reason(counts)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonFile {
    runs: Vec<String>,
    tests: Vec<String>,
    ran_no_tests: Vec<String>,
    ran_tests: Vec<String>,
    import_or_name_error: Vec<String>,
    type_or_attribute_error: Vec<String>,
    timeout: String,
}

struct ReasonTable {
    run_commands: Vec<Regex>,
    test_commands: Vec<Regex>,
    ran_no_tests: Vec<Regex>,
    ran_tests: Vec<Regex>,
    reason_by_class: BTreeMap<String, FailureReason>,
    /// Matches the last line of a traceback, as pytest or Python prints it.
    traceback_end: Regex,
    /// Matches a last line that pytest marked. On such a line, any class counts, such as `Failed`
    /// from `pytest.raises`.
    marked_line: Regex,
    /// Matches a line in pytest's short summary: the test and the failure message.
    summary_line: Regex,
    /// Matches the exception class at the start of a failure message.
    leading_class: Regex,
    /// Matches a plugin's message that a test timed out.
    timeout_message: Regex,
}

static REASON_TABLE: LazyLock<Result<ReasonTable, String>> = LazyLock::new(|| {
    let reason_file: ReasonFile = from_toml(REASONS_TOML)?;
    let compiled = |text: &str| Regex::new(text).map_err(|error| error.to_string());
    let compiled_list = |texts: &[String]| -> Result<Vec<Regex>, String> {
        texts.iter().map(|text| compiled(text)).collect()
    };
    let runs = compiled_list(&reason_file.runs)?;
    let tests = compiled_list(&reason_file.tests)?;
    let ran_no_tests = compiled_list(&reason_file.ran_no_tests)?;
    let ran_tests = compiled_list(&reason_file.ran_tests)?;
    let imports = reason_file.import_or_name_error.into_iter();
    let types = reason_file.type_or_attribute_error.into_iter();
    let classes = imports
        .map(|name| (name, FailureReason::ImportOrNameError))
        .chain(types.map(|name| (name, FailureReason::TypeOrAttributeError)))
        .collect();
    let raised = compiled(
        r"^(?:E\s+)?(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Warning|Iteration))(?::|$)",
    )?;
    let marked = compiled(r"^E\s+(?:[A-Za-z_]\w*\.)*([A-Z]\w*):(?:\s|$)")?;
    let summary = compiled(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?) - (.+)$")?;
    let named = compiled(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?::|$)")?;
    let timeout = compiled(&reason_file.timeout)?;
    Ok(ReasonTable {
        run_commands: runs,
        test_commands: tests,
        ran_no_tests,
        ran_tests,
        reason_by_class: classes,
        traceback_end: raised,
        marked_line: marked,
        summary_line: summary,
        leading_class: named,
        timeout_message: timeout,
    })
});

impl ReasonTable {
    fn get() -> Result<&'static Self, Fault> {
        REASON_TABLE.as_ref().map_err(|error| {
            Fault::new(FaultLayer::Grade, format!("configs/tables/reasons.toml: {error}"))
        })
    }

    fn reason_for_line(&self, line: &str) -> Option<FailureReason> {
        let class = self.exception_class(line)?;
        Some(self.reason_by_class.get(class).copied().unwrap_or(FailureReason::Assertion))
    }

    /// Returns the exception class if the line is the last one of a traceback.
    fn exception_class<'l>(&self, line: &'l str) -> Option<&'l str> {
        // pytest shows failed assertions without the exception class.
        if line.strip_prefix("E ").is_some_and(|rest| rest.trim_start().starts_with(ASSERT_PREFIX))
        {
            return Some(ASSERTION_ERROR);
        }
        let matched =
            self.traceback_end.captures(line).or_else(|| self.marked_line.captures(line))?;
        matched.get(1).map(|class| class.as_str())
    }

    /// Returns the test and the exception class in a line of pytest's short summary.
    fn parse_summary_line<'l>(&self, line: &'l str) -> Option<(&'l str, String)> {
        let matched = self.summary_line.captures(line)?;
        let (test, said) = (matched.get(1)?.as_str(), matched.get(2)?.as_str());
        if self.timeout_message.is_match(said) {
            return Some((test, TIMEOUT_EXCEPTION.to_owned()));
        }
        if said.starts_with(ASSERT_PREFIX) {
            return Some((test, ASSERTION_ERROR.to_owned()));
        }
        let class = self.leading_class.captures(said)?.get(1)?.as_str();
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

    /// Builds a step with one shell line. With `edit`, files are different after the step.
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

    fn reason_for(
        ending: Ending,
        events: &[Envelope],
        patch: &str,
        log: &str,
    ) -> Option<FailureReason> {
        reason_for_groups(ending, events, patch, log, (&["f"], &[]), &[])
    }

    /// Builds a verdict in which the given tests of the two groups failed. A group without failed
    /// tests has passed.
    fn reason_for_groups(
        ending: Ending,
        events: &[Envelope],
        patch: &str,
        log: &str,
        (f2p, p2p): (&[&str], &[&str]),
        evidence: &[&str],
    ) -> Option<FailureReason> {
        let outcome = Outcome::from_ending(1, ending);
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
        failure_reason(&EndedTrial { outcome: &outcome, verdict: &verdict, events, patch, log })
            .unwrap()
    }

    const ASSERTION_OUTPUT: &str = "E       assert 0 == 4\n\nt.py:9: AssertionError\n";

    #[test]
    fn reason_prefers_the_ending_over_test_results() {
        let steps = Ending::Budget { budget: BudgetKind::Steps, scope: BudgetScope::Trial };
        assert_eq!(reason_for(steps.clone(), &[], "", ""), Some(FailureReason::OutOfBudget));
        assert_eq!(reason_for(steps, &[], "p", ASSERTION_OUTPUT), Some(FailureReason::OutOfBudget));
        let refused = Ending::ModelRefused { why: String::new() };
        assert_eq!(reason_for(refused, &[], "p", ASSERTION_OUTPUT), Some(FailureReason::Refused));
        let left = Ending::ScaffoldExited {
            cause: ExitCause::Loop,
            why: "3 responses in a row without a tool call".into(),
        };
        let events = step(1, "ls", false, false);
        assert_eq!(reason_for(left.clone(), &events, "", ""), Some(FailureReason::GaveUp));
        let events = [events, step(2, "", false, true)].concat();
        assert_eq!(reason_for(left, &events, "", ""), Some(FailureReason::FormatErrors));
        let finished = Ending::ScaffoldExited { cause: ExitCause::Finished, why: String::new() };
        assert_eq!(reason_for(finished.clone(), &[], "", ""), Some(FailureReason::NeverEdited));
        assert_eq!(
            reason_for(finished, &[], "p", ASSERTION_OUTPUT),
            Some(FailureReason::Assertion)
        );
    }

    #[test]
    fn most_frequent_exception_gives_the_reason() {
        for (classes, expected) in [
            (vec![], None),
            (vec![("AssertionError", 2), ("NameError", 1)], Some(FailureReason::Assertion)),
            (vec![("AssertionError", 1), ("NameError", 1)], Some(FailureReason::ImportOrNameError)),
            (vec![("KeyError", 1), ("ValueError", 1)], Some(FailureReason::Assertion)),
            (vec![(TIMEOUT_EXCEPTION, 1)], Some(FailureReason::TimeOut)),
        ] {
            let counts: BTreeMap<String, u64> =
                classes.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
            assert_eq!(reason_for_exceptions(&counts).unwrap(), expected, "{counts:?}");
        }
    }

    #[test]
    fn reason_without_a_valid_call_is_format_errors() {
        let steps = Ending::Budget { budget: BudgetKind::Steps, scope: BudgetScope::Trial };
        let events = [step(1, "", false, true), step(2, "", false, true)].concat();
        assert_eq!(reason_for(steps.clone(), &events, "", ""), Some(FailureReason::FormatErrors));
        let events = [events, step(3, "ls", false, false)].concat();
        assert_eq!(reason_for(steps, &events, "", ""), Some(FailureReason::OutOfBudget));
    }

    #[test]
    fn reason_reports_untested_edits() {
        let edit = |line| step(2, line, true, false);
        let before = step(1, "pytest -q", false, false);
        let ran = |after: Vec<Envelope>| {
            let events = [before.clone(), edit("sed -i s/a/b/ x.py"), after].concat();
            reason_for(Ending::Submitted, &events, "p", ASSERTION_OUTPUT)
        };
        for line in ["ls", "cat tests/test_x.py", "git diff", "grep -rn pytest .", "echo python"] {
            assert_eq!(
                ran(step(3, line, false, false)),
                Some(FailureReason::EditedNeverRan),
                "{line}"
            );
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
            assert_eq!(ran(step(3, line, false, false)), Some(FailureReason::Assertion), "{line}");
        }
        let same = [before.clone(), edit("cat > x.py <<'E'\na = 1\nE\npython x.py")].concat();
        assert_eq!(
            reason_for(Ending::Submitted, &same, "p", ASSERTION_OUTPUT),
            Some(FailureReason::Assertion)
        );
        // Predictions and the gold patch have no edits by step.
        assert_eq!(
            reason_for(Ending::Submitted, &[], "p", ASSERTION_OUTPUT),
            Some(FailureReason::Assertion)
        );
        assert_eq!(
            reason_for(Ending::Submitted, &before, "", ""),
            Some(FailureReason::NeverEdited)
        );
    }

    #[test]
    fn reason_is_the_most_frequent_exception() {
        let of = |log: &str| reason_for(Ending::Submitted, &[], "p", log);
        let import = "E   ImportError: cannot import name 'a' from 'b' (/testbed/b.py)\n";
        assert_eq!(of(import), Some(FailureReason::ImportOrNameError));
        assert_eq!(
            of("E   ModuleNotFoundError: No module named 'x'\n"),
            Some(FailureReason::ImportOrNameError)
        );
        assert_eq!(
            of("E     File \"x.py\", line 1\nE   SyntaxError: invalid syntax\n"),
            Some(FailureReason::ImportOrNameError)
        );
        assert_eq!(
            of("AttributeError: 'A' object has no attribute 'b'\n"),
            Some(FailureReason::TypeOrAttributeError)
        );
        assert_eq!(of("E       kit.errors.NoSuchThingError: x\n"), Some(FailureReason::Assertion));
        assert_eq!(of("AssertionError\n"), Some(FailureReason::Assertion));
        let none_raised = "E       Failed: DID NOT RAISE <class 'ValueError'>\n";
        assert_eq!(of(none_raised), Some(FailureReason::Assertion));
        assert_eq!(of("E   kit.errors.Refusal: no\n"), Some(FailureReason::Assertion));
        let types = "E   TypeError: f() takes 1\n".repeat(2);
        assert_eq!(
            of(&format!("{types}{ASSERTION_OUTPUT}")),
            Some(FailureReason::TypeOrAttributeError)
        );
        assert_eq!(of(&format!("{types}{import}{import}")), Some(FailureReason::ImportOrNameError));
        // An exception's name in a test's own output does not count.
        assert_eq!(of("the word ImportError: in a sentence\n8 passed\n"), None);
    }

    fn exception_counts(log: &str, evidence: &[&str], resolved: bool) -> Vec<(String, u64)> {
        let verdict: Verdict = serde_json::from_value(json!({
            "schema_version": 1, "task": "t", "resolved": resolved, "passed_rate": 0.0,
            "fail_to_pass": {"passed": [], "failed": []},
            "pass_to_pass": {"passed": [], "failed": []}, "tests": {}, "policies": {},
            "integrity": "clean",
            "evidence": evidence.iter().map(|kind| json!({"kind": kind, "what": ""})).collect::<Vec<_>>(),
        }))
        .unwrap();
        count_exceptions(&verdict, log.as_bytes()).unwrap().into_iter().collect()
    }

    #[test]
    fn count_exceptions_counts_each_failed_test_once() {
        let of = |name: &str, count| (name.to_owned(), count);
        // The log has a summary, so its tracebacks do not count. `b[x y]` is listed twice.
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
            exception_counts(log, &[], false),
            [
                of("AssertionError", 1),
                of("Failed", 1),
                of("ImportError", 1),
                of("NameError", 2),
                of("Refusal", 1),
                of("timeout", 1)
            ]
        );
        assert!(exception_counts(log, &[], true).is_empty());
    }

    #[test]
    fn count_exceptions_counts_tracebacks_without_a_summary() {
        let log = format!("{ASSERTION_OUTPUT}TypeError: f() takes 1\nTypeError: f() takes 1\n");
        let of = |name: &str, count| (name.to_owned(), count);
        assert_eq!(
            exception_counts(&log, &["timed_out"], false),
            [of("AssertionError", 1), of("TypeError", 2), of("timeout", 1)]
        );
        assert!(exception_counts("8 passed\n", &[], false).is_empty());
    }

    #[test]
    fn reason_reports_broken_tests_and_timeouts() {
        let of = |failed, evidence: &[&str]| {
            reason_for_groups(Ending::Submitted, &[], "p", ASSERTION_OUTPUT, failed, evidence)
        };
        assert_eq!(of((&[], &["old"]), &[]), Some(FailureReason::BrokePassToPass));
        assert_eq!(of((&["new"], &["old"]), &[]), Some(FailureReason::Assertion));
        assert_eq!(of((&["new"], &["old"]), &["timed_out"]), Some(FailureReason::TimeOut));
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

    #[test]
    fn outputs_of_runners_say_whether_tests_ran() {
        for (output, expected) in [
            ("..  [100%]\n2 passed in 0.01s", Some(true)),
            ("1 failed, 3 deselected in 0.1s", Some(true)),
            ("\n2 deselected in 0.02s", Some(false)),
            ("==== 2 deselected in 0.02s ====", Some(false)),
            ("collected 0 items\n\n=== no tests ran in 0.00s ===", Some(false)),
            ("no tests ran in 0.01s\n1 passed in 0.1s", Some(true)),
            ("Ran 0 tests in 0.000s\n\nOK", Some(false)),
            ("Ran 12 tests in 0.1s\n\nFAILED (failures=1)", Some(true)),
            ("running 0 tests\n\ntest result: ok. 0 passed; 0 failed", Some(false)),
            ("running 3 tests\ntest result: ok. 3 passed\nrunning 0 tests", Some(true)),
            ("ok  \tpkg\t0.1s [no tests to run]", Some(false)),
            ("ERROR: file or directory not found: t.py", None),
            ("", None),
        ] {
            assert_eq!(has_run_tests(output).unwrap(), expected, "{output}");
        }
        let long = format!("no tests ran\n{}1 passed", "\u{e9}".repeat(MAX_RUNNER_OUTPUT));
        assert_eq!(has_run_tests(&long).unwrap(), Some(true));
    }
}
