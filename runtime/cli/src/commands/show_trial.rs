//! `proctor show`: prints a run, trial or step in the terminal. The user selects trials by task,
//! arm and attempt.

use std::{collections::BTreeMap, fmt::Write as _, path::Path, process::ExitCode};

use proctor_record::{
    RunDir,
    trial_lookup::{PlannedTrial, find_trials},
};
use proctor_report::{TrialResult, abbreviate_count, read_results, read_trial_result};
use proctor_types::{
    FailureReason, count_with_noun, escape_unprintable, escape_unprintable_line, quote_shell_word,
};
use proctor_viewer::{
    JournalIndex,
    html::{ShownLabel, Step, StepRow, TestLine, Trial},
    read_labels, read_step, read_trial,
};

use crate::{
    args::ShowArgs,
    commands::show_part::print_trial_part,
    error::{CommandError, UserError},
    print::print_result,
};

/// Maximum number of tracebacks to show, and maximum number of tests to list for each. Passed tests
/// are only counted.
const MAX_SHOWN_TESTS: usize = 10;

/// Maximum number of agent messages to show for a whole trial, and maximum length of each in
/// characters. A step shows all of its messages in full.
const MAX_SHOWN_LOGS: usize = 20;
const MAX_LOG_CHARS: usize = 200;

