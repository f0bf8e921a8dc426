//! Handles problems with an endpoint that affect more than one request.

use std::time::Duration;

use proctor_types::{BudgetKind, Fault, FaultCause, FaultLayer};
use tokio::time::Instant;

use crate::{
    RequestError, TrialGateway,
    attempt_failure::{AttemptFailure, FailureKind},
    context_window::ContextWindowRules,
    error_text::{error_message, quote_body},
    first_response_gate::AttemptRound,
    halts::RequestOrigin,
    outgoing_request::OutgoingRequest,
    rejections::{self, ErrorSubject, Rejections},
    retry::seconds,
    usage,
};

impl TrialGateway {
    /// Returns a fault if the trial reached its limit because of the endpoint and not the model:
    /// only by lost time, only by the endpoint's token counts, or after responses with anomalies.
    pub async fn limit_fault(&self, kind: BudgetKind) -> Option<Fault> {
        if let Some(fault) = self.lost_time_fault(kind) {
            return Some(fault);
        }
        match self.miscount_fault(kind).await {
            Some(fault) => Some(fault),
            None => self.anomaly_fault().await,
        }
    }

    /// Returns a fault if the trial reached a time limit only because of the endpoint's failures and
    /// silence. In that case, the trial's result says nothing about the model.
    ///
    /// The endpoint counts as down for all trials if it has never responded, or if several trials
    /// ended this way and no trial got a response in the meantime.
    pub fn lost_time_fault(&self, kind: BudgetKind) -> Option<Fault> {
        let (budget, clock) = (self.meter().budget(), &self.meter().clock);
        let (limit, used) = match kind {
            BudgetKind::Wall => (budget.wall_seconds?, clock.wall_time(Duration::MAX)),
            BudgetKind::Working => (budget.working_seconds?, clock.working_time(Duration::MAX)),
            _ => return None,
        };
        let loss = self.lost_time().loss()?;
        let policy = &self.route().policy;
        let longest_silence = seconds(policy.silent_seconds.min(limit * policy.silent_share))
            .max(loss.longest_attempt.mul_f64(policy.silent_factor));
        // The endpoint may have needed a short silence for its response.
        let is_slow_response = loss.dropped <= longest_silence;
        let silence = if is_slow_response { Duration::ZERO } else { loss.dropped };
        if used.saturating_sub(silence) >= seconds(limit) {
            return None;
        }
        let endpoint = &self.route().endpoint;
        let (base, why) = (endpoint.base_url(), endpoint.redact_text(&loss.cause));
        let lost = loss.total.as_secs_f64();
        let what = format!(
            "{base}: the trial reached the {kind} limit of {limit} s only because the endpoint did \
             not respond for {lost:.1} s: {why}"
        );
        let hint = "check that the endpoint is running and not overloaded, then `proctor resume` \
                    the run; if the model is just slow, raise the limit";
        let fault = Fault::new(FaultLayer::Model, what).hint(hint);
        let (model, halts) = (&self.route().model, &self.route().halts);
        if !self.lost_time().current_loss_start().is_some_and(|since| halts.is_down(model, since)) {
            return Some(fault);
        }
        let alike = halts.count_lost_trial(&self.request_origin(false));
        let cause = match halts.has_responded(model) {
            false => FaultCause::Silent,
            true if alike >= self.route().policy.alike_trials => FaultCause::Outage,
            // A single response may take that long. The endpoint counts as down only if several
            // trials in a row got no response.
            true => return Some(fault),
        };
        let fault = fault.cause(cause);
        halts.halt_model(model, &fault);
        Some(fault)
    }

