//! One trial's connection to its model.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use proctor_types::{BudgetKind, ModelSpec, Price, Spending, Usage};
use tokio::sync::watch;

use crate::{
    Admission, ExchangeSink, RequestBounds, RequestError, RetryPolicy, WaitNotice,
    admission::AdmissionRequest,
    anomalies::Anomalies,
    clock::WaitKind,
    cut_points::CutPoints,
    endpoint::Endpoint,
    halts::{Halts, RequestOrigin},
    limiter::Limiter,
    lost_time::LostTime,
    meter::Meter,
    prompt_counts::PromptCounts,
    replay::ReceivedResponses,
    run_responses,
    scope::MaxUsage,
    sent_conversation::SentConversation,
    sink::FIRST_NOTICE_DELAY,
    turns::NativeTurns,
    usage_audit::UsageAudit,
};

/// Where and how a trial's requests are sent.
#[derive(Debug)]
pub(crate) struct ModelRoute {
    pub model: ModelSpec,
    pub endpoint: Endpoint,
    pub http: reqwest::Client,
    pub price: Option<Price>,
    /// The context window in tokens, which is also an upper bound on a response's length.
    pub context_window: Option<u64>,
    pub limiters: Vec<Arc<Limiter>>,
    pub halts: Arc<Halts>,
    pub policy: RetryPolicy,
}

/// One trial's connection to its model. Every request passes through this connection, which meters
/// and records the request, or rejects a request that is over budget.
pub struct TrialGateway {
    route: ModelRoute,
    meter: Arc<Meter>,
    sink: Arc<dyn ExchangeSink>,
    /// The connection's number, which identifies the try within the process.
    number: u64,
    /// Identifies the trial in all its tries.
    trial: u64,
    /// Whether the endpoint has responded in this trial.
    has_responded: AtomicBool,
    sent_conversation: Mutex<SentConversation>,
    /// The model's turns, for clients that use other formats.
    native_turns: Mutex<NativeTurns>,
    /// The endpoint's responses, by id.
    received_responses: Mutex<ReceivedResponses>,
    /// The endpoint's counts of the trial's prompts.
    counts: Mutex<PromptCounts>,
    /// The usage that the endpoint reported, beside the lengths of requests and responses.
    audit: Mutex<UsageAudit>,
    anomalies: Mutex<Anomalies>,
    cut_points: Mutex<CutPoints>,
    /// The previous request, without the key. Bytes that the next request repeats need not be
    /// searched again.
    redacted_request: Mutex<Bytes>,
    cancel_sender: watch::Sender<bool>,
}

