//! Detects an endpoint that added another conversation to a trial's first prompt.
//!
//! Some proxies keep sessions, and find them by the first message. The first request of a trial
//! then continues the session of another trial of the same task, and the model sees that trial's
//! work.

use crate::{checks::AddedPromptCheck, prompt_counts::PromptCount};

/// The endpoint's counts for the first requests of a model's trials.
#[derive(Debug, Default)]
pub(crate) struct FirstPrompts(Vec<PromptCount>);

impl FirstPrompts {
    /// Adds the count for the first request of a trial. Returns how many tokens the endpoint added
    /// to the prompt, if it counted far more than for another trial's first request of about the
    /// same length. An endpoint that adds the same system prompt to all requests is not reported,
    /// because both counts contain this prompt.
    pub(crate) fn add(&mut self, check: &AddedPromptCheck, count: &PromptCount) -> Option<u64> {
        // Such a count excludes cached tokens, or the request contains images.
        if count.bytes_per_token() > check.most_bytes_per_token {
            return None;
        }
        let is_similar = |other: &&PromptCount| {
            let difference = other.request_bytes.abs_diff(count.request_bytes);
            other.server == count.server
                && difference as f64 <= count.request_bytes as f64 * check.similar
        };
        let least = self.0.iter().filter(is_similar).map(|other| other.tokens).min();
        self.0.push(count.clone());
        let least = least?;
        let added = count.tokens.saturating_sub(least);
        let is_added = added >= check.least
            && count.tokens as f64 > least as f64 * check.factor
            && count.bytes_per_token() < check.least_bytes_per_token;
        is_added.then_some(added)
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstPrompts, PromptCount};
    use crate::checks::EndpointChecks;

    fn added(counts: &[(u64, usize)]) -> Vec<bool> {
        let check = &EndpointChecks::shipped().expect("a valid table").added_prompt;
        let mut prompts = FirstPrompts::default();
        let add = |(tokens, request_bytes): &(u64, usize)| {
            let count = PromptCount {
                tokens: *tokens,
                request_bytes: *request_bytes,
                ..PromptCount::default()
            };
            prompts.add(check, &count).is_some()
        };
        counts.iter().map(add).collect()
    }

    #[test]
    fn prompt_far_larger_than_in_other_trials_is_detected() {
        assert_eq!(added(&[(1100, 5000), (4800, 5000)]), [false, true]);
        assert_eq!(added(&[(1150, 5200), (9, 1100), (4800, 5000)]), [false, false, true]);
        // The first trial had the larger prompt, which proves nothing.
        assert_eq!(added(&[(4800, 5000), (1100, 5000), (4800, 5000)]), [false, false, true]);
    }

    #[test]
    fn normal_prompts_are_not_reported_as_added() {
        for counts in [
            // Other tasks and arms have longer prompts.
            [(1100, 5000), (4800, 21_000)],
            // The endpoint adds the same system prompt each time.
            [(11_100, 5000), (12_500, 10_000)],
            [(300, 1500), (1100, 1500)],
            // The endpoint sometimes leaves out cached tokens, or the language differs.
            [(2600, 20_000), (5714, 20_000)],
            // The endpoint does not count cached tokens.
            [(12, 5000), (4800, 5000)],
        ] {
            assert_eq!(added(&counts), [false, false], "{counts:?}");
        }
    }

    #[test]
    fn servers_are_compared_only_with_themselves() {
        let check = &EndpointChecks::shipped().expect("a valid table").added_prompt;
        let mut prompts = FirstPrompts::default();
        for (tokens, provider) in [(1100, "A"), (4800, "B")] {
            let server = (None, Some(provider.to_owned()));
            let count = PromptCount { tokens, request_bytes: 5000, server };
            assert_eq!(prompts.add(check, &count), None, "{provider}");
        }
    }
}
