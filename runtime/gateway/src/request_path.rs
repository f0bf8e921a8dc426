//! The path that every request takes: admit, send, judge, settle, record, deliver. The in-process
//! call (`ask.rs`) and the HTTP server (`server/client_request.rs`) are its two entry points.

use std::time::Duration;

use proctor_types::{Event, Fault, ModelResponse, RequestClass, Responder, Usage};
use tokio::time::Instant;

use crate::{
    Admission, RequestError, TrialGateway,
    answer_in_reasoning::move_answer_to_text,
    attempt_failure::{AttemptFailure, FailureKind},
    attempts::Attempts,
    checks::EndpointChecks,
    codec::neutral::{CollectedResponse, StopReason},
    context_window::ContextWindowRules,
    error_text::{error_message, first_words, quote_body},
    judge::{Judgement, judge},
    merged_calls::split_merged_calls,
    outgoing_request::{Client, OutgoingRequest, RequestEnd},
    rejections::{self, ErrorSubject},
    repair::{Action, NO_STREAM, Repair},
    repaired_request::RepairedRequest,
    send::{AttemptResult, ResponseProgress},
    sink::WaitNotice,
    trial::CancelReason,
    usage,
};

/// Recorded instead of a stream in which the key was split across events.
pub(crate) const SPLIT_KEY_NOTICE: &[u8] =
    b"the key was split across events of this stream: see the response, in which [key] replaces it";

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    NoResponse(RequestError),
    /// The client has received part of the response. `cause` is the limit or fault that ended the
    /// response, if any.
    Interrupted {
        reason: String,
        cause: Option<RequestError>,
        charge: Charge,
    },
    /// The caller has disconnected, so the gateway makes no further attempt.
    Disconnected {
        reason: String,
    },
}

impl<E: Into<RequestError>> From<E> for RequestFailure {
    fn from(error: E) -> Self {
        Self::NoResponse(error.into())
    }
}

/// The charge for an attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Charge {
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    /// The step number, if the response was a step.
    pub step: Option<u64>,
    pub is_delivered: bool,
    pub has_split_key: bool,
}

/// One attempt, with everything that is recorded about it.
struct AttemptRecord<'a> {
    repaired_request: &'a RepairedRequest,
    number: u32,
    /// Back-off before the attempt.
    pause: Duration,
    /// Time in the queue for limits, after the back-off.
    queue_time: Duration,
    /// Part of `queue_time` that was spent waiting for limits that trials share.
    shared_queue_time: Duration,
    result: &'a AttemptResult,
    response_progress: &'a ResponseProgress,
    judgement: &'a Judgement,
    charge: &'a Charge,
}

