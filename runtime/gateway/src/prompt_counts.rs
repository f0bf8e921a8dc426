//! The tokens that the endpoint counts for a trial's prompts.
//!
//! A server with a small context window may silently drop the oldest messages, such as the task.
//! The conversation then grows, but the server's count does not. Some endpoints count only the
//! tokens that are not in their cache. Such a count also falls, but repeating the same request
//! gives a different count.
//!
//! The count also falls if the server drops the tools in the middle of a conversation. Some chat
//! templates contain the tools only if the last message is the user's.

use proctor_types::RequestClass;

use crate::{
    TrialGateway,
    attempt_failure::AttemptFailure,
    checks::{DroppedToolsCheck, EndpointChecks, TruncatedPromptCheck},
    codec::neutral::{CollectedResponse, Item, Request},
    fences::text_after_reasoning,
    outgoing_request::OutgoingRequest,
    responder::ResponseNames,
    send::AttemptResult,
    tokens, usage,
};

/// Bytes per token of ordinary text.
const BYTES_PER_TOKEN: f64 = 4.0;

/// A prompt is counted locally only if it has more bytes than this per token that the endpoint
/// counted, because parsing a long conversation takes many milliseconds.
const SUSPICIOUS_BYTES_PER_TOKEN: f64 = 5.0;

/// A prompt is counted locally again only if its bytes per token exceed those of the last prompt
/// that was found complete by this factor. A conversation of many short calls has many bytes per
/// token, so otherwise each of its prompts would be counted.
const RECOUNT_FACTOR: f64 = 1.1;

/// What the gateway has learned from the endpoint's token counts for a trial's prompts.
#[derive(Debug, Default)]
pub(crate) struct PromptCounts {
    /// The counts for the requests that got a response, in order.
    counts: Vec<PromptCount>,
    /// The count for the last request that got a response with a call.
    last_with_call: Option<PromptCount>,
    /// The count for the current request, if it is in doubt.
    doubted: Option<u64>,
    /// Whether the endpoint counted a repeated request differently. If so, its counts do not cover
    /// whole prompts.
    varies: bool,
    /// Bytes per token of a prompt that the local count showed to be complete.
    complete_bytes_per_token: f64,
    /// Whether a response contained reasoning. Many chat templates drop the reasoning of earlier
    /// turns, so that the count falls.
    has_reasoned: bool,
}

/// The tokens that an endpoint counted for one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct PromptCount {
    pub tokens: u64,
    pub request_bytes: usize,
    /// The model and the provider that counted. Providers behind a router count differently.
    pub server: (Option<String>, Option<String>),
}

impl PromptCount {
    /// Returns the count that a response reports, if it reports one.
    pub(crate) fn new(
        whole: &CollectedResponse,
        names: &ResponseNames,
        request_bytes: usize,
    ) -> Option<Self> {
        let tokens = whole.usage?.input;
        let responder = names.responder.clone().unwrap_or_default();
        Some(Self { tokens, request_bytes, server: (responder.model, responder.provider) })
    }

    pub(crate) fn bytes_per_token(&self) -> f64 {
        self.request_bytes as f64 / self.tokens.max(1) as f64
    }
}

impl PromptCounts {
    fn add(&mut self, whole: &CollectedResponse, count: PromptCount) {
        self.has_reasoned |= has_reasoning(whole);
        if whole.calls().next().is_some() {
            self.last_with_call = Some(count.clone());
        }
        self.counts.push(count);
    }

    /// Whether no response in this trial has reported a count.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the count for the last request that got a response.
    fn last(&self) -> Option<&PromptCount> {
        self.counts.last()
    }

    /// Whether the count has fallen although the conversation has grown by `least_growth`. The
    /// conversation may have grown over several requests.
    fn has_fallen(&self, check: &TruncatedPromptCheck, count: &PromptCount) -> bool {
        let is_shorter = |earlier: &PromptCount| {
            count.request_bytes >= earlier.request_bytes + check.least_growth
        };
        let Some(at) = self.counts.iter().rposition(is_shorter) else { return false };
        let earlier = &self.counts[at];
        // An endpoint that excludes cached tokens counts only the part since the last request.
        let is_comparable = at + 1 == self.counts.len() || self.exceeds_new_part(check, count);
        !self.has_reasoned
            && is_comparable
            && earlier.server == count.server
            && count.tokens < earlier.tokens
    }

    /// Returns how many tokens are missing from a count that has fallen since the last response with
    /// a call although the conversation has grown.
    fn missing_since_call(&self, count: &PromptCount) -> Option<f64> {
        let last = self.last_with_call.as_ref().filter(|last| {
            last.server == count.server
                && count.tokens < last.tokens
                && count.request_bytes > last.request_bytes
        })?;
        let new_bytes = (count.request_bytes - last.request_bytes) as f64;
        let expected = last.tokens as f64 + new_bytes / last.bytes_per_token();
        (!self.has_reasoned).then_some(expected - count.tokens as f64)
    }

