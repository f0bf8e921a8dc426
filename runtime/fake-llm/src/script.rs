//! The script defines the response to each request.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A script file. Rules are tried first, then conversations, both in order, and then `default`. If
/// nothing matches, the request is rejected with status 422 and a message that explains why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The model that `/v1/models` lists. Responses contain this name if the request names no
    /// model.
    pub model: String,
    /// Whether to reject conversations that a strict endpoint would reject, such as a tool call
    /// without a result.
    pub strict: bool,
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
    #[serde(rename = "conversation")]
    pub conversations: Vec<Conversation>,
    pub default: Option<Answer>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            model: "scripted".into(),
            strict: true,
            rules: Vec::new(),
            conversations: Vec::new(),
            default: None,
        }
    }
}

/// A response with conditions, all of which must be met. Conditions that are not set are always
/// met.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Text that must occur before the first assistant message.
    #[serde(default)]
    pub when: Option<String>,
    /// The number of assistant messages that the request must contain: 0 for the first response.
    #[serde(default)]
    pub turn: Option<usize>,
    /// Text that must occur in the request's last message.
    #[serde(default)]
    pub last: Option<String>,
    /// The exact name of the model in the request.
    #[serde(default)]
    pub model: Option<String>,
    pub answer: Answer,
}

/// A whole conversation. Turn n is the response to a request with n assistant messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Text that must occur before the first assistant message, as in a rule.
    #[serde(default)]
    pub when: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(rename = "turn")]
    pub turns: Vec<Answer>,
    /// Whether to repeat the last turn after the conversation's end. Otherwise, `default` is used.
    #[serde(default)]
    pub repeat_last: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    pub content: String,
    pub tool_calls: Vec<Call>,
    pub reasoning_content: Option<String>,
    pub refusal: Option<String>,
    /// The reason why the response ended. By default, `tool_calls` if there are calls, and `stop`
    /// otherwise.
    pub finish_reason: Option<String>,
    /// Additional vendor-specific fields for the message, which are copied verbatim.
    pub extra: Map<String, Value>,
    pub usage: UsageSpec,
    /// Delay before the response headers are sent, in seconds.
    pub delay_seconds: f64,
    /// Delay between two chunks of a stream, in seconds.
    pub chunk_delay_seconds: f64,
    /// Faults that the server returns before this response, in order.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub name: String,
    /// The call's arguments. A table is serialized as JSON. A string is sent verbatim and may be
    /// malformed.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

impl Call {
    pub(crate) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Parses a call's arguments as an object, for formats that send an object instead of a string.
pub(crate) fn parse_arguments(text: &str) -> Value {
    let parsed = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    parsed.unwrap_or_else(|| json!({ "malformed": text }))
}

/// The token usage in the response. `false` omits the usage, `true` (the default) assumes four
/// bytes per token, and a table sets the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UsageSpec {
    Counted(bool),
    Given(TokenCounts),
}

impl Default for UsageSpec {
    fn default() -> Self {
        Self::Counted(true)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenCounts {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub reasoning: u64,
}

/// A fault that the server returns for the first `times` requests for a response. Requests are
/// counted separately for each response and for each text before the first assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// The status code, if the kind is `status`.
    #[serde(default)]
    pub status: Option<u16>,
    /// The `Retry-After` header, sent verbatim: seconds or an HTTP date.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// The response body. By default, an error object in the endpoint's format.
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub delay_seconds: f64,
    /// Number of requests for which the fault is returned. 0 means all.
    #[serde(default = "once")]
    pub times: u64,
}

fn once() -> u64 {
    1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Responds with an error status.
    Status,
    /// Closes the connection without a response.
    Drop,
    /// Sends the headers and half of the body, then closes the connection.
    Truncate,
    /// Sends status 200 and a body whose JSON is cut off. Unlike with `truncate`, the transfer
    /// itself is complete.
    Malformed,
    /// Sends status 200 and an HTML page.
    NotJson,
    /// Sends status 200 and a completion that has usage but no choice.
    NoChoices,
    /// Sends no response until the client disconnects.
    Hang,
}

/// Why a script cannot be used. The message includes the file and the key.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("{path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path}: {reason}")]
    Malformed { path: String, reason: String },
}

/// Formats a TOML error on one line. The parser's own message quotes several lines of the script.
fn format_toml_error(text: &str, error: &toml::de::Error) -> String {
    const MAX_LENGTH: usize = 400;
    let start = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
    let clean = error.message().chars().map(|c| if c.is_control() { ' ' } else { c });
    format!("line {line}: {}", clean.take(MAX_LENGTH).collect::<String>())
}

impl Script {
    /// Loads a script. Files that end in `.json` are parsed as JSON, and all others as TOML.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: name.clone(), source })?;
        let parsed = if path.extension().is_some_and(|ext| ext == "json") {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            toml::from_str(&text).map_err(|error| format_toml_error(&text, &error))
        };
        parsed
            .and_then(Self::validate)
            .map_err(|why| ScriptError::Malformed { path: name, reason: why })
    }

    /// Parses a script in TOML.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        toml::from_str(text)
            .map_err(|error| format_toml_error(text, &error))
            .and_then(Self::validate)
            .map_err(|why| ScriptError::Malformed { path: "script".into(), reason: why })
    }

    fn validate(self) -> Result<Self, String> {
        let turns = self.conversations.iter().flat_map(|one| &one.turns);
        let answers = self.rules.iter().map(|rule| &rule.answer).chain(turns).chain(&self.default);
        for fault in answers.flat_map(|answer| &answer.faults) {
            match (fault.kind, fault.status) {
                (FaultKind::Status, Some(100..=599)) => {}
                (FaultKind::Status, _) => {
                    return Err("a fault of kind `status` needs a `status` from 100 to 599".into());
                }
                (_, Some(_)) => {
                    return Err("`status` is only allowed for a fault of kind `status`".into());
                }
                _ => {}
            }
        }
        for conversation in &self.conversations {
            if conversation.turns.is_empty() {
                return Err("a conversation needs at least one `[[conversation.turn]]`".into());
            }
        }
        Ok(self)
    }
}