impl TrialGateway {
    /// Serves one request, from its first attempt to the end of its response.
    pub(crate) async fn serve<C: Client>(
        &self,
        request: &OutgoingRequest,
        client: &mut C,
    ) -> Result<ModelResponse, RequestFailure> {
        if request.class == RequestClass::Main {
            self.sink().on_step_end().await?;
        }
        let mut attempts = Attempts::default();
        let begun = Instant::now();
        let mut response_progress =
            ResponseProgress::new(client.wait_for(self.acquire_call_permit()).await?);
        let mut waited = begun.elapsed();
        let mut form = RepairedRequest::new(self, request);
        let (mut rejections, mut filtered, mut cut_streams) = (0, 0, 0);
        let mut unauthorized = false;
        loop {
            let request = &form.request;
            // Reserve budget for each attempt separately, so that a request that waits for its next
            // attempt reserves nothing.
            self.check_halts(request.offers_tools)?;
            let admitted =
                self.admit_request(request.bounds(), (request.is_grace, request.is_from_sub_agent));
            let admission = client.wait_for(admitted).await?;
            // Check for halts again, because the request may have waited for a long time.
            self.check_halts(request.offers_tools)?;
            // Includes the wait for the first response, which precedes the first attempt.
            let queued = admission.queue_time() + std::mem::take(&mut waited);
            let shared = admission.shared_queue_time();
            let origin = self.request_origin(request.offers_tools);
            response_progress.restart();
            let attempt = self.lost_time().start_attempt(|| response_progress.last_progress());
            let result = self.send(request, client, &response_progress).await;
            let mut judged = judge(&result, &self.route().endpoint);
            if matches!(judged, Judgement::Answered)
                && let Some(trouble) = self.find_unknown_stop(request, &result.response)?
            {
                judged = Judgement::Retry(trouble);
            }
            if matches!(judged, Judgement::Answered)
                && let Some(trouble) = self.find_other_trials_response(request, &result)?
            {
                judged = Judgement::Retry(trouble);
            }
            let unsupported = match judged {
                Judgement::Answered => {
                    self.unsupported_tools_fault(request, &result.response).await
                }
                _ => None,
            };
            if matches!(judged, Judgement::Answered) && !client.has_started_response() {
                let doubt =
                    self.retry_reason(&result, filtered, attempts.next_number(), request).await?;
                if let Some(trouble) = doubt {
                    filtered += u32::from(trouble.kind == FailureKind::Filtered);
                    judged = Judgement::Retry(trouble);
                }
            }
            // If the model has already responded, a 401 may come from a single one of the
            // endpoint's servers.
            if let Judgement::Unusable(fault) = &judged
                && result.status == Some(401)
                && !std::mem::replace(&mut unauthorized, true)
                && self.route().halts.has_responded(&self.route().model)
            {
                judged = Judgement::Retry(AttemptFailure::new(
                    FailureKind::Endpoint,
                    fault.what.as_str(),
                ));
            }
            if let Some(trouble) = self.unknown_model_failure(&result, &judged) {
                judged = Judgement::Retry(trouble);
            }
            if let Some(rejected) = self.repairable_rejection(&result, &judged, &form, client)? {
                judged = rejected;
            }
            // Missing tool support halts only requests with tools. Remember this, so that
            // `note_unusable` is not called, which would halt all requests.
            let without_tools = unsupported.is_some();
            judged = unsupported.map_or(judged, Judgement::Unusable);
            match &judged {
                Judgement::Retry(trouble) => attempt.fail(&trouble.short_reason),
                // On drop, the guard counts the time as lost if the endpoint was silent.
                Judgement::Cancelled(_) => drop(attempt),
                _ => attempt.complete(),
            }
            match &judged {
                Judgement::Answered => {
                    self.note_response(&origin);
                    form.remember_repairs(self);
                }
                Judgement::Unusable(fault) if !without_tools => {
                    self.note_unusable(result.status, &origin, fault);
                }
                _ => {}
            }
            let is_forwarded = client.has_started_response();
            let charged = self.settle(request, admission, &result, &judged, client).await;
            if matches!(judged, Judgement::Answered) {
                let usage = charged.usage.as_ref();
                self.note_accepted_response(request, &result, usage, is_forwarded);
            }
            let attempted = AttemptRecord {
                repaired_request: &form,
                number: attempts.next_number(),
                pause: attempts.pause,
                queue_time: queued,
                shared_queue_time: shared,
                result: &result,
                response_progress: &response_progress,
                judgement: &judged,
                charge: &charged,
            };
            self.record_attempt(attempted, origin.response_count).await?;
            let (trouble, cut) = match judged {
                Judgement::Answered => {
                    return self.deliver(request, result.response, charged, client).await;
                }
                // Part of the response was already sent, so no other response can follow.
                Judgement::Unusable(fault) if client.has_started_response() => {
                    let why = fault.what.clone();
                    return Err(RequestFailure::Interrupted {
                        reason: why,
                        cause: Some(fault.into()),
                        charge: charged,
                    });
                }
                Judgement::Unusable(fault) => return Err(fault.into()),
                Judgement::Rejected { status, body } => {
                    let free = !client.has_started_response() && !client.is_disconnected();
                    if free && form.repair_for_error(self, status, &body, rejections + 1)? {
                        continue;
                    }
                    rejections += 1;
                    if free
                        && rejections < self.route().policy.rejected_attempts
                        && self.is_worth_retrying(status, &body, &form.request).await?
                    {
                        let wait = self.wait_after_rejection(rejections, status, &body);
                        client.wait_for(wait).await?;
                        continue;
                    }
                    let error = self.classify_rejection(status, body, &form.request).await;
                    // Let the other requests through: the model does respond, and may accept them.
                    if let Some(turn) = &response_progress.permit {
                        turn.note_response();
                    }
                    return Err(error.into());
                }
                Judgement::Retry(trouble) => {
                    // Some servers respond with a 5xx status to a request that they cannot parse.
                    let failed = matches!(result.status, Some(500..=599));
                    let free = !client.has_started_response() && !client.is_disconnected();
                    let (status, number) =
                        (result.status.unwrap_or_default(), attempts.next_number());
                    if failed
                        && free
                        && form.repair_for_error(
                            self,
                            status,
                            &String::from_utf8_lossy(&result.raw),
                            number,
                        )?
                    {
                        continue;
                    }
                    cut_streams +=
                        u32::from(trouble.kind == FailureKind::Endpoint && result.is_cut_off());
                    let are_cut = cut_streams >= self.route().policy.cut_streams;
                    let limit = EndpointChecks::shipped()?.length.explicit_limit;
                    let repair = match trouble.kind {
                        FailureKind::Corrupted => Some((NO_STREAM, Action::DisableStreaming)),
                        FailureKind::Endpoint if are_cut => {
                            Some((NO_STREAM, Action::DisableStreaming))
                        }
                        FailureKind::OutputCapped => {
                            Some(("explicit_limit", Action::SetOutputLimit(limit)))
                        }
                        _ => None,
                    };
                    let repair =
                        repair.map(|(name, action)| Repair { name: name.to_owned(), action });
                    if trouble.kind == FailureKind::Corrupted {
                        form.bypass_caches();
                    }
                    // Retry immediately with the repair. If several streams were cut off, pause
                    // before the next attempt instead.
                    if free && form.apply_repairs(self, repair, 1) && !are_cut {
                        continue;
                    }
                    (Some(trouble), None)
                }
                Judgement::Cancelled(cut) => (None, Some(cut)),
            };
            if client.has_started_response() {
                let why = match (&trouble, &cut) {
                    (Some(trouble), _) => trouble.reason.clone(),
                    (None, cut) => cut.as_ref().map(CancelReason::describe).unwrap_or_default(),
                };
                let why = self.route().endpoint.redact_text(&format!("aborted: {why}"));
                return Err(RequestFailure::Interrupted {
                    reason: why,
                    cause: cut.map(|cut| cut.error()),
                    charge: charged,
                });
            }
            match (trouble, cut) {
                (_, Some(cut)) => {
                    // If the endpoint is down, this call halts the model before another trial gets
                    // the permit. That trial would only wait for the same silent endpoint.
                    if let CancelReason::Budget(kind) = cut {
                        self.lost_time_fault(kind);
                    }
                    return Err(cut.error().into());
                }
                (Some(trouble), None) if client.is_disconnected() => {
                    return Err(RequestFailure::Disconnected { reason: trouble.reason });
                }
                (Some(trouble), None) => {
                    let wait = self.wait_for_retry(
                        &mut attempts,
                        response_progress.permit.as_ref(),
                        &trouble,
                    );
                    client.wait_for(wait).await?;
                    // Let another waiting trial make the next attempt: this request may be the only
                    // one that fails.
                    if response_progress.permit.take().is_some() {
                        let begun = Instant::now();
                        response_progress.permit =
                            client.wait_for(self.acquire_call_permit()).await?;
                        waited = begun.elapsed();
                    }
                }
                (None, None) => {}
            }
        }
    }

