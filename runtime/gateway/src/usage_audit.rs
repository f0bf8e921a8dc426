//! Compares the tokens that an endpoint reports for a trial with our own counts.
//!
//! Nothing is counted while the trial runs: the gateway only adds up the lengths of requests and
//! responses. It counts two requests once the trial ends at a limit on tokens or cost.

use bytes::Bytes;
use proctor_types::{Api, BudgetKind, Fault, FaultCause, FaultLayer, NativeTurn, Usage};

use crate::{
    TrialGateway,
    checks::{EndpointChecks, ReportedUsageCheck},
    codec::neutral::CollectedResponse,
    tokens, usage,
};

/// The reported usage of a trial's responses in the main conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageAudit {
    first: Option<AuditedRequest>,
    last: Option<AuditedRequest>,
    responses: u64,
    input_tokens: u64,
    cached_tokens: u64,
    request_bytes: u64,
    /// Output tokens that the responses cannot contain.
    excess_output: u64,
    /// Whether a response has shown that the endpoint's counts exclude thoughts.
    excludes_thoughts: bool,
}

/// A request, and the tokens that the endpoint counted for it.
#[derive(Debug, Clone)]
struct AuditedRequest {
    body: Bytes,
    tokens: u64,
    cached_tokens: u64,
}

/// Our own estimate of a trial's input, for the requests that the endpoint counted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct InputEstimate {
    last: f64,
    total: f64,
}

/// How the endpoint's counts differ from our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Miscount {
    CachedTwice,
    Input,
    Output,
}

impl UsageAudit {
    /// Adds a response to the request `body`. `usage` is the endpoint's own count, and
    /// `excess_output` the part of its output that the response cannot contain.
    pub(crate) fn add(&mut self, body: &Bytes, usage: &Usage, excess_output: u64) {
        let request =
            AuditedRequest { body: body.clone(), tokens: usage.input, cached_tokens: usage.cached };
        self.first.get_or_insert_with(|| request.clone());
        self.last = Some(request);
        self.responses += 1;
        self.input_tokens += usage.input;
        self.cached_tokens += usage.cached;
        self.request_bytes += body.len() as u64;
        self.excess_output += excess_output;
    }

    /// Whether the endpoint's output counts exclude thoughts, according to this response and the
    /// earlier ones. The Gemini API counts thoughts separately, and some proxies omit that count.
    /// Others include thoughts in the output. A signed part shows that the model thought. If such a
    /// response has no more tokens than visible bytes, the thoughts are not in its count.
    pub(crate) fn excludes_thoughts(
        &mut self,
        response: &CollectedResponse,
        reported: &Usage,
    ) -> bool {
        let is_signed = |turn: &NativeTurn| {
            turn.api == Api::Gemini
                && turn.items.iter().any(|part| part["thoughtSignature"].is_string())
        };
        self.excludes_thoughts |= response.native_turn.as_ref().is_some_and(is_signed)
            && reported.output <= usage::count_output_bytes(response, false);
        self.excludes_thoughts
    }

    /// Estimates the input from our own counts of the first and the last request. The endpoint's
    /// tokenizer may count more than ours. The first request shows how much more, because no part of
    /// it can be counted twice.
    fn estimate_input(
        &self,
        check: &ReportedUsageCheck,
        (first, last): (u64, u64),
    ) -> Option<InputEstimate> {
        let (first_request, last_request) = (self.first.as_ref()?, self.last.as_ref()?);
        if first == 0 || last == 0 {
            return None;
        }
        let rate = (first_request.tokens as f64 / first as f64).clamp(1.0, check.tokenizer_factor);
        let last_tokens = last as f64 * rate;
        let per_byte = last_tokens / last_request.body.len().max(1) as f64;
        Some(InputEstimate { last: last_tokens, total: self.request_bytes as f64 * per_byte })
    }

