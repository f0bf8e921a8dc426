//! Determines how a trial ended, based on how its agent ended.

use std::collections::BTreeMap;

use proctor_sandbox_api::{CapturedOutput, CommandOutput, describe_exit};
use proctor_scaffold_api::{Finish, Traffic};
use proctor_types::{ExitCause, ModelResponse, count_with_noun, matches_wildcard};
use serde_json::Value;

use crate::{ExitRule, Manifest};

/// Maximum number of characters to quote from the agent's last output.
const MAX_QUOTED_CHARS: usize = 300;

/// Why the agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEnd {
    Exited,
    /// Proctor stopped the agent because the trial was over. How the agent exits does not matter.
    Stopped,
    Idle,
    /// The gateway rejected too many consecutive requests.
    RequestsRejected,
}

/// Implements the table in `docs/reference/external.md`, except for its first line. `files` are the JSON
/// files that the exit rules read.
pub fn determine_finish(
    manifest: &Manifest,
    agent_end: AgentEnd,
    (output, files): (&CommandOutput, &BTreeMap<String, Value>),
    traffic: &Traffic,
) -> Finish {
    let exited = |cause, why| Finish::Exited { cause, reason: why };
    let name = &manifest.name;
    match agent_end {
        AgentEnd::Exited | AgentEnd::Stopped => {}
        AgentEnd::Idle => {
            let seconds = manifest.idle_seconds;
            let why = format!("{name} was idle for {seconds} s");
            // A program that waits for user input is as quiet as any other idle program. Only its
            // output shows the difference.
            let has_words = |rule: &&ExitRule| !rule.output.is_empty() || !rule.record.is_empty();
            let mut rules = manifest.exit.iter().filter(has_words);
            let rule = rules.find(|rule| {
                output_matches(rule, output) && match_record(rule, output, files).is_some()
            });
            let cause = rule.and_then(|rule| rule.means.cause()).unwrap_or(ExitCause::Idle);
            return exited(cause, with_last_line(why, output));
        }
        AgentEnd::RequestsRejected => {
            let times = count_with_noun(traffic.refused_requests, "request");
            return exited(
                ExitCause::Loop,
                format!("the gateway rejected {times} from {name} in a row"),
            );
        }
    }
    let status = describe_exit(&output.exit);
    let applies = |rule: &ExitRule| {
        let record = match_record(rule, output, files).filter(|_| exit_matches(rule, output))?;
        Some((rule.means.cause(), record))
    };
    if let Some((means, record)) = manifest.exit.iter().find_map(applies) {
        let Some(cause) = means else { return Finish::Submitted };
        let why = format!("{name} ended with {status}");
        // Prefer the reason from the agent's record, because the last line of stderr may be an
        // unrelated warning.
        let why = match record.is_empty() {
            true => with_last_line(why, output),
            false => format!("{why}: {}", shorten(&record)),
        };
        return exited(cause, why);
    }
    let Some(answer) = &traffic.last_response else {
        let why = format!("{name} ended with {status} before any response from the model");
        return exited(ExitCause::Crashed, with_last_line(why, output));
    };
    if output.exit.code != Some(0) {
        return exited(
            ExitCause::Crashed,
            with_last_line(format!("{name} ended with {status}"), output),
        );
    }
    let called = !answer.tool_calls.is_empty();
    match answer.content.trim().is_empty() {
        _ if is_submission(manifest, answer) => Finish::Submitted,
        true if !called => {
            exited(ExitCause::EmptyTurn, format!("{name} ended after an empty response"))
        }
        false if !called => Finish::Submitted,
        _ => {
            let why = format!("{name} ended while the model was calling tools");
            exited(ExitCause::Finished, with_last_line(why, output))
        }
    }
}

fn exit_matches(rule: &ExitRule, output: &CommandOutput) -> bool {
    let code = || output.exit.code.is_some_and(|code| rule.codes.contains(&code));
    (rule.codes.is_empty() || code()) && output_matches(rule, output)
}