    /// Notes what later checks need to know about a response that was accepted. `usage` is what the
    /// response was charged. `is_forwarded` says whether the client received it while it arrived.
    pub(crate) fn note_accepted_response(
        &self,
        request: &OutgoingRequest,
        result: &AttemptResult,
        usage: Option<&Usage>,
        is_forwarded: bool,
    ) {
        let (id, bytes) = (result.names.id.as_deref(), request.body.len());
        self.received_responses().add(id, &result.response, bytes);
        self.note_run_response(request, result);
        self.note_anomalies(request, result, usage, is_forwarded);
        self.note_prompt_count(request, result);
    }

    /// Returns why a request should be retried after a server rejected the model as unknown. The
    /// model has responded in this run, so another of the endpoint's servers has it.
    fn unknown_model_failure(
        &self,
        result: &AttemptResult,
        judgement: &Judgement,
    ) -> Option<AttemptFailure> {
        let is_final = matches!(judgement, Judgement::Rejected { .. } | Judgement::Unusable(_));
        let status = result.status.filter(|_| is_final)?;
        let body = String::from_utf8_lossy(&result.raw);
        let line = self.route();
        let is_known = rejections::classify_error(status, &body) == ErrorSubject::UnknownModel
            && line.halts.has_responded(&line.model);
        is_known.then(|| {
            AttemptFailure::new(
                FailureKind::Endpoint,
                format!("status {status}: {}", quote_body(&error_message(&body))),
            )
        })
    }

