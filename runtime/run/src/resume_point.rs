//! Reads the state of an interrupted or faulted try from its journal: responses, tool results, file
//! tree and spent budget.

use std::{collections::VecDeque, time::Duration};

use proctor_gateway::{PriorUsage, RecordedResponse, TrialGateway};
use proctor_record::{Blobs, RecordError, Tree, read_journal};
use proctor_sandbox_api::wire::EntryKind;
use proctor_scaffold_api::{FileEdit, FinishedToolCall};
use proctor_types::{
    EditRecord, Ending, Envelope, Event, Fault, Interruptions, Layer, Message, ModelResponse,
    OutsideState, RequestChanges, RequestClass, RequestWaits, Responders, Spending, Usage,
    remove_discarded_events,
};
use serde_json::Value;

use crate::outside;

/// Key of the journal note that says why the previous try was discarded instead of resumed.
pub(crate) const RESTART_REASON_KEY: &str = "started_again";

/// A try that can continue from its last complete step.
#[derive(Debug, Clone)]
pub(crate) struct ResumePoint {
    pub(crate) try_number: u32,
    /// The tree that the agent started with.
    pub(crate) base: String,
    /// The tree with which the try continues.
    pub(crate) tree: String,
    /// Every recorded response, with its finished tool calls. The last response has none if its
    /// calls must run again.
    pub(crate) steps: VecDeque<RecordedStep>,
    pub(crate) complete_steps: u64,
    /// Sequence number of the last event that still counts after resuming.
    pub(crate) last_kept_seq: u64,
    pub(crate) prior_usage: PriorUsage,
    pub(crate) malformed: u64,
    /// Number of tool calls that do not run again.
    pub(crate) tool_calls: u64,
    /// The models and endpoints that sent the try's responses.
    pub(crate) responders: Responders,
    /// Changes that Proctor made to the try's requests.
    pub(crate) changes: RequestChanges,
    /// Whether the record contains the limit that ended the trial.
    pub(crate) limit_recorded: bool,
    /// Whether the record contains the model's final response after that limit.
    pub(crate) final_response_recorded: bool,
    /// The conversation's first messages, without the notice about the remaining budget. `None` if
    /// they are unknown.
    pub(crate) first_messages: Option<Vec<Message>>,
    /// The try's clock at its last event, in seconds.
    pub(crate) seconds: f64,
    /// Blob with the state outside the work directory to restore. `None` means the state of a fresh
    /// sandbox.
    pub(crate) outside: Option<String>,
    /// How interruptions have affected the try so far.
    pub(crate) interruptions: Interruptions,
    /// Whether the try is a fork that has not started yet.
    pub(crate) just_forked: bool,
    /// Blobs of every recorded response and its request. Responses before a fork are omitted,
    /// because the fork may use another endpoint.
    exchanges: Vec<ExchangeBlobs>,
}

/// The blobs of a response and its request.
#[derive(Debug, Clone)]
struct ExchangeBlobs {
    request: Option<String>,
    response: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedStep {
    pub(crate) answer: ModelResponse,
    pub(crate) calls: VecDeque<FinishedToolCall>,
}

/// Reconstructs a try's state from its journal, event by event.
#[derive(Default)]
struct Reader {
    base: Option<String>,
    tree: String,
    steps: Vec<(ModelResponse, Vec<ToolResult>)>,
    whole_steps: usize,
    stands_to: u64,
    spent: Spending,
    /// Usage and cost of sent requests that have no response yet.
    sends: Vec<(Usage, Option<f64>)>,
    responders: Responders,
    changes: RequestChanges,
    exchanges: Vec<ExchangeBlobs>,
    /// The last successful attempt, until its response is recorded.
    answered: Option<ExchangeBlobs>,
    waited: f64,
    lost: f64,
    waits: RequestWaits,
    limit_recorded: bool,
    final_response_recorded: bool,
    asks: usize,
    opening: Vec<Message>,
    /// Time at which the agent's clock started.
    begun: f64,
    /// Seconds on the journal's clock in which no agent ran.
    idle: f64,
    last: f64,
    /// The clock at the last response or snapshot.
    last_good: Clock,
    /// The fault that ended the try. Cleared by the event that resumes the try.
    fault: Option<Fault>,
    /// Number of responses that the try had when it was resumed after a sandbox failure.
    resumed_at: Option<usize>,
    /// Whether the sandbox failed again before the next response. The last response's tool calls
    /// then probably cause the failure.
    stuck: bool,
    outside: Option<OutsideState>,
    interruptions: Interruptions,
    /// Whether the last event is a fork.
    just_forked: bool,
}

/// The journal's clock, and the time up to then that was spent waiting.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    seconds: f64,
    waited: f64,
    lost: f64,
    waits: RequestWaits,
}

