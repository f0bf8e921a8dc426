//! The script, which defines the response to each request.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A script file. Rules are tried first, then conversations (both in order), then `default`. If
/// nothing matches, the request is rejected with status 422 and a message that explains why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The model listed by `/v1/models`. Responses use it if the request names no model.
    pub model: String,
    /// Reject conversations that a strict endpoint would reject (a tool call without its result).
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

/// A response with conditions, all of which must be met. An omitted condition is always met.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A substring of the text before the first assistant message.
    #[serde(default)]
    pub when: Option<String>,
    /// The number of assistant messages in the request: 0 for the first response.
    #[serde(default)]
    pub turn: Option<usize>,
    /// A substring of the request's last message.
    #[serde(default)]
    pub last: Option<String>,
    /// The exact model name in the request.
    #[serde(default)]
    pub model: Option<String>,
    pub answer: Answer,
}

/// A whole conversation: turn n is the response to a request with n assistant messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Same as `when` of a rule.
    #[serde(default)]
    pub when: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(rename = "turn")]
    pub turns: Vec<Answer>,
    /// Repeat the last turn after the end. Otherwise `default` is used.
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
    /// Default: `tool_calls` if there are calls, otherwise `stop`.
    pub finish_reason: Option<String>,
    /// Additional vendor-specific fields of the message, copied verbatim.
    pub extra: Map<String, Value>,
    pub usage: UsageSpec,
    /// Delay before the response headers are sent.
    pub delay_seconds: f64,
    /// Delay between two chunks of a stream.
    pub chunk_delay_seconds: f64,
    /// Faults returned before this response, in order.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub name: String,
    /// A table is serialized as JSON. A string is sent verbatim and may be malformed.
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

/// Token usage in the response. `false` omits it, `true` (the default) counts four bytes per token,
/// and a table sets it.
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

/// A fault returned for the first `times` requests for this response. Counted separately per
/// response and conversation head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// The status code, for the kind `status`.
    #[serde(default)]
    pub status: Option<u16>,
    /// The `Retry-After` header, verbatim: seconds or an HTTP date.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// The response body. Default: an error object in the endpoint's format.
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub delay_seconds: f64,
    /// Number of requests that get the fault. 0 means all.
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
    /// Sends status 200 and a complete body whose JSON is cut off.
    Malformed,
    /// Sends status 200 and an HTML page.
    NotJson,
    /// Sends status 200 and a completion with usage but without a choice.
    NoChoices,
    /// Sends no response until the client disconnects.
    Hang,
}

/// Why a script cannot be used. Includes the file and the key.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("{path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path}: {why}")]
    Malformed { path: String, why: String },
}

/// Formats a TOML error on one line. The parser's own message quotes several lines of the script.
fn format_toml_error(text: &str, error: &toml::de::Error) -> String {
    const LONGEST: usize = 400;
    let start = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
    let clean = error.message().chars().map(|c| if c.is_control() { ' ' } else { c });
    format!("line {line}: {}", clean.take(LONGEST).collect::<String>())
}

impl Script {
    /// Loads a script. `.json` files are parsed as JSON, all others as TOML.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: name.clone(), source })?;
        let parsed = if path.extension().is_some_and(|ext| ext == "json") {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            toml::from_str(&text).map_err(|error| format_toml_error(&text, &error))
        };
        parsed.and_then(Self::validate).map_err(|why| ScriptError::Malformed { path: name, why })
    }

    /// Parses a script in TOML.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        toml::from_str(text)
            .map_err(|error| format_toml_error(text, &error))
            .and_then(Self::validate)
            .map_err(|why| ScriptError::Malformed { path: "script".into(), why })
    }

    fn validate(self) -> Result<Self, String> {
        let turns = self.conversations.iter().flat_map(|one| &one.turns);
        let answers = self.rules.iter().map(|rule| &rule.answer).chain(turns).chain(&self.default);
        for fault in answers.flat_map(|answer| &answer.faults) {
            match (fault.kind, fault.status) {
                (FaultKind::Status, Some(100..=599)) => {}
                (FaultKind::Status, _) => {
                    return Err("a fault of kind `status` needs `status` of 100 to 599".into());
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
