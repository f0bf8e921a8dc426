//! A model: an endpoint with its sampling parameters, and the cost of its responses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::MAX_COUNT;

/// The prefix of a base URL that names a script instead of an endpoint.
pub const SCRIPT_URL_PREFIX: &str = "script:";

/// `[models."..."]` of a run configuration. Every key is a factor of the arm, except `base_url`, `key_env`, `price`,
/// `cutoff` and `tool_check`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The endpoint's URL. `script:FILE` starts the built-in scripted model on loopback. Not a factor.
    #[schemars(extend("x-form" = "address"))]
    #[schemars(example = &"https://HOST/v1")]
    pub base_url: String,
    /// The model's name at the endpoint.
    #[schemars(length(min = 1))]
    #[schemars(example = &"my-model")]
    pub name: String,
    /// The wire format of the endpoint. Default: `chat`.
    #[serde(default, skip_serializing_if = "Api::is_chat")]
    #[schemars(example = Api::Chat)]
    pub api: Api,
    /// The environment variable that contains the key (never the key itself). Not a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-form" = "variable"))]
    #[schemars(example = &"MY_KEY")]
    pub key_env: Option<String>,
    /// Size of the context window in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 128_000)]
    pub context_window: Option<u64>,
    /// The model's tokenizer: a byte-pair `tokenizer.json`, or `cl100k_base`. The tokenizer's
    /// counts decide what fits into the context window. The file's content is a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::path::PathBuf>", example = &"tokenizer.json")]
    pub tokenizer: Option<TokenizerFile>,
    /// Overrides the price in `configs/tables/models.toml`. Not a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The model's knowledge cutoff according to its vendor, as YYYY-MM-DD. Reports list tasks from
    /// before that day separately from tasks of that day or later. Not a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    #[schemars(example = &"2025-01-31")]
    pub cutoff: Option<String>,
    /// Whether the arm halts if a response shows that the endpoint does not support tools. Default: `true`. Not a
    /// factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = false)]
    pub tool_check: Option<bool>,
    /// Whether the built-in scaffolds set breakpoints for the prompt cache of a Messages endpoint. Default: `true`.
    /// Other formats need no breakpoints. A factor, like all keys below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = false)]
    pub cache: Option<bool>,
    /// Sampling temperature. This key and all keys below are sent unchanged, and each is a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 10.0))]
    #[schemars(example = 0.7)]
    pub temperature: Option<f64>,
    /// Probability mass for nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    #[schemars(example = 0.95)]
    pub top_p: Option<f64>,
    /// Maximum number of tokens in one response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 16_000)]
    pub max_output_tokens: Option<u64>,
    /// The reasoning effort, in the endpoint's terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    #[schemars(example = &"high")]
    pub reasoning_effort: Option<String>,
    /// Random seed, for endpoints that accept one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 7)]
    pub seed: Option<i64>,
    /// Vendor-specific fields, merged into the request body unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(example = serde_json::json!({ "top_k": 20 }))]
    pub extra_body: Map<String, Value>,
}

impl ModelSpec {
    /// Keys that do not distinguish arms: the model's URL, key, price, knowledge cutoff and tool
    /// check.
    pub const NON_FACTOR_KEYS: [&str; 5] = ["base_url", "key_env", "price", "cutoff", "tool_check"];
}

/// A tokenizer file: its path as configured, and its digest once the run is planned. A built-in
/// tokenizer has its name instead of a path, and no digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SerializedTokenizer", into = "SerializedTokenizer")]
pub struct TokenizerFile {
    /// The file's path, or the name of a built-in tokenizer. Not a factor.
    pub path: std::path::PathBuf,
    /// SHA-256 of the content, in hex. Empty until the file is read, and for a built-in tokenizer.
    pub sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SerializedTokenizer {
    Path(std::path::PathBuf),
    Read { path: std::path::PathBuf, sha256: String },
}

impl From<SerializedTokenizer> for TokenizerFile {
    fn from(tokenizer: SerializedTokenizer) -> Self {
        match tokenizer {
            SerializedTokenizer::Path(path) => Self { path, sha256: String::new() },
            SerializedTokenizer::Read { path, sha256 } => Self { path, sha256 },
        }
    }
}

impl From<TokenizerFile> for SerializedTokenizer {
    fn from(TokenizerFile { path, sha256 }: TokenizerFile) -> Self {
        match sha256.is_empty() {
            true => Self::Path(path),
            false => Self::Read { path, sha256 },
        }
    }
}

/// Wire formats of model endpoints. Each comes from one vendor but is also supported by other
/// vendors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// OpenAI Chat Completions, which most endpoints support.
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