/// Returns the main conversation's spending up to the end of `events`.
pub(crate) fn spent_after(events: &[Envelope]) -> Spending {
    let mut reader = Reader::default();
    for event in events {
        // Ignore errors: they mean that the try has ended, which does not affect spending.
        let _ = reader.apply(event.clone());
    }
    reader.settle();
    reader.spent
}

struct ToolResult {
    done: FinishedToolCall,
    edited: Option<EditRecord>,
}

impl ResumePoint {
    /// Reads the latest try of a trial. `is_resumable` decides which faults can be resumed. The
    /// inner `Err` is a short reason why the try cannot be resumed.
    pub(crate) fn read(
        journal: &std::path::Path,
        blobs: &Blobs,
        is_resumable: &dyn Fn(&Fault) -> bool,
    ) -> Result<Result<Self, String>, RecordError> {
        let reading = read_journal(journal)?;
        if let Some(lost) = reading.first_lost_line() {
            return Ok(Err(lost.to_string()));
        }
        let Some(first) = reading.events.first() else {
            return Ok(Err("its record is empty".into()));
        };
        let try_number = first.try_number;
        let mut reader = Reader::default();
        for envelope in remove_discarded_events(reading.events) {
            if let Err(why) = reader.apply(envelope) {
                return Ok(Err(why));
            }
        }
        match &reader.fault {
            Some(fault) if !is_resumable(fault) => return Ok(Err("it ended with a fault".into())),
            Some(_) if reader.stuck => {
                return Ok(Err("its sandbox failed twice after the same response".into()));
            }
            _ => {}
        }
        reader.finish(try_number, blobs)
    }

    /// Passes the recorded responses to the gateway, so that it recognizes them if the endpoint
    /// repeats them. Skips unreadable ones, because they only make the gateway's checks weaker.
    pub(crate) fn remind_gateway(&self, gateway: &TrialGateway, blobs: &Blobs) {
        let read = |hash: Option<&String>| blobs.get(hash?).ok();
        let last = self.exchanges.len().saturating_sub(1);
        for (index, exchange) in self.exchanges.iter().enumerate() {
            let Some(body) = read(exchange.response.as_ref()) else { continue };
            // The gateway compares the next request only with the last one. Don't read the others,
            // because each contains the whole conversation.
            let request = exchange.request.as_ref().filter(|_| index == last);
            let request_bytes = read(request).map_or(0, |request| request.len());
            gateway.remember_response(&RecordedResponse { body, request_bytes });
        }
    }
}

