//! The conversation between a scaffold and a model, in no vendor's wire format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        #[serde(default)]
        content: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Vendor fields of the answer (such as `reasoning_content`), sent back as they came.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
    },
    Tool {
        call_id: String,
        content: String,
    },
}

/// A call as the model wrote it: the arguments are text and may not be JSON at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// What the model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments (an object).
    pub parameters: Value,
}

/// One request of a scaffold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub messages: Vec<Message>,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
}

/// One delivered answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub content: String,
    pub tool_calls: Vec<ToolCall>,
    pub extra: Map<String, Value>,
    /// As the endpoint gave it: `stop`, `tool_calls`, `length`, `content_filter`...
    pub finish_reason: Option<String>,
    /// The model declined to answer (`refusal`, or a content filter).
    pub refused: bool,
    pub usage: Usage,
    pub cost_usd: Option<f64>,
}

impl Answer {
    /// The answer as the next request repeats it.
    pub fn message(&self) -> Message {
        Message::Assistant {
            content: self.content.clone(),
            tool_calls: self.tool_calls.clone(),
            extra: self.extra.clone(),
        }
    }
}

use crate::Usage;