    /// Returns the name used in configurations.
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

/// Content of a request or a response that the other side did not receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldLoss {
    /// What happened to the field.
    pub kind: FieldLossKind,
    /// The field, as named by the side that wrote it: `metadata`, `messages[3].cache_control`.
    pub field: String,
}

/// What happened to a field that could not be passed on as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLossKind {
    /// The other format has no such field.
    Dropped,
    /// The field was expressed in another way that is not quite equivalent.
    Approximated,
    /// Proctor removed the field, because the provider would run a tool itself and bypass the proxy.
    Withheld,
}

/// Tokens of one response. `input` includes `cached`, and `output` includes `reasoning`. `classes`
/// has the same tokens in disjoint classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, including those read from and written to a cache.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens read from a cache.
    #[serde(default)]
    pub cached: u64,
    /// Reasoning tokens.
    #[serde(default)]
    pub reasoning: u64,
    /// Whether the endpoint reported no usage, so that these are local counts.
    #[serde(default)]
    pub estimated: bool,
    /// The same tokens by price class, if the endpoint reports classes.
    #[serde(default, skip_serializing_if = "TokenClasses::is_unknown")]
    pub classes: TokenClasses,
}

/// Tokens by price class. All classes except `cache_write_1h` are disjoint. A class is absent if
/// the endpoint does not report it; its tokens are then in `fresh_input` or `output_visible`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenClasses {
    /// Input tokens neither read from nor written to a cache.
    pub fresh_input: Option<u64>,
    /// Input tokens read from a cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache, with any lifetime.
    pub cache_write: Option<u64>,
    /// The part of `cache_write` with a lifetime of one hour. Absent if the endpoint does not
    /// report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
    /// Output tokens without reasoning.
    pub output_visible: Option<u64>,
    /// Reasoning tokens.
    pub reasoning: Option<u64>,
}

impl TokenClasses {
    /// Whether no class is known, in which case Serde omits the key.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the tokens of another response. A class that no response reports stays absent.
    pub fn add(&mut self, other: &Self) {
        let sum = |one: &mut Option<u64>, other: Option<u64>| {
            if let Some(more) = other {
                *one = Some(one.unwrap_or_default() + more);
            }
        };
        sum(&mut self.fresh_input, other.fresh_input);
        sum(&mut self.cache_read, other.cache_read);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.cache_write_1h, other.cache_write_1h);
        sum(&mut self.output_visible, other.output_visible);
        sum(&mut self.reasoning, other.reasoning);
    }
}

impl Usage {
    /// Creates the usage from an endpoint's report: total input and output, and the parts that the
    /// endpoint distinguishes.
    pub fn from_endpoint_report(
        (input, output): (u64, u64),
        (cache_read, cache_write): (Option<u64>, Option<u64>),
        reasoning: Option<u64>,
    ) -> Self {
        // Cap the parts, because some endpoints report parts that exceed the total.
        let cache_read = cache_read.map(|read| read.min(input));
        let cached = cache_read.unwrap_or_default();
        let cache_write = cache_write.map(|written| written.min(input - cached));
        let reasoning = reasoning.map(|thought| thought.min(output));
        let classes = TokenClasses {
            fresh_input: Some(input - cached - cache_write.unwrap_or_default()),
            cache_read,
            cache_write,
            cache_write_1h: None,
            output_visible: Some(output - reasoning.unwrap_or_default()),
            reasoning,
        };
        let reasoning = reasoning.unwrap_or_default();
        Self { input, output, cached, reasoning, estimated: false, classes }
    }

