//! Reads the state of an interrupted or faulted try from its journal: responses, tool results, file
//! tree and spent budget.

use std::{collections::VecDeque, time::Duration};

use proctor_gateway::{PriorUsage, RecordedAttempts, TrialGateway};
use proctor_record::{Blobs, RecordError, Tree, read_journal};
use proctor_sandbox_api::wire::EntryKind;
use proctor_scaffold_api::{FileEdit, FinishedToolCall};
use proctor_types::{
    EditRecord, Ending, Envelope, Event, Fault, FaultLayer, Interruptions, Message, ModelResponse,
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
    pub(crate) base_tree: String,
    /// The tree to restore before the try continues.
    pub(crate) tree: String,
    /// Every recorded response, with its finished tool calls. If the last response's calls must run
    /// again, they are not listed.
    pub(crate) steps: VecDeque<RecordedStep>,
    pub(crate) complete_steps: u64,
    /// Sequence number of the last event that still counts after resuming.
    pub(crate) last_kept_seq: u64,
    pub(crate) prior_usage: PriorUsage,
    pub(crate) malformed_calls: u64,
    /// Number of tool calls that do not run again.
    pub(crate) tool_calls: u64,
    /// The models and endpoints that sent the try's responses.
    pub(crate) responders: Responders,
    /// Changes that Proctor made to the try's requests.
    pub(crate) request_changes: RequestChanges,
    /// Whether the record contains an event for the limit that ended the trial.
    pub(crate) is_limit_recorded: bool,
    /// Whether the record contains the model's final response after that limit.
    pub(crate) is_final_response_recorded: bool,
    /// The conversation's first messages, without the notice about the remaining budget. `None` if
    /// they are unknown.
    pub(crate) first_messages: Option<Vec<Message>>,
    /// The try's clock at its last event, in seconds.
    pub(crate) clock_seconds: f64,
    /// Blob with the state outside the work directory to restore. `None` means the state of a fresh
    /// sandbox.
    pub(crate) outside_state: Option<String>,
    /// How interruptions have affected the try so far.
    pub(crate) interruptions: Interruptions,
    /// Whether the try is a fork that has not started yet.
    pub(crate) is_new_fork: bool,
    /// The recorded attempts, without those before a fork.
    attempts: RecordedAttempts,
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedStep {
    pub(crate) response: ModelResponse,
    pub(crate) calls: VecDeque<FinishedToolCall>,
}

/// Reconstructs a try's state from its journal, event by event.
#[derive(Default)]
struct ResumePointBuilder {
    base_tree: Option<String>,
    tree: String,
    steps: Vec<(ModelResponse, Vec<ToolResult>)>,
    complete_steps: usize,
    last_kept_seq: u64,
    spending: Spending,
    /// Usage of sent requests that have no response yet.
    pending_requests: Vec<PendingRequest>,
    responders: Responders,
    request_changes: RequestChanges,
    attempts: RecordedAttempts,
    wait_seconds: f64,
    lost_seconds: f64,
    request_waits: RequestWaits,
    is_limit_recorded: bool,
    is_final_response_recorded: bool,
    request_count: usize,
    first_messages: Vec<Message>,
    /// Time at which the agent's clock started.
    start_seconds: f64,
    /// Seconds on the journal's clock in which no agent ran.
    idle_seconds: f64,
    last_event_seconds: f64,
    /// The clock at the last response or snapshot.
    last_good_clock: JournalClock,
    /// The fault that ended the try. Cleared by the event that resumes the try.
    fault: Option<Fault>,
    /// Number of responses that the try had received when it was resumed after a sandbox failure.
    responses_at_resume: Option<usize>,
    /// Whether the sandbox failed again before the next response. The last response's tool calls
    /// then probably cause the failure.
    has_failed_again: bool,
    outside_state: Option<OutsideState>,
    interruptions: Interruptions,
    /// Whether the last event is a fork.
    is_new_fork: bool,
}

/// The journal's clock at one event, and how long the try had waited by then.
#[derive(Debug, Clone, Copy, Default)]
struct JournalClock {
    seconds: f64,
    wait_seconds: f64,
    lost_seconds: f64,
    request_waits: RequestWaits,
}

/// The usage of one attempt.
#[derive(Debug, Clone, Copy)]
struct PendingRequest {
    usage: Usage,
    cost_usd: Option<f64>,
    /// Whether the attempt has no usable response.
    is_failed: bool,
}

/// Returns what the main conversation has spent up to the end of `events`.
pub(crate) fn spending_after(events: &[Envelope]) -> Spending {
    let mut reader = ResumePointBuilder::default();
    for event in events {
        // Ignore errors: they mean that the try has ended, which does not affect spending.
        let _ = reader.apply(event.clone());
    }
    reader.charge_pending_requests();
    reader.spending
}

struct ToolResult {
    call: FinishedToolCall,
    edit: Option<EditRecord>,
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
        let mut reader = ResumePointBuilder::default();
        for envelope in remove_discarded_events(reading.events) {
            if let Err(why) = reader.apply(envelope) {
                return Ok(Err(why));
            }
        }
        match &reader.fault {
            Some(fault) if !is_resumable(fault) => return Ok(Err("it ended with a fault".into())),
            Some(_) if reader.has_failed_again => {
                return Ok(Err("its sandbox failed twice after the same response".into()));
            }
            _ => {}
        }
        reader.into_resume_point(try_number, blobs)
    }

    /// Replays the recorded attempts in the gateway, so that its checks know the conversation so
    /// far.
    pub(crate) async fn replay_attempts(
        &self,
        gateway: &TrialGateway,
        blobs: &Blobs,
    ) -> Result<(), Fault> {
        gateway.replay_attempts(&self.attempts, |hash| blobs.get(hash).ok()).await
    }
}

