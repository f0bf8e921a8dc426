//! Extracts, from a trial's events, the commands that the agent ran.

use std::collections::BTreeMap;

use proctor_types::{Envelope, Event, quote_shell_word};
use serde_json::Value;

use crate::rules::RuleFile;

/// A tool call that ran a shell line or read a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub step: u64,
    /// The shell line. If the call read a path, this is `view PATH`.
    pub line: String,
    /// The part of the output that the model saw.
    pub output: String,
}

/// Returns a trial's calls, in order. If the client runs its own tools, the record contains no tool
/// calls. In that case, returns the calls that the model requested.
pub(crate) fn shell_calls(events: &[Envelope], file: &RuleFile) -> Vec<Call> {
    let outputs: BTreeMap<(u64, &str), &str> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::ToolReturned { call_id, shown, .. } => {
                Some(((envelope.step, call_id.as_str()), shown.as_str()))
            }
            _ => None,
        })
        .collect();
    let mut called = Vec::new();
    let mut asked = Vec::new();
    for envelope in events {
        let step = envelope.step;
        match &envelope.event {
            Event::ToolCalled { call_id, arguments, .. } => {
                let shown = outputs.get(&(step, call_id.as_str())).copied().unwrap_or_default();
                for line in shell_lines(arguments, file) {
                    called.push(Call { step, line, output: shown.to_owned() });
                }
            }
            Event::ModelAnswered { answer } => {
                for call in &answer.tool_calls {
                    let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
                    for line in shell_lines(&arguments, file) {
                        asked.push(Call { step, line, output: String::new() });
                    }
                }
            }
            _ => {}
        }
    }
    let any = events.iter().any(|envelope| matches!(envelope.event, Event::ToolCalled { .. }));
    if any { called } else { asked }
}

/// Returns the shell lines in a tool call's arguments.
pub(crate) fn shell_lines(arguments: &Value, file: &RuleFile) -> Vec<String> {
    let mut all = Vec::new();
    for name in &file.shell.line_arguments {
        match arguments.get(name) {
            Some(Value::String(line)) => all.push(line.clone()),
            // Some clients pass a command as a list of words.
            Some(Value::Array(words)) => {
                let words: Vec<_> =
                    words.iter().filter_map(Value::as_str).map(quote_word).collect();
                all.push(words.join(" "));
            }
            _ => {}
        }
    }
    // A file tool may also have an argument named `command`, which names an operation instead of a
    // shell line. Therefore, a path takes precedence.
    let path = file.shell.path_arguments.iter().find_map(|name| arguments.get(name)?.as_str());
    if let Some(path) = path {
        all = vec![format!("view {}", quote_word(path))];
    }
    all
}

fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    quote_shell_word(word)
}