    /// Returns the fault for a request whose attempts all failed. If no other trial got a response
    /// either, the endpoint is down for all of them, and the run halts its requests.
    pub(crate) fn give_up(
        &self,
        round: AttemptRound,
        first_failure_at: Instant,
        failure: &AttemptFailure,
        suffix: &str,
    ) -> Fault {
        let (model, halts) = (&self.route().model, &self.route().halts);
        let endpoint = &self.route().endpoint;
        let (base, number) = (endpoint.base_url(), round.failed_attempts);
        let waited = round.wait_time.as_secs_f64();
        let why = endpoint.redact_text(&failure.reason);
        let attempts = if number == 1 { "attempt" } else { "attempts" };
        let what = format!(
            "{base}: no response after {number} {attempts} and {waited:.0} s of waiting: {why}{suffix}"
        );
        let never = !halts.has_responded(model);
        let foreign = failure.kind == FailureKind::NotAModelApi && never;
        let hint = if let Some(hint) = &failure.hint {
            hint.clone()
        } else if why.contains("certificate") {
            "set SSL_CERT_FILE to the CA certificate of the endpoint".to_owned()
        } else if foreign || failure.kind == FailureKind::Unreachable && never {
            endpoint.address_hint(foreign)
        } else {
            "check that the endpoint is running, then `proctor resume` the run".into()
        };
        let mut fault = Fault::new(FaultLayer::Model, what).hint(hint);
        if failure.restarts_trial {
            return fault.cause(FaultCause::Invalid);
        }
        // A corrupted response affects only one trial: the endpoint does respond.
        if failure.kind != FailureKind::Corrupted && halts.is_down(model, first_failure_at) {
            fault = fault.cause(if never { FaultCause::Silent } else { FaultCause::Outage });
            match failure.kind {
                FailureKind::Unreachable | FailureKind::NotAModelApi if never => {
                    halts.halt_endpoint(model, &fault);
                }
                _ => halts.halt_model(model, &fault),
            }
        }
        fault
    }

    /// Records that the endpoint cannot be used as configured, because of the key or the model.
    pub(crate) fn note_unusable(
        &self,
        status: Option<u16>,
        origin: &RequestOrigin<'_>,
        fault: &Fault,
    ) {
        let (halts, policy) = (&self.route().halts, &self.route().policy);
        halts.halt_for_status(origin.model, status, fault);
        // In the middle of a conversation, a 403 is probably about the text of one request, unless
        // every trial gets the same rejection.
        if status == Some(403) && halts.count_rejection(origin, &fault.what, policy.alike_trials) {
            halts.halt_model(origin.model, fault);
        }
    }

    /// Classifies a rejection: the model caused it, the client must handle it, or every trial would
    /// get it.
    pub(crate) async fn classify_rejection(
        &self,
        status: u16,
        body: String,
        request: &OutgoingRequest,
    ) -> RequestError {
        let origin = self.request_origin(request.offers_tools);
        let (halts, policy) = (&self.route().halts, &self.route().policy);
        let caused_by_model = match self.is_caused_by_model(status, &body, request).await {
            Ok(is) => is,
            Err(fault) => return fault.into(),
        };
        if caused_by_model {
            return RequestError::Rejected { status, body, caused_by_model };
        }
        let subject = rejections::classify_error(status, &body);
        if subject == ErrorSubject::Tools
            && request.offers_tools
            && !halts.supports_tools(origin.model)
        {
            let fault = self.no_tools_fault(status, &body);
            halts.halt_tools(origin.model, &fault);
            return fault.into();
        }
        if halts.count_rejection(&origin, &error_message(&body), policy.alike_trials) {
            let fault = self.rejection_fault(status, &body).cause(FaultCause::Refused);
            halts.halt_model(origin.model, &fault);
            return fault.into();
        }
        RequestError::Rejected { status, body, caused_by_model }
    }

    /// Whether to retry after a rejection. The rejection may come from only one of a router's back
    /// ends, or a filter may have reported a false positive. Retrying does not help if the model
    /// caused a context overflow. But if the error states no window, the requests of other clients
    /// may have filled a window that the server shares among all requests.
    pub(crate) async fn is_worth_retrying(
        &self,
        status: u16,
        body: &str,
        request: &OutgoingRequest,
    ) -> Result<bool, Fault> {
        Ok(match rejections::classify_error(status, body) {
            ErrorSubject::Unknown
            | ErrorSubject::UnknownModel
            | ErrorSubject::ContentFilter
            | ErrorSubject::Proxy => true,
            ErrorSubject::ContextOverflow => {
                ContextWindowRules::shipped()?.stated_window(body).is_none()
                    || !self.is_caused_by_model(status, body, request).await?
            }
            _ => false,
        })
    }

    /// Whether the endpoint has answered a prompt that is longer than the window that an error
    /// states. The error then comes from another of the endpoint's servers.
    fn is_window_disproved(&self, body: &str) -> Result<bool, Fault> {
        let route = self.route();
        let answered = route.halts.largest_prompt(&route.model);
        let window = ContextWindowRules::shipped()?.stated_window(body);
        // If the configuration states the same window, the error does not come from a server with a
        // smaller window.
        Ok(window.is_some_and(|window| {
            window < answered && route.context_window.is_none_or(|known| window < known)
        }))
    }