impl fmt::Debug for TrialGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Endpoint` hides its own key.
        f.debug_struct("TrialGateway")
            .field("route", &self.route)
            .field("meter", &self.meter)
            .finish_non_exhaustive()
    }
}

/// Why a request was cancelled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CancelReason {
    Budget(BudgetKind),
    Cancelled,
}

impl CancelReason {
    pub(crate) fn error(self) -> RequestError {
        match self {
            Self::Cancelled => RequestError::Cancelled,
            Self::Budget(kind) => RequestError::Budget(kind),
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Budget(kind) => format!("cut off at the {kind} limit"),
            Self::Cancelled => "cancelled".into(),
        }
    }
}

impl TrialGateway {
    pub(crate) fn new(route: ModelRoute, meter: Arc<Meter>, sink: Arc<dyn ExchangeSink>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self {
            route,
            meter,
            sink,
            number,
            trial: number,
            has_responded: AtomicBool::new(false),
            sent_conversation: Mutex::default(),
            native_turns: Mutex::default(),
            received_responses: Mutex::default(),
            counts: Mutex::default(),
            audit: Mutex::default(),
            anomalies: Mutex::default(),
            cut_points: Mutex::default(),
            redacted_request: Mutex::default(),
            cancel_sender: watch::Sender::new(false),
        }
    }

    /// Sets the trial's name, which is the same in all its tries. Without a name, each connection
    /// counts as a trial of its own.
    #[must_use]
    pub fn for_trial(mut self, name: &str) -> Self {
        self.trial = run_responses::hash(name);
        self
    }

    /// Continues a trial that has already spent part of its budget. The clock restarts.
    #[must_use]
    pub fn resume_from(self, spending: Spending) -> Self {
        self.meter.set_spending(spending);
        self
    }

    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub fn spending(&self) -> Spending {
        self.meter.spending()
    }

    /// Returns the limit that is reached, if any. The next request would be rejected.
    pub fn reached_limit(&self) -> Option<BudgetKind> {
        self.meter.reached_limit()
    }

    /// Returns the time spent waiting for rate limits and in back-off: wall time that is not
    /// working time.
    pub fn wait_time(&self) -> Duration {
        self.meter.wait_time()
    }

    /// Cancels the request in flight, if there is one, and rejects all later ones.
    pub fn cancel(&self) {
        self.cancel_sender.send_replace(true);
    }

    /// Returns the cost of a response in US dollars, or `None` if the price is not known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        self.route.price.as_ref().map(|price| price.request_cost(usage))
    }

    /// Admits a request. Resolves when the request may be sent alongside those in flight.
    ///
    /// The request waits while the amounts spent, reserved and requested together exceed a limit.
    /// It is rejected once a limit is reached. A limit on steps is therefore exact. A limit on
    /// tokens or cost is exceeded by at most the last admitted response, as long as no response is
    /// larger than its reservation. After a response that was larger than its reservation, requests
    /// run one at a time. Time limits and cancellation end the wait.
    pub async fn admit(&self, bounds: RequestBounds) -> Result<Admission, RequestError> {
        self.admit_request(bounds, (false, false)).await
    }

    pub(crate) async fn admit_request(
        &self,
        reserve: RequestBounds,
        (is_grace, is_from_sub_agent): (bool, bool),
    ) -> Result<Admission, RequestError> {
        if *self.cancel_sender.borrow() {
            return Err(RequestError::Cancelled);
        }
        let RequestBounds { class, input_estimate: input, max_output: output } = reserve;
        let held = |output: Option<u64>| {
            let usage = Usage { input, output: output.unwrap_or_default(), ..Usage::default() };
            let cost_usd = self.route.price.as_ref().map_or(0.0, |price| price.max_cost(&usage));
            MaxUsage {
                class,
                is_from_sub_agent,
                input_tokens: input,
                output_tokens: output,
                cost_usd,
            }
        };
        // In scopes that trials share, use the model's context window as the bound for a request
        // without an output limit. Otherwise, such a request would have to run alone and block all
        // other trials.
        let shared = held(output.or(self.route.context_window));
        let wanted =
            AdmissionRequest { max_usage: held(output), shared_max_usage: shared, is_grace };
        let notice = |so_far| self.sink.report_wait(WaitNotice::Queued(so_far));
        tokio::select! {
            biased;
            admitted = self.meter.admit(wanted, &self.route.limiters, &notice) => admitted,
            cut = self.wait_for_cancel(false) => Err(cut.error()),
        }
    }

    /// Fails if an earlier request of the run has shown that the endpoint would reject this one.
    pub(crate) fn check_halts(&self, offers_tools: bool) -> Result<(), RequestError> {
        self.route
            .halts
            .halting_fault(&self.route.model, offers_tools)
            .map_or(Ok(()), |fault| Err(fault.into()))
    }

    pub(crate) fn request_origin(&self, tools: bool) -> RequestOrigin<'_> {
        let (model, trial, answers) = (&self.route.model, self.number, self.meter.spending().steps);
        RequestOrigin { model, trial, response_count: answers, offers_tools: tools }
    }

    /// Returns the in-process caller's conversation.
    pub(crate) fn sent_conversation(&self) -> &Mutex<SentConversation> {
        &self.sent_conversation
    }

    /// Returns the model's turns as the endpoint wrote them.
    pub(crate) fn native_turns(&self) -> MutexGuard<'_, NativeTurns> {
        self.native_turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the responses that the endpoint has returned in this trial.
    pub(crate) fn received_responses(&self) -> MutexGuard<'_, ReceivedResponses> {
        self.received_responses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the endpoint's counts of the trial's prompts.
    pub(crate) fn prompt_counts(&self) -> MutexGuard<'_, PromptCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the usage that the endpoint reported in this try.
    pub(crate) fn usage_audit(&self) -> MutexGuard<'_, UsageAudit> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the anomalies of the responses in this try.
    pub(crate) fn anomalies(&self) -> MutexGuard<'_, Anomalies> {
        self.anomalies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where the endpoint cut off the responses in this try.
    pub(crate) fn cut_points(&self) -> MutexGuard<'_, CutPoints> {
        self.cut_points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a request without the key, for the record. A conversation grows at its end, so only
    /// the new bytes are searched.
    pub(crate) fn redact_request(&self, body: &Bytes) -> Bytes {
        let mut before = self.redacted_request.lock().unwrap_or_else(PoisonError::into_inner);
        let same = common_prefix_length(&before, body);
        let clean = self.route.endpoint.redact_after_prefix(same, body.clone());
        // Compare the address and length: comparing all bytes would cost more with every request.
        let untouched = clean.as_ptr() == body.as_ptr() && clean.len() == body.len();
        *before = if untouched { clean.clone() } else { Bytes::new() };
        clean
    }

    pub(crate) fn lost_time(&self) -> &LostTime {
        &self.meter.clock.lost_time
    }

    /// Returns what identifies the trial in all its tries.
    pub(crate) fn trial(&self) -> u64 {
        self.trial
    }

    pub(crate) fn route(&self) -> &ModelRoute {
        &self.route
    }

    pub(crate) fn sink(&self) -> &dyn ExchangeSink {
        &*self.sink
    }

    /// Notes whether the endpoint responded to an attempt. Returns whether the endpoint has
    /// responded in this trial.
    pub(crate) fn note_attempt(&self, has_responded: bool) -> bool {
        self.has_responded.fetch_or(has_responded, Ordering::Relaxed) || has_responded
    }

    /// Notes that a response arrived. `origin` describes the state before the response was charged.
    pub(crate) fn note_response(&self, origin: &RequestOrigin<'_>) {
        self.has_responded.store(true, Ordering::Relaxed);
        self.route.halts.note_response(origin);
    }

    /// Waits before the next attempt. The wall limit and a cancellation end the wait.
    pub(crate) async fn wait_before_attempt(
        &self,
        pause: Duration,
        notice: WaitNotice,
    ) -> Result<(), RequestError> {
        let _waiting = self.meter.clock.start_wait();
        let _retry = self.meter.clock.start_wait_timer(WaitKind::Retry);
        let _lost = self.lost_time().start_wait();
        if pause >= FIRST_NOTICE_DELAY {
            self.sink.report_wait(notice);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            // A wait is not working time, so the working limit cannot be reached here.
            cut = self.wait_for_cancel(false) => Err(cut.error()),
        }
    }

    /// Resolves when requests in flight must end. `is_working_time` says whether the time counts as
    /// working time.
    pub(crate) async fn wait_for_cancel(&self, is_working_time: bool) -> CancelReason {
        let working_limit = async {
            match is_working_time {
                true => self.meter.wait_for_working_limit().await,
                false => std::future::pending().await,
            }
        };
        let mut cancelled = self.cancel_sender.subscribe();
        tokio::select! {
            // The sender lives as long as `self`, so only a cancellation ends this.
            _ = cancelled.wait_for(|cancelled| *cancelled) => CancelReason::Cancelled,
            () = self.meter.wait_for_wall_limit() => CancelReason::Budget(BudgetKind::Wall),
            () = working_limit => CancelReason::Budget(BudgetKind::Working),
        }
    }
}

/// Returns the length of the common prefix of two strings, in bytes.
fn common_prefix_length(first: &[u8], second: &[u8]) -> usize {
    const BLOCK_BYTES: usize = 4096;
    // Compare blocks with `memcmp`, and only the last one byte by byte.
    let pieces = first
        .chunks(BLOCK_BYTES)
        .zip(second.chunks(BLOCK_BYTES))
        .take_while(|(one, other)| one == other);
    let same = (pieces.count() * BLOCK_BYTES).min(first.len()).min(second.len());
    same + first[same..].iter().zip(&second[same..]).take_while(|(one, other)| one == other).count()
}
