//! The script: which response is given when.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A script file. Rules are tried first, in order, then conversations, in order, then `default`. If
/// nothing matches, the request is rejected with status 422 and a message that says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The model that `/v1/models` lists and that a response names if the request names none.
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

/// One response under conditions, all of which must hold. An absent condition always holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A substring of the conversation's head: every message before the first assistant message.
    #[serde(default)]
    pub when: Option<String>,
    /// The number of assistant messages in the request: 0 for the first response.
    #[serde(default)]
    pub turn: Option<usize>,
    /// A substring of the request's last message.
    #[serde(default)]
    pub last: Option<String>,
    /// The model that the request names, exactly.
    #[serde(default)]
    pub model: Option<String>,
    pub answer: Answer,
}

/// A whole conversation: turn n responds to a request that contains n assistant messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// As for a rule.
    #[serde(default)]
    pub when: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(rename = "turn")]
    pub turns: Vec<Answer>,
    /// Repeat the last turn after the end. Otherwise the script's `default` is used.
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
    /// Absent: `tool_calls` if there are calls, otherwise `stop`.
    pub finish_reason: Option<String>,
    /// Further vendor-specific fields of the message, verbatim.
    pub extra: Map<String, Value>,
    pub usage: UsageSpec,
    /// Before the head of the response.
    pub delay_seconds: f64,
    /// Between two chunks of a stream.
    pub chunk_delay_seconds: f64,
    /// Faults before this response is given, in order.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub name: String,
    /// A table is written as JSON; a string is sent verbatim, so it may be malformed.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

impl Call {
    pub(crate) fn text(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// `usage = false` leaves it out, `usage = true` (the default) counts four bytes per token, a table
/// sets it.
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

/// A failure of the first `times` requests for this response. Counted per response and conversation
/// head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// For `status`.
    #[serde(default)]
    pub status: Option<u16>,
    /// The `Retry-After` header, verbatim: seconds or an HTTP date.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// Absent: an error object in the endpoint's format.
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub delay_seconds: f64,
    /// 0 means always.
    #[serde(default = "once")]
    pub times: u64,
}

fn once() -> u64 {
    1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// An error status.
    Status,
    /// The connection ends without a response.
    Drop,
    /// Head and half of the body are sent, then the connection ends.
    Truncate,
    /// Status 200 and a complete body with JSON that stops in the middle.
    Malformed,
    /// Status 200 and a page of HTML.
    NotJson,
    /// Status 200 and a completion with usage but without a choice.
    NoChoices,
    /// No response until the client gives up.
    Hang,
}

/// Why a script cannot be used. Names the file and the key.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("{path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path}: {why}")]
    Malformed { path: String, why: String },
}

/// The line and the reason on one line; the parser's own message shows the script on several.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    const LONGEST: usize = 400;
    let start = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
    let clean = error.message().chars().map(|c| if c.is_control() { ' ' } else { c });
    format!("line {line}: {}", clean.take(LONGEST).collect::<String>())
}

impl Script {
    /// Reads a `.json` file as JSON and any other as TOML.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: name.clone(), source })?;
        let parsed = if path.extension().is_some_and(|ext| ext == "json") {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            toml::from_str(&text).map_err(|error| not_toml(&text, &error))
        };
        parsed.and_then(Self::checked).map_err(|why| ScriptError::Malformed { path: name, why })
    }

    /// Reads TOML.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        toml::from_str(text)
            .map_err(|error| not_toml(text, &error))
            .and_then(Self::checked)
            .map_err(|why| ScriptError::Malformed { path: "script".into(), why })
    }

    fn checked(self) -> Result<Self, String> {
        let turns = self.conversations.iter().flat_map(|one| &one.turns);
        let answers = self.rules.iter().map(|rule| &rule.answer).chain(turns).chain(&self.default);
        for fault in answers.flat_map(|answer| &answer.faults) {
            match (fault.kind, fault.status) {
                (FaultKind::Status, Some(100..=599)) => {}
                (FaultKind::Status, _) => {
                    return Err("a fault of kind `status` needs `status` of 100 to 599".into());
                }
                (_, Some(_)) => return Err("`status` goes with a fault of kind `status`".into()),
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