    /// Estimates the tokens of the part of the conversation that is new since the last response. An
    /// endpoint that excludes cached tokens counts only this part. Returns `None` before the first
    /// response.
    fn new_part(&self, count: &PromptCount) -> Option<f64> {
        let new_bytes = count.request_bytes.saturating_sub(self.last()?.request_bytes);
        Some(new_bytes as f64 / BYTES_PER_TOKEN)
    }

    /// Whether the count is too large to cover only the new part.
    fn exceeds_new_part(&self, check: &TruncatedPromptCheck, count: &PromptCount) -> bool {
        let new_part = self.new_part(count);
        new_part.is_some_and(|tokens| count.tokens as f64 > tokens * check.new_part_factor)
    }

    /// Whether the count does not fit the new part alone: it is too large, or too small to cover
    /// even this part.
    fn differs_from_new_part(&self, check: &TruncatedPromptCheck, count: &PromptCount) -> bool {
        let new_part = self.new_part(count);
        let is_less = |tokens: f64| (count.tokens as f64) < tokens * check.new_part_share;
        self.exceeds_new_part(check, count) || new_part.is_some_and(is_less)
    }

    /// Whether the count has neither grown nor fallen since the last request although the
    /// conversation has grown, and the count does not fit the new part alone.
    pub(crate) fn is_stalled(&self, check: &TruncatedPromptCheck, count: &PromptCount) -> bool {
        let has_stalled = self.last().is_some_and(|last| {
            let new_bytes = count.request_bytes.saturating_sub(last.request_bytes);
            let growth = count.tokens.saturating_sub(last.tokens) as f64;
            let most = new_bytes as f64 / BYTES_PER_TOKEN * check.stalled_share;
            // If the chat template drops reasoning, the count may grow little by chance.
            let is_equal = growth == 0.0 || !self.has_reasoned && growth <= most;
            // A count that falls is a truncated prompt.
            last.server == count.server
                && count.tokens >= last.tokens
                && count.tokens >= check.least_told
                && new_bytes >= check.least_growth
                && is_equal
        });
        has_stalled && self.differs_from_new_part(check, count)
    }

    /// Whether a prompt has so many bytes per counted token that it must be counted locally.
    fn needs_local_count(&self, check: &TruncatedPromptCheck, count: &PromptCount) -> bool {
        let limit = SUSPICIOUS_BYTES_PER_TOKEN.max(self.complete_bytes_per_token * RECOUNT_FACTOR);
        count.bytes_per_token() > limit && self.differs_from_new_part(check, count)
    }

    /// Returns whether a count is still in doubt, given the count of an earlier attempt for the same
    /// request.
    fn confirm(&mut self, check: &TruncatedPromptCheck, is_suspicious: bool, tokens: u64) -> bool {
        self.varies |= self.doubted.take().is_some_and(|before| {
            before.abs_diff(tokens) as f64 > before.max(tokens) as f64 * check.noise
        });
        let is_confirmed = is_suspicious && !self.varies;
        if is_confirmed {
            self.doubted = Some(tokens);
        }
        is_confirmed
    }

    /// Notes that the current request got a response, with this count. The next request is another
    /// one, so its count may differ.
    fn end_request(&mut self, whole: &CollectedResponse, count: Option<PromptCount>) {
        self.doubted = None;
        if let Some(count) = count {
            self.add(whole, count);
        }
    }
}

fn has_reasoning(whole: &CollectedResponse) -> bool {
    let is_reasoning = |item: &Item| match item {
        Item::Reasoning(_) => true,
        Item::Text(text) => text_after_reasoning(text).is_some(),
        Item::Refusal(_) | Item::Call(_) => false,
    };
    whole.usage.is_some_and(|usage| usage.reasoning > 0) || whole.items.iter().any(is_reasoning)
}

impl TrialGateway {
    /// Notes the tokens that the endpoint counted for an answered request.
    pub(crate) fn note_prompt_count(&self, request: &OutgoingRequest, result: &AttemptResult) {
        if request.class != RequestClass::Main || request.is_grace {
            return;
        }
        let (whole, bytes) = (&result.response, request.body.len());
        let count = PromptCount::new(whole, &result.names, bytes);
        if let Some(count) = &count {
            // Limit the count, because some routers add up the prompts of several requests. A token
            // has at least one byte.
            let tokens = count.tokens.min(bytes as u64);
            self.route().halts.note_prompt(&self.route().model, tokens);
        }
        self.prompt_counts().end_request(whole, count);
    }