    /// Returns the rejection for a 403, 404 or 405 whose message asks for another form of the
    /// request. The key and the model are then not at fault.
    fn repairable_rejection<C: Client>(
        &self,
        result: &AttemptResult,
        judgement: &Judgement,
        form: &RepairedRequest,
        client: &C,
    ) -> Result<Option<Judgement>, Fault> {
        let is_free = !client.has_started_response() && !client.is_disconnected();
        let is_unusable = matches!(judgement, Judgement::Unusable(_));
        let Some(status @ 403..=405) = result.status.filter(|_| is_unusable && is_free) else {
            return Ok(None);
        };
        let body = self.route().endpoint.redact_text(&String::from_utf8_lossy(&result.raw));
        let is_repairable = form.has_repair_for_error(self, status, &body)?;
        Ok(is_repairable.then_some(Judgement::Rejected { status, body }))
    }

    /// Returns why a complete response must be requested again before anything acts on it. A filter
    /// may report a false positive, and a context window cannot be full after a few hundred tokens.
    pub(crate) async fn retry_reason(
        &self,
        result: &AttemptResult,
        filtered_attempts: u32,
        attempt: u32,
        request: &OutgoingRequest,
    ) -> Result<Option<AttemptFailure>, Fault> {
        let whole = &result.response;
        let trouble = |kind, why: &str| Some(AttemptFailure::new(kind, why));
        let bytes = request.body.len();
        let is_main = request.class == RequestClass::Main;
        if is_main && self.received_responses().is_replay(result.names.id.as_deref(), whole, bytes)
        {
            let why = "the endpoint repeated its response to an earlier request";
            return Ok(Some(AttemptFailure::corrupted_response(
                why,
                &EndpointChecks::shipped()?.replay.hint,
            )));
        }
        Ok(match whole.reported_stop {
            Some(StopReason::Filter)
                if filtered_attempts + 1 < self.route().policy.rejected_attempts =>
            {
                trouble(FailureKind::Filtered, "the provider's filter stopped the response")
            }
            Some(StopReason::ContextWindow) => {
                let counted =
                    usage::count_usage(self.route().model.api, &request.body, whole).await;
                let rules = ContextWindowRules::shipped()?;
                let tokens = counted.input + counted.output;
                let why =
                    format!("the endpoint reports a full context window after {tokens} tokens");
                match rules.is_overflow_plausible(tokens, 0, self.route().context_window) {
                    true => None,
                    false => trouble(FailureKind::Empty, &why),
                }
            }
            _ => match self.find_missing_output(request, whole, attempt)? {
                Some(trouble) => Some(trouble),
                None => self.find_defect(request, result).await?,
            },
        })
    }

    /// Waits before a rejected request is retried.
    async fn wait_after_rejection(
        &self,
        rejections: u32,
        status: u16,
        body: &str,
    ) -> Result<(), RequestError> {
        let pause = self.route().policy.pause(rejections, None);
        let why = self
            .route()
            .endpoint
            .redact_text(&format!("{status} {}", first_words(&error_message(body))));
        let attempts = self.route().policy.rejected_attempts;
        self.wait_before_attempt(
            pause,
            WaitNotice::BackOff { attempt: rejections, max_attempts: attempts, reason: why, pause },
        )
        .await
    }

    /// Charges an attempt, whether or not its response is usable. The charge is based on the
    /// endpoint's own token count. If the endpoint reports no count, the gateway counts the tokens
    /// that it sent and received. A delivered response to a main request gets a step number.
    async fn settle<C: Client>(
        &self,
        request: &OutgoingRequest,
        admission: Admission,
        result: &AttemptResult,
        judgement: &Judgement,
        client: &C,
    ) -> Charge {
        let answered = matches!(judgement, Judgement::Answered);
        let usage = if answered || result.has_output() {
            Some(usage::count_usage(self.route().model.api, &request.body, &result.response).await)
        } else {
            result.parse_failure.as_ref().and_then(|(_, billed)| *billed)
        };
        match (usage, judgement) {
            (Some(usage), _) => {
                let cost_usd = self.cost(&usage);
                let delivered = answered && !client.is_disconnected();
                let admission = if answered { admission } else { admission.mark_failed() };
                let step = admission.settle(&usage, cost_usd, delivered);
                Charge {
                    usage: Some(usage),
                    cost_usd,
                    step,
                    is_delivered: delivered,
                    has_split_key: result.has_split_key,
                }
            }
            (None, Judgement::Retry(trouble)) if matches!(result.status, Some(429 | 529)) => {
                admission.finish_throttled(trouble.retry_after);
                Charge::default()
            }
            _ => Charge::default(),
        }
    }

