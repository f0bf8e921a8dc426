//! Model requests from a client in a sandbox: the rules that classify them (`[requests]` of a
//! manifest), and the traffic so far.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ModelResponse, RequestClass};

/// Rules that classify requests. The first matching rule decides. If none matches, `default`
/// applies.
///
/// ```toml
/// [requests]
/// default = "main"
/// [[requests.rules]]
/// class = "side"
/// tools = false
/// system = "You are a title generator*"
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestRules {
    /// The class of a request that no rule matches.
    #[serde(default)]
    pub default: RequestClass,
    /// Rules, tried in this order.
    #[serde(default)]
    pub rules: Vec<RequestRule>,
    /// How to recognize main requests of sub-agents. Absent if they cannot be recognized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agents: Option<SubAgentRules>,
}

/// `[requests.sub_agents]`: how main requests of sub-agents differ from the agent's own. Main
/// requests of sub-agents count as steps, but not as `main_steps`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubAgentRules {
    /// A header that only requests of sub-agents have. This header identifies the conversation if
    /// `conversation` is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The header with the conversation's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The header with the id of the conversation that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// A tool that only the main agent gets, usually the one that starts sub-agents. A request that offers other tools
    /// but not this one comes from a sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_tool: Option<String>,
}

/// The conversation of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAgentConversation {
    /// The client's id for the conversation, or an id derived from its first message.
    pub id: String,
    /// The conversation that started this one. Absent if the agent itself started this
    /// conversation, or if the parent is unknown.
    pub parent: Option<String>,
}

/// Assigns a class to requests that meet all conditions. An absent condition is always met. Patterns must match the
/// whole text, `*` matches any characters, and header names ignore case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestRule {
    /// `main` or `side`.
    pub class: RequestClass,
    /// Path of the request, without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Model name in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Required headers and patterns for their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// All system text, joined by newlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Whether the request offers tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// The request's output limit is at most this many tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_up_to: Option<u64>,
}

/// What a client in a sandbox has requested from the model endpoint so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traffic {
    /// Number of requests in flight to the model.
    pub requests_in_flight: usize,
    /// Number of requests received, including refused ones.
    pub received_requests: u64,
    /// Number of requests refused since the last response.
    pub refused_requests: u64,
    /// The last delivered response in the main conversation.
    pub last_response: Option<ModelResponse>,
}