    /// Returns how the endpoint's count of the input exceeds our estimate, if it does.
    fn input_miscount(
        &self,
        check: &ReportedUsageCheck,
        estimate: &InputEstimate,
    ) -> Option<Miscount> {
        let last = self.last.as_ref()?;
        let exceeds = |reported: u64, expected: f64, requests: u64| {
            reported as f64 > expected * check.factor + (check.overhead * requests) as f64
        };
        if !exceeds(last.tokens, estimate.last, 1)
            && !exceeds(self.input_tokens, estimate.total, self.responses)
        {
            return None;
        }
        let uncached = last.tokens.saturating_sub(last.cached_tokens) as f64;
        let is_twice = last.cached_tokens > 0
            && (uncached - estimate.last).abs() <= estimate.last * check.cached_tolerance;
        Some(if is_twice { Miscount::CachedTwice } else { Miscount::Input })
    }
}

impl EndpointChecks {
    /// Whether all reasoning in a reported output count is known: the endpoint reports its
    /// reasoning, or the request turns thinking off. Otherwise, the endpoint may have hidden any
    /// number of tokens.
    pub(crate) fn knows_reasoning(&self, request: &[u8], reported: &Usage) -> bool {
        reported.classes.reasoning.is_some() || self.thought_answer.disables_thinking(request)
    }
}

impl ReportedUsageCheck {
    /// Returns how many of the reported output tokens the response cannot contain. A token has at
    /// least one byte. Call this only if all reasoning in the count is known.
    pub(crate) fn excess_output(&self, response: &CollectedResponse, reported: &Usage) -> u64 {
        if reported.estimated {
            return 0;
        }
        let visible = reported.output.saturating_sub(reported.reasoning);
        let most = usage::count_output_bytes(response, true) + self.output_overhead;
        if visible <= most {
            return 0;
        }
        // The turn may contain items that only its own format has.
        let items = response.native_turn.iter().flat_map(|turn| &turn.items);
        let native: usize = items.map(|item| item.to_string().len()).sum();
        visible.saturating_sub(most.max(native as u64 + self.output_overhead))
    }
}

impl TrialGateway {
    /// Returns a fault if the trial reached a limit on tokens or cost only by the endpoint's counts,
    /// which exceed our own by more than the tokenizer's error. The fault halts the arm, because
    /// every trial would end this way.
    pub(crate) async fn miscount_fault(&self, kind: BudgetKind) -> Option<Fault> {
        let is_counted = matches!(
            kind,
            BudgetKind::InputTokens
                | BudgetKind::OutputTokens
                | BudgetKind::TotalTokens
                | BudgetKind::UncachedInputTokens
                | BudgetKind::Cost
        );
        if !is_counted {
            return None;
        }
        let checks = match EndpointChecks::shipped() {
            Ok(checks) => checks,
            Err(fault) => return Some(fault),
        };
        let check = &checks.reported_usage;
        let audit = self.usage_audit().clone();
        let estimate = audit.estimate_input(check, self.count_audited_requests(&audit).await);
        let miscount = estimate.and_then(|estimate| audit.input_miscount(check, &estimate));
        let mut delivered = self.meter().spending().delivered();
        let excess_input = match (miscount, estimate) {
            (Some(_), Some(estimate)) => audit.input_tokens.saturating_sub(estimate.total as u64),
            _ => 0,
        };
        if excess_input == 0 && audit.excess_output == 0 {
            return None;
        }
        delivered.input_tokens = delivered.input_tokens.saturating_sub(excess_input);
        delivered.cached_tokens = delivered.cached_tokens.min(delivered.input_tokens);
        delivered.output_tokens = delivered.output_tokens.saturating_sub(audit.excess_output);
        if let Some(price) = &self.route().price {
            let usage = Usage {
                input: delivered.input_tokens,
                output: delivered.output_tokens,
                cached: delivered.cached_tokens,
                ..Usage::default()
            };
            let cost_usd = price.estimate_cost(&usage, delivered.steps);
            delivered.cost_usd = delivered.cost_usd.min(cost_usd);
        }
        if self.meter().reaches_limit(kind, &delivered) {
            return None;
        }
        let model = &self.route().model;
        let (base, name) = (self.route().endpoint.base_url(), &model.name);
        let counted = audit.input_tokens;
        let ours = estimate.map_or(0, |estimate| estimate.total as u64);
        let what = match miscount.unwrap_or(Miscount::Output) {
            Miscount::CachedTwice => format!(
                "the endpoint counts cached input twice: {counted} tokens for {} requests with about {ours}",
                audit.responses
            ),
            Miscount::Input => format!(
                "the endpoint counts more input than it received: {counted} tokens for {} requests with about {ours}",
                audit.responses
            ),
            Miscount::Output => format!(
                "the endpoint counts {} more output tokens than its {} responses can contain",
                audit.excess_output, audit.responses
            ),
        };
        let what =
            format!("{base}: model `{name}`: {what}; only these counts reach the {kind} limit");
        let fault = Fault::new(FaultLayer::Model, what).hint(check.hint.as_str());
        // A resumed try would still contain these counts, so the trial must start again.
        let fault = fault.cause(FaultCause::Invalid);
        self.route().halts.halt_model(model, &fault);
        Some(fault)
    }

