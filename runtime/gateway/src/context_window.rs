//! Decides whether a conversation exceeds its context window. Thresholds are in
//! `configs/context-window.toml`.

use proctor_types::{Fault, Layer, ShippedTable};
use serde::Deserialize;

/// Rules for deciding whether to believe a reported overflow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextWindowRules {
    tokenizer_error: f64,
    least_window: u64,
}

impl ContextWindowRules {
    /// Returns the built-in rules.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<ContextWindowRules> = ShippedTable::new(
            "context-window.toml",
            include_str!("../../../configs/context-window.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(Layer::Model, what))
    }

    /// Whether the conversation exceeds the window even if the endpoint reports no overflow.
    /// `counted` is the number of tokens that the endpoint counted, and `estimated` is our estimate
    /// of the tokens added since.
    pub fn is_overflow_certain(&self, counted: u64, estimated: u64, window: u64) -> bool {
        counted as f64 + estimated as f64 / self.tokenizer_error >= window as f64
    }

    /// Whether an overflow that the endpoint reports is plausible for a request that we estimate at
    /// `estimated` tokens, plus `output` tokens for the response.
    pub fn is_overflow_plausible(&self, estimated: u64, output: u64, window: Option<u64>) -> bool {
        let window = window.unwrap_or(self.least_window);
        estimated as f64 * self.tokenizer_error + output as f64 >= window as f64
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
    }
}
