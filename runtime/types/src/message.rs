//! The conversation between a scaffold and a model, in no vendor's wire format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions that stand above the conversation.
    System {
        /// Plain text.
        content: String,
    },
    /// What the task or the scaffold says to the model.
    User {
        /// Plain text.
        content: String,
    },
    /// An answer of the model, as later requests repeat it.
    Assistant {
        /// Plain text; empty where the answer is tool calls alone.
        #[serde(default)]
        content: String,
        /// Calls, in the order in which the model made them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Vendor fields of the answer (such as `reasoning_content`), sent back as they came.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
        /// The turn in the endpoint's own format, which endpoints of that format get back in place of the fields above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<NativeTurn>,
    },
    /// The output of one tool call.
    Tool {
        /// The call that it answers.
        call_id: String,
        /// What the model is shown.
        content: String,
    },
}

/// A call as the model wrote it: the arguments are text and may not be JSON at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's own id of the call. Its result names it.
    pub id: String,
    /// The tool. It may be one that was never offered.
    pub name: String,
    /// JSON text where the model kept to the format.
    pub arguments: String,
}

/// What the model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// As the model calls it.
    pub name: String,
    /// What the model reads to decide when to use it.
    pub description: String,
    /// JSON Schema of the arguments (an object).
    pub parameters: Value,
}

/// One request of a scaffold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The whole conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
}

/// The assistant's turn as the endpoint wrote it: in order, with members that no other format knows.
///
/// Endpoints want it back unchanged: signatures of thoughts, encrypted reasoning, the phase of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NativeTurn {
    /// The format.
    pub api: Api,
    /// The message (chat), its content blocks (Messages), output items (Responses) or parts (Gemini).
    pub items: Vec<Value>,
}

/// One delivered answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Plain text.
    pub content: String,
    /// Calls, in the order in which the model made them.
    pub tool_calls: Vec<ToolCall>,
    /// Vendor fields, sent back with the message. See [`Message::Assistant`].
    pub extra: Map<String, Value>,
    /// The turn in the endpoint's own format. Absent if the fields above hold all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeTurn>,
    /// As the endpoint gave it: `stop`, `tool_calls`, `length`, `content_filter`...
    pub finish_reason: Option<String>,
    /// The model declined to answer (`refusal`, or a content filter).
    pub refused: bool,
    /// Tokens that the request and the answer took.
    pub usage: Usage,
    /// US dollars. Absent where the model has no price.
    pub cost_usd: Option<f64>,
}

impl Answer {
    /// The answer as the next request repeats it.
    pub fn message(&self) -> Message {
        Message::Assistant {
            content: self.content.clone(),
            tool_calls: self.tool_calls.clone(),
            extra: self.extra.clone(),
            native: self.native.clone(),
        }
    }
}

use crate::{Api, Usage};