    /// Sets the part of the cache writes that has a lifetime of one hour.
    #[must_use]
    pub fn with_hour_cache_writes(mut self, tokens: Option<u64>) -> Self {
        let written = self.classes.cache_write.unwrap_or_default();
        self.classes.cache_write_1h = tokens.map(|tokens| tokens.min(written));
        self
    }

    /// Replaces the output with a local count.
    #[must_use]
    pub fn with_output_estimate(mut self, output: u64) -> Self {
        self.output = output;
        self.reasoning = self.reasoning.min(output);
        self.classes.reasoning = self.classes.reasoning.map(|thought| thought.min(output));
        self.classes.output_visible = Some(output - self.reasoning);
        self.estimated = true;
        self
    }

    /// Whether input and output are both zero, which means that the endpoint did not count tokens.
    pub fn is_zero(&self) -> bool {
        (self.input, self.output) == (0, 0)
    }
}

/// Prices of one model in US dollars per million tokens, by class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of input tokens.
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 1.25)]
    pub input: f64,
    /// Price of output tokens.
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 10.0)]
    pub output: f64,
    /// Price of input tokens read from a cache. Default: the input price.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 0.125)]
    pub cached: Option<f64>,
    /// Price of input tokens written to a cache. Default: the input price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 1.5)]
    pub cache_write: Option<f64>,
    /// Price of input tokens written to a cache for an hour. Default: twice the input price, which
    /// is what Anthropic charges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 2.5)]
    pub cache_write_1h: Option<f64>,
    /// Price of reasoning tokens. Default: the output price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 10.0)]
    pub reasoning: Option<f64>,
    /// Prices of large requests. The tier with the highest `above` that the input exceeds applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<PriceTier>,
}

/// Prices of requests with more than `above` input tokens. A missing price defaults to the model's
/// base price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceTier {
    /// Number of input tokens, including cached ones, above which these prices apply.
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 200_000)]
    pub above: u64,
    /// Price of input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 2.5)]
    pub input: Option<f64>,
    /// Price of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 15.0)]
    pub output: Option<f64>,
    /// Price of input tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 0.25)]
    pub cached: Option<f64>,
    /// Price of input tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 3.0)]
    pub cache_write: Option<f64>,
    /// Price of input tokens written to a cache for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 5.0)]
    pub cache_write_1h: Option<f64>,
    /// Price of reasoning tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    #[schemars(example = 15.0)]
    pub reasoning: Option<f64>,
}

/// The prices for one request.
struct Rates {
    input: f64,
    cache_read: f64,
    cache_write: f64,
    cache_write_1h: f64,
    output: f64,
    reasoning: f64,
}

impl Rates {
    fn cost(&self, usage: &Usage) -> f64 {
        let written = usage.classes.cache_write.unwrap_or_default();
        let for_an_hour = usage.classes.cache_write_1h.unwrap_or_default().min(written);
        let fresh = usage.input.saturating_sub(usage.cached).saturating_sub(written);
        let visible = usage.output.saturating_sub(usage.reasoning);
        (fresh as f64 * self.input
            + usage.cached as f64 * self.cache_read
            + (written - for_an_hour) as f64 * self.cache_write
            + for_an_hour as f64 * self.cache_write_1h
            + visible as f64 * self.output
            + usage.reasoning as f64 * self.reasoning)
            / 1e6
    }
}

impl Price {
    /// The default price of a cache write with a lifetime of one hour, as a multiple of the input
    /// price (<https://docs.claude.com/en/docs/build-with-claude/prompt-caching>).
    const ONE_HOUR_CACHE_WRITE_FACTOR: f64 = 2.0;

    /// Creates prices without tiers and without extra prices for cache writes and reasoning.
    pub fn flat(input: f64, output: f64, cached: Option<f64>) -> Self {
        Self {
            input,
            output,
            cached,
            cache_write: None,
            cache_write_1h: None,
            reasoning: None,
            tiers: Vec::new(),
        }
    }