pub fn show_trial(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    let run = RunDir::open_read_only(&args.run).map_err(CommandError::from_record_error)?;
    let record = run.read_run()?;
    let (task, arm) = (args.task.as_deref(), args.arm.as_deref());
    let found = find_trials(&record, task, arm, args.attempt)?;
    if let Some(part) = args.print {
        let [one] = found.as_slice() else {
            let what =
                format!("--print needs one trial, but these arguments match {}", found.len());
            let hint = "add the task, the arm and the attempt: proctor show RUN TASK ARM ATTEMPT --print PART";
            return Err(UserError::new(what).hint(hint).into());
        };
        print_trial_part(&run, *one, args, part)?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = match (found.as_slice(), args.step) {
        ([one], None) if task.is_some() => {
            let result = read_trial_result(&run, one);
            let journal = run.trial_dir(&one.id()).trajectory_path();
            let index =
                journal.exists().then(|| JournalIndex::from_journal(&journal)).transpose()?;
            format_trial(&read_trial(&run, "", *one, &result, index.as_ref())?, &args.run)
        }
        ([one], Some(number)) => {
            let dir = run.trial_dir(&one.id());
            let journal = dir.trajectory_path();
            let known = match journal.exists() {
                true => read_step(
                    &JournalIndex::from_journal(&journal)?,
                    &run.trial_blobs(&dir),
                    number,
                ),
                false => None,
            };
            let mut known = known.ok_or_else(|| {
                UserError::new(format!("{} has no step {number}", one.name()))
                    .hint("omit --step to list the steps")
            })?;
            known.labels = read_labels(&run, *one, Some(number));
            format_step(&known, &one.name())
        }
        (several, Some(_)) => {
            let what =
                format!("--step needs one trial, but these arguments match {}", several.len());
            let hint =
                "add the task, the arm and the attempt: proctor show RUN TASK ARM ATTEMPT --step K";
            return Err(UserError::new(what).hint(hint).into());
        }
        (several, None) => format_trials(&read_results(&args.run, false)?, several),
    };
    print_result(&shown)?;
    Ok(ExitCode::SUCCESS)
}

fn format_trials(results: &[TrialResult], trials: &[PlannedTrial<'_>]) -> String {
    let mut out = String::new();
    let results: BTreeMap<_, _> =
        results.iter().map(|one| ((&one.task, &one.arm, one.attempt), one)).collect();
    for found in trials {
        let id = found.id();
        let result = results.get(&(&id.task, &id.arm, id.attempt));
        let outcome = result.and_then(|one| one.outcome.as_ref());
        let word = match result.and_then(|one| one.verdict.as_ref()) {
            Some(verdict) if verdict.resolved => "resolved",
            Some(_) => "not resolved",
            None => "no verdict",
        };
        // If a trial has no verdict, omit the failure reason, because the ending already explains
        // why.
        let reason = result.filter(|one| one.verdict.is_some()).and_then(|one| {
            FailureReason::from_results(
                outcome,
                one.verdict.as_ref(),
                one.patch_bytes,
                one.grading_not_requested,
            )
        });
        let reason = reason.map_or(String::new(), |one| format!("{}; ", one.name()));
        let ended = outcome.map_or("not ended".to_owned(), |one| {
            format!("{reason}{}, {}", one.ending.name(), count_with_noun(one.spent.steps, "step"))
        });
        let ended = ended.replace('_', " ");
        let failure = result.and_then(|one| one.grading_failure.as_ref());
        let failure = failure.map_or(String::new(), |one| format!("; {}", one.fault));
        let (name, failure) =
            (escape_unprintable_line(&found.name()), escape_unprintable_line(&failure));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{word:<12}  {name}  ({ended}{failure})");
    }
    let _ = writeln!(
        out,
        "{}; pass a task, an arm and an attempt to show one trial",
        count_with_noun(trials.len(), "trial")
    );
    out
}

fn format_trial(trial: &Trial, run: &Path) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{}", escape_unprintable(&text));
    };
    line(format!("{} / {} / {}", trial.task, trial.arm, trial.attempt));
    let word = match trial.resolved {
        Some(true) => "resolved",
        Some(false) => "not resolved",
        None => "no verdict",
    };
    let reason = match trial.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", reason.replace('_', " ")),
    };
    let ended = if trial.outcome.is_empty() { "not ended" } else { &trial.outcome };
    line(format!(
        "{word}{reason}; {ended}; {}, {} tokens in, {} out, {:.1} s{}",
        count_with_noun(trial.steps.len(), "step"),
        abbreviate_count(trial.input as f64),
        abbreviate_count(trial.output as f64),
        trial.wall_seconds,
        match trial.cost_usd {
            Some(cost) => format!(", ${cost:.4}"),
            None if trial.input > 0 => ", cost unknown".to_owned(),
            None => String::new(),
        }
    ));
    if !trial.interruptions.is_empty() {
        line(format!("interrupted: {}", trial.interruptions));
    }
    for (steps, fault) in &trial.failed_tries {
        line(format!("failed try, after {}: {fault}", count_with_noun(*steps, "step")));
    }
    if !trial.integrity.is_empty() {
        line(format!("integrity: {}", trial.integrity));
    }
    for why in &trial.why {
        line(format!("why: {why}"));
    }
    for (kind, what, steps) in &trial.evidence {
        let steps = steps.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let at = if steps.is_empty() { String::new() } else { format!(" (steps {steps})") };
        line(format!("evidence: {}: {what}{at}", kind.replace('_', " ")));
    }
    for text in agent_log_lines(&trial.agent_logs) {
        line(text);
    }
    for label in &trial.labels {
        line(format!("label: {}", format_label(label)));
    }
    for damage in &trial.damage {
        line(format!("damaged: {damage}"));
    }
    if !trial.steps.is_empty() {
        line(format!("\n{:>4} {:>8} {:>8} {:>7}  did", "step", "seconds", "tok in", "out"));
    }
    for step in trial.steps.iter().chain(&trial.unanswered) {
        line(format_step_row(step));
    }
    let passed = trial.tests.iter().filter(|test| test.passed).count();
    let failed: Vec<_> = trial.tests.iter().filter(|test| !test.passed).collect();
    if !trial.tests.is_empty() {
        line(format!("\n{} of {} passed", passed, count_with_noun(trial.tests.len(), "test")));
    }
    for text in failure_lines(&failed) {
        line(text);
    }
    if !trial.stderr.is_empty() {
        line("\nend of the agent's standard error:".into());
    }
    for text in &trial.stderr {
        line(format!("    {text}"));
    }
    line("\nfiles:".into());
    for file in &trial.files {
        line(format!("  {file}"));
    }
    let [run, task, arm] =
        [&run.display().to_string(), &trial.task, &trial.arm].map(|word| shell_word(word));
    let attempt = trial.attempt;
    if !trial.steps.is_empty() {
        line(format!("\n`proctor show {run} {task} {arm} {attempt} --step K` prints one step"));
    }
    if !trial.stderr.is_empty() {
        let name = shell_word(&format!("{}/{}/{attempt}", trial.task, trial.arm));
        line(format!("`proctor shell {run} --trial {name}` opens the trial's sandbox"));
    }
    out
}

/// Returns a string as a word of a shell line. Quotes it only if that is necessary.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => quote_shell_word(text),
    }
}

/// Returns one line per text that the agent wrote to the record. If there are too many, only the
/// last ones are shown.
fn agent_log_lines(logs: &[(u64, String)]) -> Vec<String> {
    let skipped = logs.len().saturating_sub(MAX_SHOWN_LOGS);
    let mut lines = Vec::new();
    if skipped > 0 {
        let texts = count_with_noun(skipped, "earlier text");
        lines.push(format!("log: {texts} not shown; `--print events` has all"));
    }
    for (step, text) in &logs[skipped..] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let more = if flat.chars().count() > MAX_LOG_CHARS { "..." } else { "" };
        let start: String = flat.chars().take(MAX_LOG_CHARS).collect();
        lines.push(format!("log (step {step}): {start}{more}"));
    }
    lines
}

/// Tests that failed with the same traceback.
struct FailureGroup<'a> {
    key: String,
    tests: Vec<&'a TestLine>,
}