impl Reader {
    fn apply(&mut self, envelope: Envelope) -> Result<(), String> {
        let Envelope { seq, t_mono, event, .. } = envelope;
        let is_good = matches!(
            event,
            Event::SetupFinished { .. }
                | Event::TrialResumed { .. }
                | Event::ModelAnswered { .. }
                | Event::GraceAnswered { .. }
                | Event::SnapshotTaken { .. }
        );
        match event {
            Event::TryFailed { fault, .. } => {
                // Don't charge the time between the last good event and the fault, such as an hour
                // of retries while an endpoint was down.
                let Clock { seconds, waited, lost, waits } = self.last_good;
                (self.last, self.waited, self.waits) = (seconds.max(self.begun), waited, waits);
                self.lost = lost;
                if fault.layer == Layer::Sandbox {
                    self.stuck = self.resumed_at == Some(self.steps.len());
                }
                self.fault = Some(fault);
                return Ok(());
            }
            Event::TrialEnded { outcome, .. } => {
                return match (&outcome.ending, &self.fault) {
                    (Ending::InfrastructureFault { .. }, Some(_)) => Ok(()),
                    // The user resumes the trial because the shared limit has been raised.
                    (Ending::Budget { scope, .. }, None) if !scope.is_trial() => Ok(()),
                    _ => Err("it has ended".into()),
                };
            }
            Event::SetupFinished { base_snapshot, .. } => {
                self.tree.clone_from(&base_snapshot);
                self.base = Some(base_snapshot);
                (self.begun, self.stands_to) = (t_mono, seq);
            }
            Event::ModelAsked { ask } => {
                self.asks += 1;
                if self.asks == 1 {
                    self.opening = ask.new.messages;
                } else if self.asks == 2 {
                    // A notice about the remaining budget is part of only one request, so the
                    // second request contains the first messages without the notice.
                    let new = ask.new.messages.into_iter();
                    let count = self.opening.len();
                    self.opening.truncate(ask.kept);
                    self.opening.extend(new.take(count - self.opening.len()));
                }
            }
            Event::ModelAttempted {
                usage,
                cost_usd,
                wait_seconds,
                queued_seconds,
                shared_seconds,
                lost_seconds,
                responder,
                repairs,
                error,
                request,
                body,
                ..
            } => {
                if error.is_none() {
                    self.answered = Some(ExchangeBlobs { request, response: body });
                    responder.iter().for_each(|responder| self.responders.add(responder));
                    self.changes.add_repairs(&repairs);
                }
                self.waited += wait_seconds + queued_seconds;
                self.lost += lost_seconds;
                self.waits.retries += wait_seconds;
                self.waits.shared_limits += shared_seconds;
                self.waits.rate_limits += (queued_seconds - shared_seconds).max(0.0);
                self.sends.extend(usage.map(|usage| (usage, cost_usd)));
            }
            Event::ModelAnswered { answer } => {
                self.settle();
                self.spent.steps += 1;
                self.exchanges.extend(self.answered.take());
                self.steps.push((answer, Vec::new()));
            }
            Event::GraceAnswered { .. } => {
                for (usage, cost) in std::mem::take(&mut self.sends) {
                    self.spent.add_grace(&usage, cost, false);
                }
                self.spent.grace_answers += 1;
                self.final_response_recorded = true;
            }
            Event::ToolReturned {
                call_id,
                name,
                shown,
                exit_status,
                seconds,
                malformed,
                edited,
                ..
            } => {
                let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                let done = FinishedToolCall {
                    call_id,
                    name,
                    shown,
                    exit_status,
                    duration,
                    malformed,
                    ..FinishedToolCall::default()
                };
                if let Some((_, calls)) = self.steps.last_mut() {
                    calls.push(ToolResult { done, edited });
                }
            }
            Event::SnapshotTaken { snapshot, outside, .. } if self.base.is_some() => {
                (self.tree, self.outside) = (snapshot, outside);
                (self.whole_steps, self.stands_to) = (self.steps.len(), seq);
            }
            Event::TrialForked { snapshot, outside, .. } => {
                (self.tree, self.outside) = (snapshot, outside.map(OutsideState::Kept));
                (self.interruptions, self.just_forked) = (Interruptions::default(), true);
                self.exchanges.clear();
                (self.whole_steps, self.stands_to) = (self.steps.len(), seq);
            }
            Event::TrialResumed { whole_steps, .. } => {
                // A fork also starts with a `TrialResumed` event.
                if !std::mem::take(&mut self.just_forked) {
                    self.interruptions.resumed_after.push(whole_steps);
                }
                self.idle += t_mono - self.last;
                self.stands_to = seq;
                if self.fault.take().is_some_and(|fault| fault.layer == Layer::Sandbox) {
                    self.resumed_at = Some(self.steps.len());
                }
            }
            Event::BudgetReached { scope, .. } => self.limit_recorded = scope.is_trial(),
            Event::Noted { note } => {
                if let Some(why) = note.get(RESTART_REASON_KEY).and_then(Value::as_str) {
                    self.interruptions.started_again = Some(why.to_owned());
                }
            }
            _ => {}
        }
        self.last = t_mono;
        if is_good {
            self.last_good =
                Clock { seconds: t_mono, waited: self.waited, lost: self.lost, waits: self.waits };
        }
        Ok(())
    }

    /// Charges the sent requests, including failed ones, to the main conversation.
    fn settle(&mut self) {
        for (usage, cost) in std::mem::take(&mut self.sends) {
            self.spent.add(RequestClass::Main, &usage, cost, false);
        }
    }

