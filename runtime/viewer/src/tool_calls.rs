//! Formats tool calls, either in short or in full.

use serde_json::{Map, Value};

/// Maximum number of characters in a step's summary.
const MAX_SUMMARY_CHARS: usize = 100;

/// Returns the tool's name and the start of its arguments. If the arguments are a JSON object, only
/// the values of its fields are shown.
pub fn summarize_call(name: &str, arguments: &str) -> String {
    let text = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => arguments_text(&value),
        Err(_) => arguments.to_owned(),
    };
    let mut short = String::new();
    let mut more = "";
    for word in text.split_whitespace() {
        if short.chars().count() >= MAX_SUMMARY_CHARS {
            more = "...";
            break;
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.extend(word.chars().take(MAX_SUMMARY_CHARS));
    }
    if let Some((at, _)) = short.char_indices().nth(MAX_SUMMARY_CHARS) {
        short.truncate(at);
        more = "...";
    }
    match name {
        "" => format!("{short}{more}"),
        name => format!("{name}: {short}{more}"),
    }
}

pub fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let texts: Vec<String> = fields.values().map(arguments_text).collect();
            texts.join(" ")
        }
        other => other.to_string(),
    }
}

/// Formats arguments for display, one line per field.
pub fn format_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) => {
            let lines =
                fields.iter().map(|(key, value)| format!("{key}: {}", arguments_text(value)));
            lines.collect::<Vec<_>>().join("\n")
        }
        _ => arguments.to_owned(),
    }
}

/// Keys of notes that contain text from the agent itself: from `session.log`, or from an ACP agent.
const AGENT_TEXT_KEYS: [&str; 2] = ["agent_log", "agent_showed"];

/// Returns the text that the agent wrote to the record, if the note contains any.
pub fn agent_text(note: &Map<String, Value>) -> Option<String> {
    AGENT_TEXT_KEYS.iter().find_map(|key| note.get(*key)).map(arguments_text)
}