/// Groups the failed tests by traceback.
fn failure_lines(failed_tests: &[&TestLine]) -> Vec<String> {
    let mut found: Vec<FailureGroup<'_>> = Vec::new();
    for test in failed_tests.iter().copied() {
        // A traceback may contain its test's id. Remove the id, so that otherwise equal tracebacks
        // match.
        let key = test.log.replace(&test.id, "");
        match found.iter_mut().find(|known| known.key == key) {
            Some(known) => known.tests.push(test),
            None => found.push(FailureGroup { key, tests: vec![test] }),
        }
    }
    let title = |test: &TestLine| format!("{} {}: {}", test.kind, test.id, test.status);
    let mut lines = Vec::new();
    for FailureGroup { tests, .. } in found.iter().take(MAX_SHOWN_TESTS) {
        let Some((first, others)) = tests.split_first() else { continue };
        lines.push(format!("\n{}", title(first)));
        lines.extend(first.log.lines().map(|text| format!("    {text}")));
        let (indent, named) = match (first.log.is_empty(), others.len()) {
            (_, 0) => continue,
            // A traceback with a single test needs no list.
            (true, _) => ("", MAX_SHOWN_TESTS - 1),
            (false, count) => {
                lines
                    .push(format!("  same traceback in {}:", count_with_noun(count, "other test")));
                ("    ", MAX_SHOWN_TESTS)
            }
        };
        lines.extend(others.iter().take(named).map(|test| format!("{indent}{}", title(test))));
        if others.len() > named {
            lines.push(format!("{indent}and {} more", others.len() - named));
        }
    }
    let left: usize = found.iter().skip(MAX_SHOWN_TESTS).map(|failure| failure.tests.len()).sum();
    if left > 0 {
        lines.push(format!("\nand {left} more; see verdict.json"));
    }
    lines
}

/// Formats a person's label.
fn format_label(label: &ShownLabel) -> String {
    let step = label.step.map_or_else(String::new, |step| format!(", step {step}"));
    match label.comment.as_str() {
        "" => format!("{}{step}", label.label),
        comment => format!("{}{step}: {comment}", label.label),
    }
}

/// Formats a step as one line.
fn format_step_row(step: &StepRow) -> String {
    let did: String = step.did.join("; ").replace('\n', " ").chars().take(160).collect();
    let failed = if step.failed { " [failed]" } else { "" };
    let edited = if step.changed > 0 {
        format!(" [{} changed]", count_with_noun(step.changed, "path"))
    } else {
        String::new()
    };
    let not_run = match step.not_run {
        0 => String::new(),
        count => format!(" [{} not recorded as run]", count_with_noun(count, "call")),
    };
    let denied = if step.denied > 0 { format!(" [{} denied]", step.denied) } else { String::new() };
    format!(
        "{:>4} {:>8.1} {:>8} {:>7}  {did}{failed}{not_run}{edited}{denied}",
        step.number,
        step.seconds,
        abbreviate_count(step.input as f64),
        abbreviate_count(step.output as f64)
    )
}

fn format_step(step: &Step, name: &str) -> String {
    let mut out = format!("{}, step {}\n", escape_unprintable_line(name), step.row.number);
    let mut part = |title: &str, text: &str| {
        if !text.is_empty() {
            let _ = write!(
                out,
                "\n== {} ==\n{}\n",
                escape_unprintable_line(title),
                escape_unprintable(text.trim_end())
            );
        }
    };
    for label in &step.labels {
        part("label", &format_label(&ShownLabel { step: None, ..label.clone() }));
    }
    for note in &step.notes {
        part("note", note);
    }
    for text in &step.agent_logs {
        part("agent's log", text);
    }
    part("reasoning", &step.reasoning);
    part("message", &step.message);
    part("refusal", &step.refusal);
    if step.is_refused && step.refusal.is_empty() {
        part("refused", &format!("finish reason: {}", step.finish_reason));
    }
    for (name, text) in &step.other_fields {
        part(&format!("field {name} of the response"), text);
    }
    for call in &step.calls {
        part(&format!("call: {}", call.name), &call.arguments);
        let status =
            call.exit_status.map_or_else(String::new, |status| format!(", exit status {status}"));
        let seconds = call.seconds.map_or_else(String::new, |seconds| format!(", {seconds:.1} s"));
        let cut = if call.full.is_some() { ", truncated as shown to the model" } else { "" };
        let output = call.shown.as_deref().unwrap_or(match call.ran {
            true => "(the call did not return)",
            false => "(the model requested this call, but the record does not show that it ran)",
        });
        part(
            &format!("output{status}{seconds}{cut}"),
            if output.is_empty() { "(empty)" } else { output },
        );
    }
    part("response after the limit", &step.grace_response);
    for url in &step.urls {
        part("egress", &format!("{} {}: {} {}", url.method, url.url, url.decision, url.why));
    }
    part("changes", if step.diff.is_empty() { "nothing" } else { &step.diff });
    out
}