    /// If the endpoint's count shows that it dropped part of the conversation or the tools, returns
    /// why the request must be repeated.
    pub(crate) async fn find_dropped_prompt_part(
        &self,
        checks: &EndpointChecks,
        request: &OutgoingRequest,
        result: &AttemptResult,
    ) -> Option<AttemptFailure> {
        if !request.continues {
            return None;
        }
        let check = &checks.cut;
        let bytes = request.body.len();
        let count = PromptCount::new(&result.response, &result.names, bytes)?;
        let counted = count.tokens;
        let (has_fallen, is_stalled, needs_local_count, missing) = {
            let counts = self.prompt_counts();
            let missing = counts.missing_since_call(&count);
            (
                counts.has_fallen(check, &count),
                counts.is_stalled(check, &count),
                counts.needs_local_count(check, &count),
                missing.filter(|_| counts.exceeds_new_part(check, &count)),
            )
        };
        let is_counted = counted >= check.least_told;
        let has_call = result.response.calls().next().is_some();
        let may_lack_tools = is_counted && request.offers_tools && !has_call;
        let lacks_tools = match missing.filter(|_| may_lack_tools) {
            Some(missing) => self.are_tools_missing(&checks.dropped, request, missing).await,
            None => false,
        };
        let mut is_suspicious = lacks_tools;
        if is_counted && !is_suspicious && (has_fallen || needs_local_count) {
            // Another server of the endpoint may have a tokenizer that counts fewer tokens, so a
            // count that has fallen must also be less than our own.
            let (least, share) = match has_fallen {
                true => (0, check.fallen_share),
                false => (check.least_tokens, check.share),
            };
            let ours = self.count_locally(request, tokens::count_visible).await;
            is_suspicious = ours >= least && (counted as f64) < ours as f64 * share;
            if !is_suspicious {
                self.prompt_counts().complete_bytes_per_token = count.bytes_per_token();
            }
        }
        let is_confirmed = self.prompt_counts().confirm(check, is_suspicious, counted);
        is_confirmed.then(|| {
            let (what, hint) = match (lacks_tools, is_stalled) {
                (true, _) => ("dropped the tools of the request", &checks.dropped.hint),
                (false, true) => ("dropped a part of the prompt", &check.results_hint),
                (false, false) => ("truncated the prompt", &check.hint),
            };
            let why = format!(
                "the endpoint {what}: it counted {counted} tokens for a conversation of {bytes} bytes"
            );
            AttemptFailure {
                restarts_trial: true,
                ..AttemptFailure::corrupted_response(why, hint)
            }
        })
    }

    /// Whether the number of missing tokens matches our own count of the request's tools.
    async fn are_tools_missing(
        &self,
        check: &DroppedToolsCheck,
        request: &OutgoingRequest,
        missing: f64,
    ) -> bool {
        let count = |request: &Request| tokens::count_tools(&request.tools);
        check.matches_schemas(missing, self.count_locally(request, count).await)
    }

    /// Counts a request's tokens off the async threads, because parsing a long conversation takes
    /// many milliseconds. Returns 0 if the request cannot be parsed.
    async fn count_locally(&self, request: &OutgoingRequest, count: fn(&Request) -> u64) -> u64 {
        let (api, body) = (self.route().model.api, request.body.clone());
        let counting = tokio::task::spawn_blocking(move || {
            usage::parse_request(api, &body).map(|request| count(&request))
        });
        counting.await.ok().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::neutral::{Delta, Reasoning};

    fn check() -> &'static TruncatedPromptCheck {
        &EndpointChecks::shipped().expect("a valid table").cut
    }

    fn count(tokens: u64, request_bytes: usize) -> PromptCount {
        PromptCount { tokens, request_bytes, ..PromptCount::default() }
    }

    fn after(tokens: u64, request_bytes: usize) -> PromptCounts {
        let mut counts = PromptCounts::default();
        let whole = CollectedResponse::from_deltas(vec![Delta::Text("x".into())]);
        counts.add(&whole, count(tokens, request_bytes));
        counts
    }

    #[test]
    fn count_that_falls_while_the_conversation_grows_is_suspicious() {
        let counts = after(3436, 13_859);
        assert!(counts.has_fallen(check(), &count(3255, 22_466)));
        assert!(!counts.has_fallen(check(), &count(3500, 22_466)));
        assert!(!counts.has_fallen(check(), &count(3255, 14_000)), "the conversation hardly grew");
        assert!(
            !PromptCounts::default().has_fallen(check(), &count(10, 99_999)),
            "no response yet"
        );
        // The conversation grows by little with each request.
        let mut counts = after(506, 2194);
        let whole = CollectedResponse::default();
        counts.add(&whole, count(680, 3806));
        assert!(!counts.has_fallen(check(), &count(391, 4100)));
        assert!(counts.has_fallen(check(), &count(391, 4229)));
        assert!(!counts.has_fallen(check(), &count(520, 4229)), "it is more than for the first");
        assert!(!counts.has_fallen(check(), &count(110, 4229)), "the count of the new part alone");
        let counts = after(3436, 13_859);
        // Another provider of the router counts differently.
        let server = (None, Some("B".to_owned()));
        let of_another = PromptCount { server, ..count(3255, 22_466) };
        assert!(!counts.has_fallen(check(), &of_another));
        // The count may fall because the chat template drops the reasoning of earlier turns.
        let mut counts = PromptCounts::default();
        let thought = Reasoning { text: "Let me think.".into(), signature: None };
        let whole = CollectedResponse {
            items: vec![Item::Reasoning(thought)],
            ..CollectedResponse::default()
        };
        counts.add(&whole, count(3436, 13_859));
        assert!(!counts.has_fallen(check(), &count(3255, 22_466)));
    }

