//! Decides whether a conversation exceeds its context window. Thresholds are in
//! `configs/tables/context-window.toml`.

use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::Deserialize;

use crate::{patterns::Patterns, rejections::ApiError};

/// Rules for deciding whether to believe a reported overflow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextWindowRules {
    tokenizer_error: f64,
    least_window: u64,
    names_output: Patterns,
    least_output: u64,
    stated_window: Patterns,
}

impl ContextWindowRules {
    /// Returns the built-in rules.
    ///
    /// # Errors
    /// Fails if the table cannot be read.
    pub fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<ContextWindowRules> = ShippedTable::new(
            "tables/context-window.toml",
            include_str!("../../../configs/tables/context-window.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(FaultLayer::Model, what))
    }

    /// Whether the conversation certainly exceeds the window, even if the endpoint reports no
    /// overflow. `counted_tokens` is the number of tokens that the endpoint counted, and
    /// `estimated_tokens` is our estimate of the tokens added since.
    pub fn is_overflow_certain(
        &self,
        counted_tokens: u64,
        estimated_tokens: u64,
        window: u64,
    ) -> bool {
        counted_tokens as f64 + estimated_tokens as f64 / self.tokenizer_error >= window as f64
    }

    /// Whether an overflow that the endpoint reports is plausible for a request that we estimate at
    /// `estimated` tokens, plus `output_tokens` tokens for the response.
    pub fn is_overflow_plausible(
        &self,
        estimated: u64,
        output_tokens: u64,
        window: Option<u64>,
    ) -> bool {
        let window = self.window_or_least(window);
        estimated as f64 * self.tokenizer_error + output_tokens as f64 >= window as f64
    }

    /// Returns the model's context window, or the smallest window that any model has if it is
    /// unknown.
    pub(crate) fn window_or_least(&self, window: Option<u64>) -> u64 {
        window.unwrap_or(self.least_window)
    }

    /// Whether an overflow may be due to the request's output limit and not to the conversation.
    pub(crate) fn may_be_output_limit(&self, body: &str, max_output: Option<u64>) -> bool {
        max_output.is_some_and(|most| most > self.least_output)
            && self.names_output.matches(&ApiError::parse(body).message)
    }

    /// Returns the context window that an endpoint's error states, in tokens.
    pub(crate) fn stated_window(&self, body: &str) -> Option<u64> {
        let message = ApiError::parse(body).message;
        let found = self.stated_window.captures(&message)?;
        let digits = found.name("window")?.as_str().replace(',', "");
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::ContextWindowRules;

    #[test]
    fn overflow_rules_allow_for_tokenizer_error() {
        let rules = ContextWindowRules::shipped().expect("valid rules");
        // The model's own tokenizer counts 12,077 tokens, ours 13,000.
        assert!(!rules.is_overflow_certain(0, 13_000, 12_500));
        assert!(rules.is_overflow_certain(0, 26_000, 12_500));
        assert!(rules.is_overflow_certain(12_000, 1_200, 12_500));
        assert!(!rules.is_overflow_plausible(2_000, 0, None));
        assert!(rules.is_overflow_plausible(5_000, 0, None));
        assert!(rules.is_overflow_plausible(2_000, 0, Some(4_096 - 100)));
        assert!(!rules.is_overflow_plausible(2_000, 0, Some(128_000)));
        assert!(rules.is_overflow_plausible(2_000, 126_000, Some(128_000)));
        assert_eq!(rules.window_or_least(None), 8192);
        assert_eq!(rules.window_or_least(Some(4096)), 4096);
    }

    #[test]
    fn output_limit_may_cause_only_an_overflow_that_names_it() {
        let rules = ContextWindowRules::shipped().expect("valid rules");
        let may = |message: &str, max_output| {
            let body = serde_json::json!({"error": {"message": message}}).to_string();
            rules.may_be_output_limit(&body, max_output)
        };
        let message = "Please reduce the length of the messages or completion.";
        assert!(may(message, Some(24_000)));
        assert!(!may(message, Some(2_048)) && !may(message, None));
        assert!(!may("Please reduce the length of the messages.", Some(24_000)));
    }

    #[test]
    fn stated_window_is_found_in_vendor_messages() {
        let rules = ContextWindowRules::shipped().expect("valid rules");
        for (message, window) in [
            (
                "This model's maximum context length is 8192 tokens. However, your request has 8578 input tokens.",
                Some(8192),
            ),
            ("the request exceeds the available context size (4096 tokens)", Some(4096)),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("prompt token count of 70000 exceeds the limit of 64000", Some(64_000)),
            (
                "The decoder prompt (length 9000) is longer than the maximum model length of 8,192.",
                Some(8192),
            ),
            ("Input is too long for requested model.", None),
        ] {
            let body = serde_json::json!({"error": {"message": message}}).to_string();
            assert_eq!(rules.stated_window(&body), window, "{message}");
        }
    }
}