    fn finish(
        mut self,
        try_number: u32,
        blobs: &Blobs,
    ) -> Result<Result<ResumePoint, String>, RecordError> {
        self.settle();
        let Some(base) = self.base else {
            return Ok(Err("its agent had not started".into()));
        };
        if let Some(why) = unrestorable_reason(blobs, &base, &self.tree)? {
            return Ok(Err(why));
        }
        let outside = match self.outside {
            None => None,
            Some(OutsideState::Kept(digest)) => {
                if let Err(error) = outside::check_blobs(blobs, &digest) {
                    return corruption_reason(error).map(Err);
                }
                Some(digest)
            }
            Some(OutsideState::Unkept(why)) => {
                return Ok(Err(format!(
                    "the state outside the work directory was not recorded: {why}"
                )));
            }
        };
        let (mut malformed, mut tool_calls, mut in_tools) = (0, 0, Duration::ZERO);
        let mut steps = VecDeque::new();
        for (index, (answer, returned)) in self.steps.into_iter().enumerate() {
            let mut calls = VecDeque::new();
            // The last snapshot does not contain the effects of calls that ran after it, so these
            // calls run again.
            for ToolResult { mut done, edited } in
                returned.into_iter().filter(|_| index < self.whole_steps)
            {
                tool_calls += 1;
                malformed += u64::from(done.malformed);
                in_tools += done.duration;
                let content = |hash: Option<String>| hash.map(|hash| blobs.get(&hash)).transpose();
                done.edited = match edited {
                    None => None,
                    Some(EditRecord { path, before, after }) => {
                        Some(FileEdit { path, before: content(before)?, after: content(after)? })
                    }
                };
                calls.push_back(done);
            }
            steps.push_back(RecordedStep { answer, calls });
        }
        let elapsed = (self.last - self.begun - self.idle).max(0.0);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let used = PriorUsage {
            spent: self.spent,
            elapsed: seconds(elapsed),
            waited: seconds(self.waited),
            in_tools,
            waits: self.waits,
            lost: seconds(self.lost),
        };
        Ok(Ok(ResumePoint {
            try_number,
            base,
            tree: self.tree,
            steps,
            complete_steps: self.whole_steps as u64,
            last_kept_seq: self.stands_to,
            prior_usage: used,
            malformed,
            tool_calls,
            responders: self.responders,
            changes: self.changes,
            limit_recorded: self.limit_recorded,
            final_response_recorded: self.final_response_recorded,
            first_messages: (!self.opening.is_empty()).then_some(self.opening),
            seconds: self.last,
            outside,
            interruptions: self.interruptions,
            just_forked: self.just_forked,
            exchanges: self.exchanges,
        }))
    }
}

/// Returns the reason why `tree` cannot be restored from the record, or `None` if it can. Files
/// that are unchanged since `base` need not be recorded.
pub(crate) fn unrestorable_reason(
    blobs: &Blobs,
    base: &str,
    tree: &str,
) -> Result<Option<String>, RecordError> {
    let (base, tree) = match (Tree::load(blobs, base), Tree::load(blobs, tree)) {
        (Ok(base), Ok(tree)) => (base, tree),
        (Err(error), _) | (_, Err(error)) => return corruption_reason(error).map(Some),
    };
    if let Some(path) = tree.unwalked.first() {
        return Ok(Some(format!("{path} was not recorded: it is too large or too deep")));
    }
    let lacking = base.diff(&tree).filter_map(|one| one.end).find(|entry| match entry.kind {
        EntryKind::File => entry.hash.is_none(),
        EntryKind::Other => true,
        EntryKind::Dir | EntryKind::Link => false,
    });
    if let Some(entry) = lacking {
        return Ok(Some(match entry.kind {
            EntryKind::File => format!("{} is too large for the record", entry.path),
            _ => format!("{} is a pipe, a socket or a device", entry.path),
        }));
    }
    // Read every blob now, so that missing content is detected before the restoration starts.
    let files = base.diff(&tree).filter_map(|one| one.end);
    let mut contents =
        files.filter(|entry| entry.kind == EntryKind::File).filter_map(|entry| entry.hash.as_ref());
    let lost = contents.find_map(|hash| blobs.get(hash).err());
    lost.map(corruption_reason).transpose()
}

/// Converts an error about missing or corrupt content to a reason. Other read errors are returned
/// as errors.
fn corruption_reason(error: RecordError) -> Result<String, RecordError> {
    match error {
        RecordError::Corrupt { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests;
