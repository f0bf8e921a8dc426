//! The conversation between a scaffold and a model, independent of vendors' wire formats.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions above the conversation.
    System {
        /// Plain text.
        content: String,
    },
    /// What the task or the scaffold tells the model.
    User {
        /// Plain text.
        content: String,
    },
    /// A response of the model, as later requests repeat it.
    Assistant {
        /// Plain text; empty if the response has only tool calls.
        #[serde(default)]
        content: String,
        /// Calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Vendor fields of the response (such as `reasoning_content`), sent back unchanged.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
        /// The turn in the endpoint's own format. Endpoints with that format receive it instead of
        /// the fields above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<NativeTurn>,
    },
    /// The output of one tool call.
    Tool {
        /// The call that it answers.
        call_id: String,
        /// What the model sees.
        content: String,
    },
}

/// A call as the model wrote it: the arguments are text and may not even be JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's own id for the call. Its result refers to it.
    pub id: String,
    /// The tool, which may not have been offered.
    pub name: String,
    /// JSON text, if the model kept to the format.
    pub arguments: String,
}

/// A tool's description for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls it.
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

/// The assistant's turn as the endpoint wrote it: in order, with members that no other format has.
///
/// Endpoints expect it back unchanged: signatures of reasoning, encrypted reasoning, the phase of a
/// message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NativeTurn {
    /// The format.
    pub api: Api,
    /// The message (chat), its content blocks (Messages), output items (Responses) or parts (Gemini).
    pub items: Vec<Value>,
}

/// One delivered response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Plain text.
    pub content: String,
    /// Calls, in the model's order.
    pub tool_calls: Vec<ToolCall>,
    /// Vendor fields, sent back with the message. See [`Message::Assistant`].
    pub extra: Map<String, Value>,
    /// The turn in the endpoint's own format. Absent if the fields above are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeTurn>,
    /// The endpoint's value: `stop`, `tool_calls`, `length`, `content_filter`...
    pub finish_reason: Option<String>,
    /// The model refused (`refusal`, or a content filter).
    pub refused: bool,
    /// Tokens of the request and the response.
    pub usage: Usage,
    /// US dollars. Absent if the model has no price.
    pub cost_usd: Option<f64>,
}

impl Answer {
    /// The response as the next request repeats it.
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
