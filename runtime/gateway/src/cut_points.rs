//! Where an endpoint cuts off the responses of a trial.
//!
//! A server may have an output limit or a context window that it does not report. A single
//! response that is cut off proves nothing. Two that end at the same number of tokens show the
//! limit.

use proctor_types::ToolCall;
use serde::de::IgnoredAny;

/// The token counts at which the trial's last responses were cut off.
#[derive(Debug, Default)]
pub(crate) struct CutPoints {
    /// Output tokens of the last response whose call was cut off.
    output: Option<u64>,
    /// Tokens of the prompt and the output, for the last response that ended for length.
    total: Option<u64>,
}

impl CutPoints {
    /// Notes a response whose call was cut off after these output tokens. Returns whether the
    /// previous such response had as many.
    pub(crate) fn repeats_output(&mut self, tokens: u64) -> bool {
        self.output.replace(tokens) == Some(tokens)
    }

    /// Notes a response that ended for length, with these tokens of the prompt and the output.
    /// Returns whether the previous such response had as many.
    pub(crate) fn repeats_total(&mut self, tokens: u64) -> bool {
        self.total.replace(tokens) == Some(tokens)
    }
}

/// Whether the arguments of a call end in the middle of their JSON.
pub(crate) fn is_cut_off(call: &ToolCall) -> bool {
    let arguments = call.arguments.trim();
    let is_incomplete =
        || serde_json::from_str::<IgnoredAny>(arguments).is_err_and(|error| error.is_eof());
    !arguments.is_empty() && is_incomplete()
}

#[cfg(test)]
mod tests {
    use proctor_types::ToolCall;

    use super::{CutPoints, is_cut_off};

    #[test]
    fn equal_output_counts_reveal_an_output_limit() {
        let mut cuts = CutPoints::default();
        let repeats = [900, 1024, 1024, 1000, 1024].map(|tokens| cuts.repeats_output(tokens));
        assert_eq!(repeats, [false, false, true, false, false]);
        assert!(!cuts.repeats_total(1024), "the total is another limit");
        assert!(cuts.repeats_total(1024));
    }

    #[test]
    fn arguments_that_end_too_early_are_cut_off() {
        let check = |arguments: &str| {
            is_cut_off(&ToolCall { id: "a".into(), name: "f".into(), arguments: arguments.into() })
        };
        for arguments in ["{\"command\": \"cat > a", "{\"command\": \"ls\"", "{"] {
            assert!(check(arguments), "{arguments}");
        }
        for arguments in ["", "{}", "{\"command\": \"ls\"}", "{command: ls", "ls -la", "{}}"] {
            assert!(!check(arguments), "{arguments}");
        }
    }
}
