//! A model: an endpoint with its sampling parameters, and what an answer of it cost.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `[models."..."]` of a run configuration. All of it but the endpoint's address, the key's
/// variable and the price is a factor of the arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Anything OpenAI-compatible; `script:FILE` starts the bundled scripted model on loopback.
    pub base_url: String,
    /// What the endpoint calls it.
    pub name: String,
    /// The wire format that the endpoint speaks.
    #[serde(default, skip_serializing_if = "Api::is_chat")]
    pub api: Api,
    /// The environment variable that holds the key, never the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// In the place of the one in `configs/models.toml`. Recorded, no factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Vendor fields, laid over the request body as they are.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
}

/// The wire formats of models. Each is one vendor's first, and spoken by many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// OpenAI Chat Completions, which nearly every endpoint speaks.
    #[default]
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Google's generateContent.
    Gemini,
}

impl Api {
    fn is_chat(&self) -> bool {
        *self == Self::Chat
    }

    /// As it is written in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
        }
    }
}

impl std::fmt::Display for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that a request or an answer held and the other side was not given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub kind: LossKind,
    /// The field, as the side that wrote it names it: `metadata`, `messages[3].cache_control`.
    pub field: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// The other format has no such field.
    Dropped,
    /// Said with other means, which do not say quite the same.
    Approximated,
    /// Taken away by policy: a tool that the provider would run, past the proxy.
    Withheld,
}

/// Tokens of one answer. `cached` is a part of `input`, `reasoning` a part of `output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    #[serde(default)]
    pub cached: u64,
    #[serde(default)]
    pub reasoning: u64,
    /// The endpoint gave no usage; these are local counts.
    #[serde(default)]
    pub estimated: bool,
}

/// Prices of one model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Absent: cached tokens cost what input costs.
    #[serde(default)]
    pub cached: Option<f64>,
}

impl Price {
    /// US dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cached) as f64;
        let cached = usage.cached as f64;
        (fresh * self.input
            + cached * self.cached.unwrap_or(self.input)
            + usage.output as f64 * self.output)
            / 1e6
    }

    /// US dollars, should none or all of the input come from a cache, whichever is dearer.
    pub fn most(&self, usage: &Usage) -> f64 {
        let cached = Usage { cached: usage.input, ..*usage };
        self.of(&Usage { cached: 0, ..*usage }).max(self.of(&cached))
    }
}