#[cfg(test)]
mod tests {
    use proctor_viewer::html::Call;

    use super::*;

    fn test_line(id: &str, log: &str) -> TestLine {
        TestLine {
            kind: "F2P",
            id: id.to_owned(),
            status: "failed".to_owned(),
            passed: false,
            log: log.to_owned(),
            speaks: String::new(),
        }
    }

    fn failure_text(tests: &[TestLine]) -> String {
        failure_lines(&tests.iter().collect::<Vec<_>>()).join("\n")
    }

    #[test]
    fn calls_that_never_ran_are_not_shown_as_executed() {
        let row = StepRow { number: 1, did: vec!["shell: ls".into()], ..StepRow::default() };
        let requested = StepRow { not_run: 1, ..row.clone() };
        assert!(!format_step_row(&row).contains('['));
        let text = format_step_row(&requested);
        assert!(text.ends_with("shell: ls [1 call not recorded as run]"), "{text}");
        let call = Call { name: "shell".into(), arguments: "ls".into(), ..Call::default() };
        let ran = Call { ran: true, ..call.clone() };
        for (call, says) in
            [(call, "does not show that it ran"), (ran, "(the call did not return)")]
        {
            let step = Step { row: row.clone(), calls: vec![call], ..Step::default() };
            let text = format_step(&step, "t / a / 1");
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn agent_log_lines_keeps_the_last_logs_and_shortens_them() {
        let logs: Vec<_> = (1..=22).map(|step| (step, format!("at\n{step}"))).collect();
        let lines = agent_log_lines(&logs);
        assert_eq!(lines.len(), MAX_SHOWN_LOGS + 1);
        assert!(lines[0].contains("2 earlier texts"), "{}", lines[0]);
        assert_eq!(lines[1], "log (step 3): at 3");
        let long = agent_log_lines(&[(1, "x".repeat(MAX_LOG_CHARS + 1))]);
        assert!(long[0].ends_with("x..."), "{long:?}");
    }

    #[test]
    fn show_trial_prints_the_end_of_stderr() {
        let trial = Trial {
            task: "t".into(),
            arm: "my arm".into(),
            attempt: 2,
            stderr: vec!["ValueError: boom".into()],
            ..Trial::default()
        };
        let text = format_trial(&trial, Path::new("r"));
        assert!(text.contains("`proctor shell r --trial 't/my arm/2'` opens"), "{text}");
        assert!(
            text.contains("end of the agent's standard error:\n    ValueError: boom"),
            "{text}"
        );
        assert!(!format_trial(&Trial::default(), Path::new("r")).contains("standard error"));
    }

    #[test]
    fn failure_lines_show_an_identical_traceback_once() {
        let broken = "E   ImportError: no f\na.py:1: ImportError";
        let tests = [
            test_line("a.py::one", broken),
            test_line("b.py::other", "E   assert 1 == 2"),
            test_line("a.py::two", broken),
            test_line("a.py::three", broken),
        ];
        let text = failure_text(&tests);
        assert_eq!(text.matches("ImportError: no f").count(), 1, "{text}");
        assert!(
            text.contains("  same traceback in 2 other tests:\n    F2P a.py::two: failed"),
            "{text}"
        );
        assert!(text.contains("\nF2P b.py::other: failed\n    E   assert 1 == 2"), "{text}");
    }

    #[test]
    fn failure_lines_ignore_test_names_in_tracebacks() {
        let tests =
            ["a.py::one", "a.py::two"].map(|id| test_line(id, &format!("ERROR {id} - no f")));
        let text = failure_text(&tests);
        assert_eq!(text.matches("no f").count(), 1, "{text}");
        assert!(text.contains("same traceback in 1 other test:"), "{text}");
    }

    #[test]
    fn failure_lines_count_omitted_tests() {
        let same: Vec<_> =
            (0..40).map(|at| test_line(&format!("a.py::t{at}"), "E  boom")).collect();
        assert!(failure_text(&same).ends_with("    and 29 more"), "{}", failure_text(&same));
        let apart: Vec<_> = (0..40)
            .map(|at| test_line(&format!("a.py::t{at}"), &format!("E  boom {at}")))
            .collect();
        assert!(failure_text(&apart).ends_with("and 30 more; see verdict.json"));
        // Tests without a log have no traceback to group by.
        let silent: Vec<_> = (0..3).map(|at| test_line(&format!("a.py::t{at}"), "")).collect();
        assert!(!failure_text(&silent).contains("same traceback"), "{}", failure_text(&silent));
        assert!(failure_text(&silent).contains("F2P a.py::t2: failed"));
    }
}