    /// Whether the model caused a rejection. This is the case if a filter rejected the text, or if
    /// our own count confirms a context overflow.
    async fn is_caused_by_model(
        &self,
        status: u16,
        body: &str,
        request: &OutgoingRequest,
    ) -> Result<bool, Fault> {
        let subject = Rejections::shipped()?.classify(status, body);
        let window = self.route().context_window;
        let rules = ContextWindowRules::shipped()?;
        Ok(match subject {
            ErrorSubject::ContentFilter => true,
            ErrorSubject::ContextOverflow
                if self.is_window_disproved(body)?
                    || rules.may_be_output_limit(body, request.max_output) =>
            {
                false
            }
            ErrorSubject::ContextOverflow => {
                let ours = usage::estimate_input(self.route().model.api, &request.body).await;
                // Don't count the tokens that are reserved for the output, because they are not
                // part of the conversation.
                rules.is_overflow_plausible(ours, 0, window)
            }
            // The error text is not recognized, but the conversation does not fit into the window.
            ErrorSubject::Unknown | ErrorSubject::Proxy if matches!(status, 400 | 413 | 422) => {
                match window {
                    Some(window) => {
                        let ours =
                            usage::estimate_input(self.route().model.api, &request.body).await;
                        rules.is_overflow_certain(0, ours, window)
                    }
                    None => false,
                }
            }
            _ => false,
        })
    }

    /// Returns the fault for a rejection that the model did not cause.
    pub fn rejection_fault(&self, status: u16, body: &str) -> Fault {
        let answers = self.meter().spending().steps;
        let base = self.route().endpoint.base_url();
        let said = self.route().endpoint.redact_text(&quote_body(&error_message(body)));
        let what = match answers {
            0 => format!("{base}: the endpoint rejected the first request with {status}: {said}"),
            1 => format!(
                "{base}: the endpoint rejected a request with {status} after 1 response: {said}"
            ),
            _ => format!(
                "{base}: the endpoint rejected a request with {status} after {answers} responses: \
                 {said}"
            ),
        };
        let subject = rejections::classify_error(status, body);
        let is_overflow = subject == ErrorSubject::ContextOverflow;
        let is_disproved = is_overflow && self.is_window_disproved(body).unwrap_or_default();
        let hint = match (subject, answers) {
            _ if is_disproved => {
                "the endpoint has answered a longer prompt, so one of its servers has a smaller \
                 context window: increase the context window of that server, or exclude the server, \
                 then continue with `proctor resume`"
            }
            (ErrorSubject::ContextOverflow, _) => {
                "the conversation is too short to fill the window: raise the server's context size \
                 (Ollama `num_ctx`, llama.cpp `-c`, vLLM `--max-model-len`), or set the model's \
                 `context_window` if it really is that small"
            }
            (ErrorSubject::Proxy, _) if status == 413 => {
                "a proxy in front of the endpoint limits the request size: raise the limit (nginx: \
                 `client_max_body_size`), then `proctor resume` the run"
            }
            (ErrorSubject::Proxy, _) => {
                "a proxy responded instead of the endpoint: check base_url and the proxy, then \
                 `proctor resume` the run"
            }
            (_, 0) => "fix the model name or parameters in the configuration",
            _ => {
                "find out why the endpoint rejects the request (see `model_attempted` in the \
                trial's record), then `proctor resume` the run"
            }
        };
        // Retrying does not help if the first request is rejected or the context window is too
        // small.
        let lasting = answers == 0 || is_overflow && !is_disproved;
        let cause = if lasting { FaultCause::Refused } else { FaultCause::Rejected };
        Fault::new(FaultLayer::Model, what).hint(hint).cause(cause)
    }

    fn no_tools_fault(&self, status: u16, body: &str) -> Fault {
        let (base, name) = (self.route().endpoint.base_url(), &self.route().model.name);
        let said = self.route().endpoint.redact_text(&quote_body(&error_message(body)));
        let what =
            format!("{base}: the model `{name}` does not support tools: status {status}: {said}");
        let hint = "use `scaffold = \"bash\"` for the arm; it needs no function calling";
        Fault::new(FaultLayer::Model, what).hint(hint).cause(FaultCause::Refused)
    }
}