fn output_matches(rule: &ExitRule, output: &CommandOutput) -> bool {
    let text = |stream: &CapturedOutput, text: &str| {
        let within = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
        within(&stream.head) || within(&stream.tail)
    };
    // Do not search stdout, because agents print the model's output there.
    rule.output.is_empty() || rule.output.iter().any(|one| text(&output.stderr, one))
}

/// If the agent's record matches the rule, returns the members that the rule names, as text. The
/// text is empty if the rule names none. Returns `None` if the record does not match.
fn match_record(
    rule: &ExitRule,
    output: &CommandOutput,
    files: &BTreeMap<String, Value>,
) -> Option<String> {
    if rule.record.is_empty() {
        return Some(String::new());
    }
    let fits = |record: &Value| {
        let members = rule.record.iter().map(|(path, pattern)| {
            let member = path.split('.').try_fold(record, |value, key| value.get(key))?;
            let text = member.as_str().map_or_else(|| member.to_string(), str::to_owned);
            matches_wildcard(pattern, &text).then(|| format!("{path} = {text}"))
        });
        members.collect::<Option<Vec<_>>>().map(|members| members.join(", "))
    };
    match &rule.file {
        Some(file) => files.get(file).and_then(fits),
        None => [&output.stdout.head, &output.stdout.tail].into_iter().find_map(|bytes| {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{"));
            let mut records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
            records.find_map(|record| fits(&record))
        }),
    }
}

fn is_submission(manifest: &Manifest, answer: &ModelResponse) -> bool {
    let named = |name: &str, arguments: &str| {
        manifest.submits.iter().any(|one| name == one || arguments.contains(one))
    };
    answer.tool_calls.iter().any(|call| named(&call.name, &call.arguments))
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect()
}

/// Appends the last line of stderr, or of stdout if stderr is empty.
fn with_last_line(reason: String, output: &CommandOutput) -> String {
    let last = |stream: &CapturedOutput| {
        let end = if stream.tail.is_empty() { &stream.head } else { &stream.tail };
        let text = String::from_utf8_lossy(end);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.map(shorten)
    };
    match last(&output.stderr).or_else(|| last(&output.stdout)) {
        Some(words) => format!("{reason}: {words}"),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use proctor_sandbox_api::{CapturedOutput, wire::CommandExit};
    use proctor_types::Usage;
    use serde_json::json;

    use super::*;
    use crate::shipped_manifest;

    fn command_output(stdout: &str, stderr: &str) -> CommandOutput {
        let stream = |text: &str| CapturedOutput { head: text.into(), ..CapturedOutput::default() };
        let exited = CommandExit { code: Some(0), ..CommandExit::default() };
        CommandOutput {
            exit: exited,
            stdout: stream(stdout),
            stderr: stream(stderr),
            ..CommandOutput::default()
        }
    }

    /// Returns the traffic of a trial in which the model has sent its last response.
    fn traffic_with_answer() -> Traffic {
        let answer = json!({
            "content": "Done.", "tool_calls": [], "extra": {}, "finish_reason": "stop", "refused": false,
            "usage": Usage::default(), "cost_usd": null,
        });
        Traffic { last_response: serde_json::from_value(answer).unwrap(), ..Traffic::default() }
    }

    fn exit_cause(
        name: &str,
        output: &CommandOutput,
        files: &BTreeMap<String, Value>,
    ) -> Option<ExitCause> {
        let manifest = shipped_manifest(name).unwrap().unwrap().manifest;
        match determine_finish(&manifest, AgentEnd::Exited, (output, files), &traffic_with_answer())
        {
            Finish::Submitted => None,
            Finish::Exited { cause, .. } => Some(cause),
        }
    }

    /// A model may write any text, and agents print it. Only an agent's own records count.
    #[test]
    fn exit_rules_ignore_the_models_text() {
        let none = BTreeMap::new();
        let words = "Loop detected, stopping execution. LimitsExceeded RepeatedFormatError";
        let said = json!({ "type": "message", "role": "assistant", "content": words });
        let nested =
            json!({ "type": "tool_result", "output": { "type": "error", "message": words } });
        for name in crate::names() {
            let files = BTreeMap::from([(
                "trajectory.json".to_owned(),
                json!({ "info": { "exit_status": "Submitted" }, "messages": [said] }),
            )]);
            let printed = format!("{words}\n{said}\n{nested}\n");
            assert_eq!(exit_cause(name, &command_output(&printed, ""), &files), None, "{name}");
        }
        let own = json!({ "type": "error", "severity": "warning",
                          "message": "Loop detected, stopping execution" });
        let looped = command_output(&format!("{said}\n{own}\n{{\"type\":\"result\"}}\n"), "");
        assert_eq!(exit_cause("gemini-cli", &looped, &none), Some(ExitCause::Loop));
        let of_mini = |status: &str| {
            let record = json!({ "info": { "exit_status": status } });
            BTreeMap::from([("trajectory.json".to_owned(), record)])
        };
        let mini =
            |status: &str| exit_cause("mini-swe-agent", &command_output("", ""), &of_mini(status));
        assert_eq!(mini("LimitsExceeded"), Some(ExitCause::Finished));
        assert_eq!(mini("RepeatedFormatError"), Some(ExitCause::EmptyTurn));
        assert_eq!(mini("Submitted"), None);
    }

    #[test]
    fn exit_reason_prefers_the_record_over_stderr() {
        let record = json!({ "type": "result", "api_error": "autocompact_thrashing" });
        let mut thrashed =
            command_output(&format!("{record}\n"), "[claude-code:unrecognized_model] {}\n");
        thrashed.exit.code = Some(1);
        let manifest = shipped_manifest("claude-code").unwrap().unwrap().manifest;
        let files = BTreeMap::new();
        let finish = determine_finish(
            &manifest,
            AgentEnd::Exited,
            (&thrashed, &files),
            &traffic_with_answer(),
        );
        let Finish::Exited { cause, reason: why } = finish else { panic!("{finish:?}") };
        assert_eq!(cause, ExitCause::Loop);
        let expected = "claude-code ended with exit status 1: api_error = autocompact_thrashing, type = result";
        assert_eq!(why, expected);
    }

    #[test]
    fn exit_rules_search_only_stderr() {
        let mut manifest = shipped_manifest("codex").unwrap().unwrap().manifest;
        let text = "[[exit]]\nmeans = 'approval'\noutput = ['Allow this?']\n";
        let rules: BTreeMap<String, Vec<ExitRule>> = toml::from_str(text).unwrap();
        manifest.exit = rules["exit"].clone();
        let judged = |done: &CommandOutput| {
            determine_finish(
                &manifest,
                AgentEnd::Idle,
                (done, &BTreeMap::new()),
                &traffic_with_answer(),
            )
        };
        let of = |finish| match finish {
            Finish::Exited { cause, .. } => Some(cause),
            Finish::Submitted => None,
        };
        assert_eq!(of(judged(&command_output("Allow this?", ""))), Some(ExitCause::Idle));
        assert_eq!(of(judged(&command_output("", "Allow this? [y/N]"))), Some(ExitCause::Approval));
    }

    #[test]
    fn exit_reason_truncates_long_stderr() {
        let noise = format!("{}\n{}", "warning: \u{1b}[33mx\n".repeat(8000), "y".repeat(100_000));
        let mut crashed = command_output("", &noise);
        crashed.exit.code = Some(7);
        let manifest = shipped_manifest("codex").unwrap().unwrap().manifest;
        let files = BTreeMap::new();
        let finish = determine_finish(
            &manifest,
            AgentEnd::Exited,
            (&crashed, &files),
            &traffic_with_answer(),
        );
        let Finish::Exited { reason: why, .. } = finish else { panic!("{finish:?}") };
        assert!(why.len() < 500 && why.contains("exit status 7"), "{why}");
    }
}
