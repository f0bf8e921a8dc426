//! Reads `configs/endpoint-checks.toml`.

use proctor_types::{Fault, Layer, ShippedTable};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointChecks {
    pub input: InputCheck,
    pub output: OutputCheck,
    pub dropped: DroppedCheck,
    pub text: TextCheck,
    pub torn: TornCheck,
    pub cut: CutCheck,
    pub length: LengthCheck,
    pub escaped: EscapedCheck,
    pub replay: ReplayCheck,
    pub error_text: ErrorTextCheck,
    pub hidden_cap: HiddenCapCheck,
    pub trimmed: TrimmedCheck,
    pub masked: MaskedCheck,
    pub run_of_one: RunOfOneCheck,
}

/// When a proxy trimmed each piece of the arguments of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrimmedCheck {
    pub least_letters: usize,
}

/// When a guardrail masked what the model says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaskedCheck {
    pub placeholders: Vec<String>,
    pub least: usize,
    pub hint: String,
}

/// When a response is, or ends in, a run of one sign.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunOfOneCheck {
    pub token_zero: String,
    pub least_zero: usize,
    pub least_guarded: usize,
    pub hint: String,
}

/// When a proxy escaped the arguments of a call for HTML.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EscapedCheck {
    pub entities: Vec<String>,
    pub least: usize,
    pub hint: String,
}

/// When a cache returned an earlier response.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayCheck {
    pub hint: String,
}

/// When a proxy returned an error of its own as the text of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorTextCheck {
    pub most_bytes: usize,
    pub starts: Vec<String>,
    pub hint: String,
}

/// When a response ended at a limit of the server that it doesn't report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HiddenCapCheck {
    pub least_tokens: u64,
    pub multiples: Vec<u64>,
    pub hint: String,
}

/// When a call lost its arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TornCheck {
    pub least_output: u64,
}

/// When the endpoint truncated the prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CutCheck {
    pub least_tokens: u64,
    pub share: f64,
    pub hint: String,
}

/// When a response ended at an output limit of the server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LengthCheck {
    pub explicit_limit: u64,
    pub share: f64,
    pub least_window: u64,
    pub least_own: u64,
    pub hint: String,
}

/// When the reported input is implausible.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputCheck {
    pub tokens_per_byte: u64,
    pub least_tokens: u64,
}

/// When the reported output is implausible.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputCheck {
    pub bytes_per_token: u64,
    pub factor: u64,
}

/// When the endpoint dropped a request's tools.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DroppedCheck {
    pub least_schema_tokens: u64,
    pub conversation_share: f64,
    pub schema_share: f64,
    pub least_share: f64,
    pub hint: String,
}

/// What an unparsed call looks like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextCheck {
    pub reach: usize,
    pub lines: usize,
    pub name_keys: Vec<String>,
    pub argument_keys: Vec<String>,
    pub wrapper_keys: Vec<String>,
    pub name_prefixes: Vec<String>,
    pub hint: String,
    pub form: Vec<TextForm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextForm {
    pub marker: String,
    /// The text must also contain this.
    #[serde(default)]
    pub with: Option<String>,
    /// vLLM's parser for it.
    #[serde(default)]
    pub vllm: Option<String>,
    /// SGLang's parser for it.
    #[serde(default)]
    pub sglang: Option<String>,
}

impl EndpointChecks {
    /// The built-in table, which a test checks.
    pub(crate) fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<EndpointChecks> = ShippedTable::new(
            "endpoint-checks.toml",
            include_str!("../../../configs/endpoint-checks.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(Layer::Model, what))
    }
}
