//! Rate limits: `[endpoints]` of a run configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MAX_COUNT, ModelSpec};

/// One table of `[endpoints]`: limits shared by all trials of a run. Not a factor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointRates {
    /// The endpoint that the limits apply to: the `base_url` of its models.
    #[schemars(extend("x-form" = "address"))]
    #[schemars(example = &"https://HOST/v1")]
    pub base_url: String,
    /// Name of one model at the endpoint. Default: all models at this address share the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    #[schemars(example = &"my-model")]
    pub model: Option<String>,
    /// Maximum number of concurrent requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 8)]
    pub max_concurrent: Option<u64>,
    /// Maximum number of requests started within one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 60)]
    pub requests_per_minute: Option<u64>,
    /// Maximum number of input and output tokens per minute. A request in flight counts with its reserved tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 100_000)]
    pub tokens_per_minute: Option<u64>,
}

impl EndpointRates {
    /// Whether the model is served at this URL.
    pub fn matches_model_url(&self, model: &ModelSpec) -> bool {
        normalize_url(&self.base_url) == model.normalized_url()
    }

    /// Whether the limits apply to requests to the model.
    pub fn applies_to(&self, model: &ModelSpec) -> bool {
        self.matches_model_url(model) && self.model.as_ref().is_none_or(|name| *name == model.name)
    }
}

impl ModelSpec {
    /// Returns the normalized base URL, so that models of the same endpoint compare equal.
    pub fn normalized_url(&self) -> &str {
        normalize_url(&self.base_url)
    }
}

/// Removes surrounding whitespace and trailing slashes from a URL.
fn normalize_url(base_url: &str) -> &str {
    base_url.trim().trim_end_matches('/')
}