    fn rates(&self, tier: Option<&PriceTier>) -> Rates {
        let of =
            |above: Option<f64>, below: Option<f64>, else_: f64| above.or(below).unwrap_or(else_);
        let input = of(tier.and_then(|tier| tier.input), None, self.input);
        let output = of(tier.and_then(|tier| tier.output), None, self.output);
        Rates {
            input,
            cache_read: of(tier.and_then(|tier| tier.cached), self.cached, input),
            cache_write: of(tier.and_then(|tier| tier.cache_write), self.cache_write, input),
            cache_write_1h: of(
                tier.and_then(|tier| tier.cache_write_1h),
                self.cache_write_1h,
                input * Self::ONE_HOUR_CACHE_WRITE_FACTOR,
            ),
            output,
            reasoning: of(tier.and_then(|tier| tier.reasoning), self.reasoning, output),
        }
    }

    /// Returns the prices of a request with this many input tokens.
    fn rates_for_input(&self, input: u64) -> Rates {
        let tier = self.tiers.iter().filter(|tier| input > tier.above);
        self.rates(tier.max_by_key(|tier| tier.above))
    }

    /// Returns the cost of one request in US dollars. Tiers apply to single requests: use
    /// [`Price::estimate_cost`] for a sum of several.
    pub fn request_cost(&self, usage: &Usage) -> f64 {
        self.rates_for_input(usage.input).cost(usage)
    }

    /// Estimates the cost in US dollars of several requests of similar size, using the tier for
    /// their mean size.
    pub fn estimate_cost(&self, usage: &Usage, requests: u64) -> f64 {
        self.rates_for_input(usage.input / requests.max(1)).cost(usage)
    }

    /// Whether the model has a price for cache writes. Without such a price, the reservation for a
    /// request does not include cache writes.
    fn has_cache_write_price(&self) -> bool {
        let of_tier = |tier: &PriceTier| tier.cache_write.or(tier.cache_write_1h).is_some();
        self.cache_write.or(self.cache_write_1h).is_some() || self.tiers.iter().any(of_tier)
    }

    /// Returns the highest possible cost in US dollars: the cost if every token were in the most
    /// expensive class of the most expensive tier that this many tokens can reach.
    pub fn max_cost(&self, usage: &Usage) -> f64 {
        let tiers = self.tiers.iter().filter(|tier| usage.input > tier.above).map(Some);
        let dearest = tiers.chain([None]).map(|tier| {
            let (input, output) = self.max_rates_for_tier(tier);
            (usage.input as f64 * input + usage.output as f64 * output) / 1e6
        });
        dearest.fold(0.0, f64::max)
    }

    /// Returns the highest prices of input and output in US dollars per million tokens, over all
    /// classes and tiers.
    pub fn max_rates(&self) -> (f64, f64) {
        let tiers = self.tiers.iter().map(Some).chain([None]);
        tiers.map(|tier| self.max_rates_for_tier(tier)).fold((0.0, 0.0), |(input, output), one| {
            (f64::max(input, one.0), f64::max(output, one.1))
        })
    }

    fn max_rates_for_tier(&self, tier: Option<&PriceTier>) -> (f64, f64) {
        let rates = self.rates(tier);
        let written = match self.has_cache_write_price() {
            true => rates.cache_write.max(rates.cache_write_1h),
            false => rates.cache_write,
        };
        (rates.input.max(rates.cache_read).max(written), rates.output.max(rates.reasoning))
    }
}

#[cfg(test)]
mod tests {
    use super::{Price, PriceTier, TokenClasses, Usage};

    #[test]
    fn token_classes_are_disjoint_and_add_up_to_the_totals() {
        let usage = Usage::from_endpoint_report((100, 50), (Some(60), Some(30)), Some(20));
        let classes = TokenClasses {
            fresh_input: Some(10),
            cache_read: Some(60),
            cache_write: Some(30),
            cache_write_1h: None,
            output_visible: Some(30),
            reasoning: Some(20),
        };
        assert_eq!((usage.classes, usage.cached, usage.reasoning), (classes, 60, 20));
        // Parts that exceed the total are capped. Unreported classes are absent instead of zero.
        let odd = Usage::from_endpoint_report((10, 5), (Some(99), None), Some(9)).classes;
        assert_eq!((odd.fresh_input, odd.cache_read, odd.cache_write), (Some(0), Some(10), None));
        assert_eq!((odd.output_visible, odd.reasoning), (Some(0), Some(5)));
    }

