//! The conversation between a scaffold and a model, independent of vendors' wire formats.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions that precede the conversation.
    System {
        /// The message's text.
        content: String,
    },
    /// A message from the task or the scaffold to the model.
    User {
        /// The message's text.
        content: String,
    },
    /// A response from the model, as repeated in later requests.
    Assistant {
        /// The response's text; empty if the response has only tool calls.
        #[serde(default)]
        content: String,
        /// The model's tool calls, in the model's order.
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
        /// The id of the call.
        call_id: String,
        /// The output that the model sees.
        content: String,
    },
}

/// A tool call as the model wrote it. The arguments are text that may not be valid JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for the call. The tool's result refers to it.
    pub id: String,
    /// The name of the tool, which may not be one of the offered tools.
    pub name: String,
    /// The arguments as JSON text, if the model followed the format.
    pub arguments: String,
}

/// A tool's description for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name that the model uses to call the tool.
    pub name: String,
    /// The description that tells the model when to use the tool.
    pub description: String,
    /// JSON Schema of the arguments (an object).
    pub parameters: Value,
}

/// One request from a scaffold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The whole conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
}

/// The assistant's turn in the endpoint's own format, including fields that no other format has.
///
/// Endpoints expect some of these fields back unchanged: signatures of reasoning, encrypted
/// reasoning, the phase of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NativeTurn {
    /// The format of `items`.
    pub api: Api,
    /// The message (chat), its content blocks (Messages), output items (Responses) or parts (Gemini).
    pub items: Vec<Value>,
}

/// One delivered response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The response's text.
    pub content: String,
    /// The model's tool calls, in the model's order.
    pub tool_calls: Vec<ToolCall>,
    /// Vendor fields, sent back with the message. See [`Message::Assistant`].
    pub extra: Map<String, Value>,
    /// The turn in the endpoint's own format. Absent if the fields above are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeTurn>,
    /// The finish reason as the endpoint reports it: `stop`, `tool_calls`, `length`,
    /// `content_filter`...
    pub finish_reason: Option<String>,
    /// Whether the model refused (`refusal`, or a content filter).
    pub refused: bool,
    /// Tokens of the request and the response.
    pub usage: Usage,
    /// Cost in US dollars. Absent if the model has no price.
    pub cost_usd: Option<f64>,
}

impl ModelResponse {
    /// Returns the response as a message for the next request.
    pub fn to_message(&self) -> Message {
        Message::Assistant {
            content: self.content.clone(),
            tool_calls: self.tool_calls.clone(),
            extra: self.extra.clone(),
            native: self.native.clone(),
        }
    }
}

use crate::{Api, Usage};