    #[test]
    fn count_that_falls_by_the_schemas_after_a_call_shows_dropped_tools() {
        let dropped = &EndpointChecks::shipped().expect("a valid table").dropped;
        let call = Delta::Call { index: 0, id: "a".into(), name: "shell".into() };
        let mut counts = PromptCounts::default();
        counts.add(&CollectedResponse::from_deltas(vec![call]), count(1500, 6000));
        let is_found = |counts: &PromptCounts, counted: PromptCount| {
            let missing = counts.missing_since_call(&counted);
            missing.is_some_and(|missing| dropped.matches_schemas(missing, 800))
        };
        // 200 tokens are new, and 900 are missing.
        assert!(is_found(&counts, count(800, 6800)));
        assert!(!is_found(&counts, count(1700, 6800)), "the prompt is complete");
        assert!(!is_found(&counts, count(1400, 6800)), "less than the schemas is missing");
        assert!(!is_found(&counts, count(300, 9000)), "more than the schemas is missing");
        assert!(!is_found(&after(1500, 6000), count(800, 6800)), "no call yet");
        let missing = counts.missing_since_call(&count(1400, 6800)).unwrap_or_default();
        assert!(!dropped.matches_schemas(missing, 150), "short schemas prove nothing");
        // The count may fall because the chat template drops the reasoning of earlier turns.
        counts.has_reasoned = true;
        assert!(!is_found(&counts, count(800, 6800)));
    }

    #[test]
    fn count_of_only_the_new_messages_is_not_a_truncated_prompt() {
        let counts = after(3255, 31_074);
        assert!(counts.exceeds_new_part(check(), &count(3256, 39_684)));
        assert!(!counts.exceeds_new_part(check(), &count(2150, 39_684)));
    }

    #[test]
    fn count_that_does_not_grow_with_the_results_is_stalled() {
        let counts = after(1300, 6000);
        for (tokens, bytes, is_stalled) in [
            (1300, 26_000, true),
            (1310, 46_000, true),
            (1300, 6500, false),
            (1900, 26_000, false),
            // The count of the new part alone.
            (1300, 11_200, false),
        ] {
            let count = count(tokens, bytes);
            assert_eq!(counts.is_stalled(check(), &count), is_stalled, "{tokens} of {bytes}");
        }
        assert!(counts.needs_local_count(check(), &count(1300, 26_000)), "it lacks the new part");
        let long = after(100_000, 400_000);
        assert!(!long.is_stalled(check(), &count(100_700, 402_800)), "it grew by less than 1%");
        assert!(long.is_stalled(check(), &count(100_010, 402_800)));
        let tiny = after(100, 6000);
        assert!(!tiny.is_stalled(check(), &count(100, 26_000)), "the number means nothing");
    }

    #[test]
    fn prompt_similar_to_a_complete_one_is_not_recounted() {
        let mut counts = after(10_000, 60_000);
        let sparse = count(10_500, 64_000);
        assert!(counts.needs_local_count(check(), &sparse));
        counts.complete_bytes_per_token = sparse.bytes_per_token();
        assert!(!counts.needs_local_count(check(), &count(11_000, 68_000)));
        assert!(counts.needs_local_count(check(), &count(10_500, 75_000)), "a part was dropped");
    }

    #[test]
    fn count_is_confirmed_only_by_an_equal_count_of_the_same_request() {
        let mut counts = PromptCounts::default();
        for _ in 0..3 {
            assert!(counts.confirm(check(), true, 3255));
        }
        // Another request. The response to the previous request has no count.
        counts.end_request(&CollectedResponse::default(), None);
        assert!(counts.confirm(check(), true, 4096));
        // The endpoint counts only uncached tokens: the second time, almost none.
        assert!(!counts.confirm(check(), true, 300));
        counts.end_request(&CollectedResponse::default(), Some(count(300, 9000)));
        assert!(!counts.confirm(check(), true, 300), "its counts are no longer used");
    }
}