    /// Whether the endpoint and Proctor count about the same tokens for the first request. If not,
    /// the endpoint's counts mean something else and prove nothing.
    pub(crate) async fn has_plausible_counts(&self, check: &ReportedUsageCheck) -> bool {
        let audit = self.usage_audit().clone();
        let (ours, _) = self.count_audited_requests(&audit).await;
        let Some(first) = audit.first.filter(|_| ours > 0) else { return false };
        let most = check.tokenizer_factor * check.factor;
        let share = first.tokens as f64 / ours as f64;
        (1.0 / most..=most).contains(&share)
    }

    /// Returns our own counts of the first and the last audited request, or 0 for a request that
    /// cannot be parsed.
    async fn count_audited_requests(&self, audit: &UsageAudit) -> (u64, u64) {
        let api = self.route().model.api;
        let bodies = [&audit.first, &audit.last]
            .map(|request| request.as_ref().map(|request| request.body.clone()));
        // Run this off the async threads, because parsing a long conversation takes many
        // milliseconds.
        let counting = tokio::task::spawn_blocking(move || {
            let [first, last] = bodies.map(|body| body.map_or(0, |body| count_input(api, &body)));
            (first, last)
        });
        counting.await.unwrap_or_default()
    }
}

fn count_input(api: Api, body: &Bytes) -> u64 {
    usage::parse_request(api, body).map_or(0, |request| tokens::count_request(&request))
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, NativeTurn, Usage};
    use serde_json::json;

    use super::{CollectedResponse, EndpointChecks, Miscount, ReportedUsageCheck, UsageAudit};
    use crate::codec::neutral::Delta;

    fn check() -> &'static ReportedUsageCheck {
        &EndpointChecks::shipped().expect("a valid table").reported_usage
    }

    fn reported(input: u64, cached: u64) -> Usage {
        Usage::from_endpoint_report((input, 5), (Some(cached), None), None)
    }

    /// Audits requests of 4,000 to 40,000 bytes, of which each contains the one before. `report`
    /// returns the reported input and cached tokens, given the tokens of a request and of the one
    /// before.
    fn audit(report: impl Fn(u64, u64) -> (u64, u64)) -> Option<Miscount> {
        let (mut audit, mut before) = (UsageAudit::default(), 0);
        for tokens in (1..=10).map(|step| step * 1000) {
            let (input, cached) = report(tokens, before);
            let body = vec![b'x'; tokens as usize * 4].into();
            audit.add(&body, &reported(input, cached), 0);
            before = tokens;
        }
        let estimate = audit.estimate_input(check(), (1000, 10_000)).expect("an estimate");
        audit.input_miscount(check(), &estimate)
    }

    #[test]
    fn counts_beyond_the_tokenizer_error_are_detected() {
        let twice = |tokens: u64, before: u64| (tokens + before, before);
        assert_eq!(audit(twice), Some(Miscount::CachedTwice));
        assert_eq!(audit(|tokens, _| (tokens * 3, 0)), Some(Miscount::Input));
        let sum =
            |tokens: u64, _: u64| ((1..=tokens / 1000).map(|step| step * 1000).sum::<u64>(), 0);
        assert_eq!(audit(sum), Some(Miscount::Input), "each count contains the earlier ones");
        // Honest counts: exact, from a cache, by another tokenizer, and with a system prompt of the
        // endpoint.
        assert_eq!(audit(|tokens, _| (tokens, 0)), None);
        assert_eq!(audit(|tokens, before| (tokens, before)), None);
        assert_eq!(audit(|tokens, before| (tokens * 7 / 5, before * 7 / 5)), None);
        assert_eq!(audit(|tokens, _| (tokens * 3 / 4, 0)), None);
        assert_eq!(audit(|tokens, _| (tokens + 400, 0)), None);
    }

    #[test]
    fn output_is_in_excess_only_if_no_token_can_be_hidden() {
        let checks = EndpointChecks::shipped().expect("a valid table");
        let text = CollectedResponse::from_deltas(vec![Delta::Text("x".repeat(100))]);
        let excess = |output: u64, reasoning: Option<u64>, request: &str| {
            let usage = Usage::from_endpoint_report((10, output), (None, None), reasoning);
            match checks.knows_reasoning(request.as_bytes(), &usage) {
                true => check().excess_output(&text, &usage),
                false => 0,
            }
        };
        let most = 100 + check().output_overhead;
        assert_eq!(excess(most, Some(0), "{}"), 0);
        assert_eq!(excess(most + 7, Some(0), "{}"), 7);
        assert_eq!(excess(most + 7, Some(7), "{}"), 0);
        assert_eq!(excess(9000, None, "{}"), 0, "the endpoint may hide its reasoning");
        for off in [r#"{"thinkingConfig":{"thinkingBudget":0}}"#, r#"{"reasoning_effort":"none"}"#]
        {
            assert_eq!(excess(most + 7, None, off), 7, "{off}");
        }
        let on = r#"{"thinkingConfig":{"thinkingBudget":1024}}"#;
        assert_eq!(excess(9000, None, on), 0);
    }

    #[test]
    fn signed_response_can_show_that_output_counts_exclude_thoughts() {
        // Returns whether the counts exclude thoughts after each response. Each response has 40
        // visible bytes, a signature or not, and these output tokens.
        let audit = |api: Api, responses: &[(bool, u64)]| {
            let mut audit = UsageAudit::default();
            let add = |(is_signed, output): &(bool, u64)| {
                let part = match *is_signed {
                    true => json!({"text": "x", "thoughtSignature": "S"}),
                    false => json!({"text": "x"}),
                };
                let text = Delta::Text("x".repeat(40));
                let mut response = CollectedResponse::from_deltas(vec![text]);
                response.native_turn = Some(NativeTurn { api, items: vec![part] });
                let usage = Usage::from_endpoint_report((10, *output), (None, None), None);
                audit.excludes_thoughts(&response, &usage)
            };
            responses.iter().map(add).collect::<Vec<_>>()
        };
        assert_eq!(audit(Api::Gemini, &[(true, 29), (true, 400)]), [true, true]);
        assert_eq!(audit(Api::Gemini, &[(false, 29), (true, 400)]), [false, false]);
        assert_eq!(audit(Api::Gemini, &[(true, 41), (true, 40)]), [false, true]);
        assert_eq!(audit(Api::Chat, &[(true, 29)]), [false]);
    }
}