    #[test]
    fn cost_uses_class_prices_and_the_tier_of_the_request() {
        let tier = PriceTier {
            above: 200,
            input: Some(4.0),
            output: None,
            cached: Some(0.4),
            cache_write: None,
            cache_write_1h: None,
            reasoning: None,
        };
        let price = Price {
            cached: Some(0.1),
            cache_write: Some(1.25),
            reasoning: Some(3.0),
            tiers: vec![tier],
            ..Price::flat(1.0, 2.0, None)
        };
        let small = Usage::from_endpoint_report((100, 50), (Some(60), Some(30)), Some(20));
        let cost = 10.0 * 1.0 + 60.0 * 0.1 + 30.0 * 1.25 + 30.0 * 2.0 + 20.0 * 3.0;
        assert!((price.request_cost(&small) * 1e6 - cost).abs() < 1e-9);
        let large = Usage::from_endpoint_report((201, 50), (Some(60), None), None);
        let cost = 141.0 * 4.0 + 60.0 * 0.4 + 50.0 * 2.0;
        assert!((price.request_cost(&large) * 1e6 - cost).abs() < 1e-9);
        // A tier applies only above its threshold.
        let at_threshold = Usage::from_endpoint_report((200, 0), (None, None), None);
        assert!((price.request_cost(&at_threshold) * 1e6 - 200.0).abs() < 1e-9);
        assert!(price.max_cost(&large) >= price.request_cost(&large));
    }
    #[test]
    fn one_hour_cache_write_costs_twice_the_input_price_by_default() {
        let usage = |hour| {
            Usage::from_endpoint_report((1_000_000, 0), (None, Some(1_000_000)), None)
                .with_hour_cache_writes(hour)
        };
        let price =
            Price { cached: Some(0.5), cache_write: Some(6.25), ..Price::flat(5.0, 25.0, None) };
        for (hour, cost) in [
            (None, 6.25),
            (Some(0), 6.25),
            (Some(1_000_000), 10.0),
            (Some(400_000), 0.4 * 10.0 + 0.6 * 6.25),
            // The count is capped at the number of cache writes.
            (Some(9_000_000), 10.0),
        ] {
            assert!((price.request_cost(&usage(hour)) - cost).abs() < 1e-9, "{hour:?}");
        }
        let with_hour_price = Price { cache_write_1h: Some(7.0), ..price.clone() };
        assert!((with_hour_price.request_cost(&usage(Some(1_000_000))) - 7.0).abs() < 1e-9);
        // The reservation covers the most expensive class.
        let million = Usage { input: 1_000_000, ..Usage::default() };
        assert!((price.max_cost(&million) - 10.0).abs() < 1e-9);
        assert_eq!(price.max_rates(), (10.0, 25.0));
        // Without a price for cache writes, they do not raise the highest price.
        assert_eq!(Price::flat(5.0, 25.0, None).max_rates(), (5.0, 25.0));
    }

    #[test]
    fn estimate_uses_the_tier_of_the_mean_request() {
        let tier = PriceTier {
            above: 200,
            input: Some(4.0),
            output: None,
            cached: None,
            cache_write: None,
            cache_write_1h: None,
            reasoning: None,
        };
        let price = Price { tiers: vec![tier], ..Price::flat(1.0, 2.0, None) };
        let usage = Usage::from_endpoint_report((1000, 0), (None, None), None);
        assert!((price.estimate_cost(&usage, 10) * 1e6 - 1000.0).abs() < 1e-9);
        assert!((price.estimate_cost(&usage, 2) * 1e6 - 4000.0).abs() < 1e-9);
    }
}