impl ResumePointBuilder {
    fn apply(&mut self, envelope: Envelope) -> Result<(), String> {
        let Envelope { seq, t_mono, event, .. } = envelope;
        self.attempts.apply(&event);
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
                let JournalClock {
                    seconds,
                    wait_seconds: waited,
                    lost_seconds: lost,
                    request_waits: waits,
                } = self.last_good_clock;
                (self.last_event_seconds, self.wait_seconds, self.request_waits) =
                    (seconds.max(self.start_seconds), waited, waits);
                self.lost_seconds = lost;
                if fault.layer == FaultLayer::Sandbox {
                    self.has_failed_again = self.responses_at_resume == Some(self.steps.len());
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
                self.base_tree = Some(base_snapshot);
                (self.start_seconds, self.last_kept_seq) = (t_mono, seq);
            }
            Event::ModelAsked { ask } => {
                self.request_count += 1;
                if self.request_count == 1 {
                    self.first_messages = ask.new.messages;
                } else if self.request_count == 2 {
                    // A notice about the remaining budget is part of only one request, so the
                    // second request contains the first messages without the notice.
                    let new = ask.new.messages.into_iter();
                    let count = self.first_messages.len();
                    self.first_messages.truncate(ask.kept);
                    self.first_messages.extend(new.take(count - self.first_messages.len()));
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
                ..
            } => {
                if error.is_none() {
                    responder.iter().for_each(|responder| self.responders.add(responder));
                    self.request_changes.add_repairs(&repairs);
                }
                self.wait_seconds += wait_seconds + queued_seconds;
                self.lost_seconds += lost_seconds;
                self.request_waits.retries += wait_seconds;
                self.request_waits.shared_limits += shared_seconds;
                self.request_waits.rate_limits += (queued_seconds - shared_seconds).max(0.0);
                let is_failed = error.is_some();
                let pending = usage.map(|usage| PendingRequest { usage, cost_usd, is_failed });
                self.pending_requests.extend(pending);
            }
            Event::ModelAnswered { answer } => {
                self.charge_pending_requests();
                self.spending.steps += 1;
                self.steps.push((answer, Vec::new()));
            }
            Event::GraceAnswered { .. } => {
                for PendingRequest { usage, cost_usd, .. } in
                    std::mem::take(&mut self.pending_requests)
                {
                    self.spending.add_grace(&usage, cost_usd, false);
                }
                self.spending.grace_answers += 1;
                self.is_final_response_recorded = true;
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
                    shown_output: shown,
                    exit_status,
                    duration,
                    is_malformed: malformed,
                    ..FinishedToolCall::default()
                };
                if let Some((_, calls)) = self.steps.last_mut() {
                    calls.push(ToolResult { call: done, edit: edited });
                }
            }
            Event::SnapshotTaken { snapshot, outside, .. } if self.base_tree.is_some() => {
                (self.tree, self.outside_state) = (snapshot, outside);
                (self.complete_steps, self.last_kept_seq) = (self.steps.len(), seq);
            }
            Event::TrialForked { snapshot, outside, .. } => {
                (self.tree, self.outside_state) = (snapshot, outside.map(OutsideState::Kept));
                (self.interruptions, self.is_new_fork) = (Interruptions::default(), true);
                (self.complete_steps, self.last_kept_seq) = (self.steps.len(), seq);
            }
            Event::TrialResumed { whole_steps, .. } => {
                // A fork also starts with a `TrialResumed` event.
                if !std::mem::take(&mut self.is_new_fork) {
                    self.interruptions.resumed_after.push(whole_steps);
                }
                self.idle_seconds += t_mono - self.last_event_seconds;
                self.last_kept_seq = seq;
                if self.fault.take().is_some_and(|fault| fault.layer == FaultLayer::Sandbox) {
                    self.responses_at_resume = Some(self.steps.len());
                }
            }
            Event::BudgetReached { scope, .. } => self.is_limit_recorded = scope.is_trial(),
            Event::Noted { note } => {
                if let Some(why) = note.get(RESTART_REASON_KEY).and_then(Value::as_str) {
                    self.interruptions.started_again = Some(why.to_owned());
                }
            }
            _ => {}
        }
        self.last_event_seconds = t_mono;
        if is_good {
            self.last_good_clock = JournalClock {
                seconds: t_mono,
                wait_seconds: self.wait_seconds,
                lost_seconds: self.lost_seconds,
                request_waits: self.request_waits,
            };
        }
        Ok(())
    }

    /// Charges the sent requests, including failed ones, to the main conversation.
    fn charge_pending_requests(&mut self) {
        for PendingRequest { usage, cost_usd, is_failed } in
            std::mem::take(&mut self.pending_requests)
        {
            self.spending.add(RequestClass::Main, &usage, cost_usd, false);
            if is_failed {
                self.spending.add_failed(&usage, cost_usd);
            }
        }
    }

    fn into_resume_point(
        mut self,
        try_number: u32,
        blobs: &Blobs,
    ) -> Result<Result<ResumePoint, String>, RecordError> {
        self.charge_pending_requests();
        let Some(base) = self.base_tree else {
            return Ok(Err("its agent had not started".into()));
        };
        if let Some(why) = unrestorable_reason(blobs, &base, &self.tree)? {
            return Ok(Err(why));
        }
        let outside = match self.outside_state {
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
            for ToolResult { call: mut done, edit: edited } in
                returned.into_iter().filter(|_| index < self.complete_steps)
            {
                tool_calls += 1;
                malformed += u64::from(done.is_malformed);
                in_tools += done.duration;
                let content = |hash: Option<String>| hash.map(|hash| blobs.get(&hash)).transpose();
                done.file_edit = match edited {
                    None => None,
                    Some(EditRecord { path, before, after }) => Some(FileEdit {
                        path,
                        old_content: content(before)?,
                        new_content: content(after)?,
                    }),
                };
                calls.push_back(done);
            }
            steps.push_back(RecordedStep { response: answer, calls });
        }
        let elapsed = (self.last_event_seconds - self.start_seconds - self.idle_seconds).max(0.0);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let used = PriorUsage {
            spending: self.spending,
            elapsed: seconds(elapsed),
            wait_time: seconds(self.wait_seconds),
            tool_time: in_tools,
            wait_totals: self.request_waits,
            lost_time: seconds(self.lost_seconds),
        };
        Ok(Ok(ResumePoint {
            try_number,
            base_tree: base,
            tree: self.tree,
            steps,
            complete_steps: self.complete_steps as u64,
            last_kept_seq: self.last_kept_seq,
            prior_usage: used,
            malformed_calls: malformed,
            tool_calls,
            responders: self.responders,
            request_changes: self.request_changes,
            is_limit_recorded: self.is_limit_recorded,
            is_final_response_recorded: self.is_final_response_recorded,
            first_messages: (!self.first_messages.is_empty()).then_some(self.first_messages),
            clock_seconds: self.last_event_seconds,
            outside_state: outside,
            interruptions: self.interruptions,
            is_new_fork: self.is_new_fork,
            attempts: self.attempts,
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
    if let Some(path) = tree.unwalked_dirs.first() {
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