    async fn record_attempt(&self, attempt: AttemptRecord<'_>, step: u64) -> Result<(), Fault> {
        let AttemptRecord {
            repaired_request: form,
            number,
            pause,
            queue_time: queued,
            shared_queue_time: shared,
            result,
            response_progress,
            judgement: judged,
            charge: charged,
        } = attempt;
        let endpoint = &self.route().endpoint;
        let error = match judged {
            Judgement::Answered => None,
            Judgement::Retry(trouble) => Some(trouble.reason.clone()),
            Judgement::Cancelled(cut) => Some(cut.describe()),
            Judgement::Rejected { status, .. } => Some(format!("rejected with status {status}")),
            Judgement::Unusable(fault) => Some(fault.what.clone()),
        };
        let without_key = endpoint.redact_if_present(&result.raw);
        let response = match result.has_split_key {
            true => SPLIT_KEY_NOTICE,
            false => without_key.as_deref().unwrap_or(&result.raw),
        };
        let body = match response.is_empty() {
            true => None,
            false => Some(self.sink().store_body(response).await?),
        };
        let event = Event::ModelAttempted {
            attempt: number,
            status: result.status,
            error: error.map(|error| endpoint.redact_text(&error)),
            wait_seconds: pause.as_secs_f64(),
            queued_seconds: queued.as_secs_f64(),
            // Don't record waits that round to zero.
            shared_seconds: if shared.as_millis() > 0 { shared.as_secs_f64() } else { 0.0 },
            seconds: Some(result.duration.as_secs_f64()),
            lost_seconds: judged.lost_time(result, response_progress).as_secs_f64(),
            first_byte_seconds: result.first_byte_time.map(|time| time.as_secs_f64()),
            usage: charged.usage,
            cost_usd: charged.cost_usd,
            responder: match judged {
                Judgement::Answered => result.names.responder.clone(),
                _ => None,
            }
            .map(|responder| self.redact_responder(responder)),
            request: Some(self.sink().store_body(&self.redact_request(&form.request.body)).await?),
            repairs: form.repair_names(),
            body,
        };
        self.sink().record_event(step, event).await
    }

    fn redact_responder(&self, responder: Responder) -> Responder {
        let clean = |name: Option<String>| name.map(|one| self.route().endpoint.redact_text(&one));
        Responder {
            model: clean(responder.model),
            provider: clean(responder.provider),
            fingerprint: clean(responder.fingerprint),
        }
    }

    /// Records the response and only then sends its end, so that the response is charged and
    /// recorded before the next request.
    async fn deliver<C: Client>(
        &self,
        request: &OutgoingRequest,
        response: CollectedResponse,
        charge: Charge,
        client: &mut C,
    ) -> Result<ModelResponse, RequestFailure> {
        let Charge { usage, cost_usd, step, is_delivered: delivered, has_split_key } = charge;
        let usage = usage.unwrap_or_default();
        client.on_settled(&response, &usage);
        let mut answer = ModelResponse { usage, cost_usd, ..response.to_model_response() };
        let has_moved_answer = move_answer_to_text(&mut answer);
        let end_token = &EndpointChecks::shipped()?.end_token;
        let has_next_turns = end_token.strip_next_turns(&mut answer.content);
        let has_end_token = end_token.strip_end_tokens(&mut answer.content);
        let has_merged_calls = split_merged_calls(&mut answer);
        if has_next_turns || has_moved_answer || has_merged_calls {
            // The next request must not contain the invented turns. It must contain the answer as
            // text, because chat templates drop earlier reasoning, and a call for each result.
            answer.native = None;
        } else if has_end_token {
            // The next request must contain the turn exactly as the endpoint wrote it.
            answer.native = answer.native.or(response.native_turn);
        }
        let answer = self.route().endpoint.redact_response(answer);
        let error = (!delivered).then(|| "the client disconnected".to_owned());
        let answered = Some(&answer);
        let usage = Some(usage);
        let end = RequestEnd {
            step,
            response: answered,
            error,
            usage,
            cost_usd,
            is_delivered: delivered,
            has_split_key,
        };
        client.record(self, end).await?;
        if request.is_grace {
            let event = Event::GraceAnswered { answer: answer.clone() };
            self.sink().record_event(self.meter().steps(), event).await?;
        } else if let Some(step) = step {
            self.sink().record_event(step, Event::ModelAnswered { answer: answer.clone() }).await?;
        }
        client.finish().await;
        Ok(answer)
    }
}
