//! Reads the journal of an interrupted or faulted try: the responses, the results of their calls,
//! the tree, and what was spent.

use std::{collections::VecDeque, time::Duration};

use proctor_gateway::Used;
use proctor_record::{Blobs, RecordError, Tree, read_journal};
use proctor_sandbox_api::wire::EntryKind;
use proctor_scaffold_api::{Edited, ToolDone};
use proctor_types::{
    Answer, EditRecord, Ending, Envelope, Event, Fault, Interruptions, Layer, Message,
    OutsideState, RequestChanges, RequestClass, RequestWaits, Responders, Spent, Usage, standing,
};
use serde_json::Value;

use crate::outside;

/// The key of a note: why the previous try was discarded although it was only interrupted.
pub(crate) const STARTED_AGAIN: &str = "started_again";

/// A try that can continue from its last complete step.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub(crate) try_number: u32,
    /// The tree that the agent started with.
    pub(crate) base: String,
    /// The tree to continue with.
    pub(crate) tree: String,
    /// Every recorded response. The calls of the last one are absent if they have to run again.
    pub(crate) steps: VecDeque<PastStep>,
    pub(crate) whole_steps: u64,
    /// The number of the last event that is kept.
    pub(crate) stands_to: u64,
    pub(crate) used: Used,
    pub(crate) malformed: u64,
    /// Tool calls that are kept.
    pub(crate) tool_calls: u64,
    /// Who served its responses.
    pub(crate) responders: Responders,
    /// Changes made to its requests.
    pub(crate) changes: RequestChanges,
    /// The record holds the limit that ended the trial.
    pub(crate) limit_told: bool,
    /// The record holds the response after that limit.
    pub(crate) last_words: bool,
    /// The first messages, if they are known without a notice of the remaining budget.
    pub(crate) opening: Option<Vec<Message>>,
    /// The try's clock at its last event, in seconds.
    pub(crate) seconds: f64,
    /// Blob of the state outside the work directory to continue with. Absent: that of a fresh
    /// sandbox.
    pub(crate) outside: Option<String>,
    /// The effect of interruptions on the try so far.
    pub(crate) interruptions: Interruptions,
    /// A fork that has not started yet.
    pub(crate) just_forked: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct PastStep {
    pub(crate) answer: Answer,
    pub(crate) calls: VecDeque<ToolDone>,
}

/// Processes the journal event by event.
#[derive(Default)]
struct Reader {
    base: Option<String>,
    tree: String,
    steps: Vec<(Answer, Vec<Returned>)>,
    whole_steps: usize,
    stands_to: u64,
    spent: Spent,
    /// Sent requests without a response yet.
    sends: Vec<(Usage, Option<f64>)>,
    responders: Responders,
    changes: RequestChanges,
    waited: f64,
    lost: f64,
    waits: RequestWaits,
    limit_told: bool,
    last_words: bool,
    asks: usize,
    opening: Vec<Message>,
    /// When the agent's clock started.
    begun: f64,
    /// Seconds of the journal's clock in which no agent ran.
    idle: f64,
    last: f64,
    /// The clock at the last response or tree.
    well: Clock,
    /// The fault that ended the try, until a later try continues it.
    fault: Option<Fault>,
    /// Number of responses when the try was continued after its sandbox broke.
    went_on_at: Option<usize>,
    /// The sandbox broke again before the next response: most likely the last response's calls
    /// break it.
    stuck: bool,
    outside: Option<OutsideState>,
    interruptions: Interruptions,
    /// The last event is a fork's.
    just_forked: bool,
}

/// The journal's clock, and how much of it was waiting.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    seconds: f64,
    waited: f64,
    lost: f64,
    waits: RequestWaits,
}

/// What the main conversation had spent at the end of some events.
pub(crate) fn spent_after(events: &[Envelope]) -> Spent {
    let mut reader = Reader::default();
    for event in events {
        // Ending does not change what was spent.
        let _ = reader.take(event.clone());
    }
    reader.settle();
    reader.spent
}

struct Returned {
    done: ToolDone,
    edited: Option<EditRecord>,
}

impl Past {
    /// Reads the latest try of a trial. `goes_on` decides which faults can be continued. `Err`: why
    /// the try cannot be continued, in a few words.
    pub(crate) fn read(
        journal: &std::path::Path,
        blobs: &Blobs,
        goes_on: &dyn Fn(&Fault) -> bool,
    ) -> Result<Result<Self, String>, RecordError> {
        let reading = read_journal(journal)?;
        if let Some(lost) = reading.lost() {
            return Ok(Err(lost.to_string()));
        }
        let Some(first) = reading.events.first() else {
            return Ok(Err("its record is empty".into()));
        };
        let try_number = first.try_number;
        let mut reader = Reader::default();
        for envelope in standing(reading.events) {
            if let Err(why) = reader.take(envelope) {
                return Ok(Err(why));
            }
        }
        match &reader.fault {
            Some(fault) if !goes_on(fault) => return Ok(Err("it ended with a fault".into())),
            Some(_) if reader.stuck => {
                return Ok(Err("its sandbox failed twice after the same response".into()));
            }
            _ => {}
        }
        reader.whole(try_number, blobs)
    }
}

impl Reader {
    fn take(&mut self, envelope: Envelope) -> Result<(), String> {
        let Envelope { seq, t_mono, event, .. } = envelope;
        let is_well = matches!(
            event,
            Event::SetupFinished { .. }
                | Event::TrialResumed { .. }
                | Event::ModelAnswered { .. }
                | Event::GraceAnswered { .. }
                | Event::SnapshotTaken { .. }
        );
        match event {
            Event::TryFailed { fault, .. } => {
                // Time that led to the fault is not charged, such as an hour of retrying an
                // endpoint that is down.
                let Clock { seconds, waited, lost, waits } = self.well;
                (self.last, self.waited, self.waits) = (seconds.max(self.begun), waited, waits);
                self.lost = lost;
                if fault.layer == Layer::Sandbox {
                    self.stuck = self.went_on_at == Some(self.steps.len());
                }
                self.fault = Some(fault);
                return Ok(());
            }
            Event::TrialEnded { outcome, .. } => {
                return match (&outcome.ending, &self.fault) {
                    (Ending::InfrastructureFault { .. }, Some(_)) => Ok(()),
                    // A shared limit was raised since.
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
                    // A notice of the remaining budget is in one request only, so the second
                    // request has the first messages without it.
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
                ..
            } => {
                if error.is_none() {
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
                self.steps.push((answer, Vec::new()));
            }
            Event::GraceAnswered { .. } => {
                for (usage, cost) in std::mem::take(&mut self.sends) {
                    self.spent.add_grace(&usage, cost, false);
                }
                self.spent.grace_answers += 1;
                self.last_words = true;
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
                let done = ToolDone {
                    call_id,
                    name,
                    shown,
                    exit_status,
                    duration,
                    malformed,
                    ..ToolDone::default()
                };
                if let Some((_, calls)) = self.steps.last_mut() {
                    calls.push(Returned { done, edited });
                }
            }
            Event::SnapshotTaken { snapshot, outside, .. } if self.base.is_some() => {
                (self.tree, self.outside) = (snapshot, outside);
                (self.whole_steps, self.stands_to) = (self.steps.len(), seq);
            }
            Event::TrialForked { snapshot, outside, .. } => {
                (self.tree, self.outside) = (snapshot, outside.map(OutsideState::Kept));
                (self.interruptions, self.just_forked) = (Interruptions::default(), true);
                (self.whole_steps, self.stands_to) = (self.steps.len(), seq);
            }
            Event::TrialResumed { whole_steps, .. } => {
                // A fork starts with one, too.
                if !std::mem::take(&mut self.just_forked) {
                    self.interruptions.resumed_after.push(whole_steps);
                }
                self.idle += t_mono - self.last;
                self.stands_to = seq;
                if self.fault.take().is_some_and(|fault| fault.layer == Layer::Sandbox) {
                    self.went_on_at = Some(self.steps.len());
                }
            }
            Event::BudgetReached { scope, .. } => self.limit_told = scope.is_trial(),
            Event::Noted { note } => {
                if let Some(why) = note.get(STARTED_AGAIN).and_then(Value::as_str) {
                    self.interruptions.started_again = Some(why.to_owned());
                }
            }
            _ => {}
        }
        self.last = t_mono;
        if is_well {
            self.well =
                Clock { seconds: t_mono, waited: self.waited, lost: self.lost, waits: self.waits };
        }
        Ok(())
    }

    /// Charges the sent requests of the main conversation.
    fn settle(&mut self) {
        for (usage, cost) in std::mem::take(&mut self.sends) {
            self.spent.add(RequestClass::Main, &usage, cost, false);
        }
    }

    fn whole(
        mut self,
        try_number: u32,
        blobs: &Blobs,
    ) -> Result<Result<Past, String>, RecordError> {
        self.settle();
        let Some(base) = self.base else {
            return Ok(Err("its agent had not started".into()));
        };
        if let Some(why) = cannot_be_restored(blobs, &base, &self.tree)? {
            return Ok(Err(why));
        }
        let outside = match self.outside {
            None => None,
            Some(OutsideState::Kept(digest)) => {
                if let Err(error) = outside::check(blobs, &digest) {
                    return damaged(error).map(Err);
                }
                Some(digest)
            }
            Some(OutsideState::Unkept(why)) => {
                return Ok(Err(format!("its state outside the work directory is lost: {why}")));
            }
        };
        let (mut malformed, mut tool_calls, mut in_tools) = (0, 0, Duration::ZERO);
        let mut steps = VecDeque::new();
        for (index, (answer, returned)) in self.steps.into_iter().enumerate() {
            let mut calls = VecDeque::new();
            // Calls that ran after the tree was kept are not in it and run again.
            for Returned { mut done, edited } in
                returned.into_iter().filter(|_| index < self.whole_steps)
            {
                tool_calls += 1;
                malformed += u64::from(done.malformed);
                in_tools += done.duration;
                let content = |hash: Option<String>| hash.map(|hash| blobs.get(&hash)).transpose();
                done.edited = match edited {
                    None => None,
                    Some(EditRecord { path, before, after }) => {
                        Some(Edited { path, before: content(before)?, after: content(after)? })
                    }
                };
                calls.push_back(done);
            }
            steps.push_back(PastStep { answer, calls });
        }
        let elapsed = (self.last - self.begun - self.idle).max(0.0);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let used = Used {
            spent: self.spent,
            elapsed: seconds(elapsed),
            waited: seconds(self.waited),
            in_tools,
            waits: self.waits,
            lost: seconds(self.lost),
        };
        Ok(Ok(Past {
            try_number,
            base,
            tree: self.tree,
            steps,
            whole_steps: self.whole_steps as u64,
            stands_to: self.stands_to,
            used,
            malformed,
            tool_calls,
            responders: self.responders,
            changes: self.changes,
            limit_told: self.limit_told,
            last_words: self.last_words,
            opening: (!self.opening.is_empty()).then_some(self.opening),
            seconds: self.last,
            outside,
            interruptions: self.interruptions,
            just_forked: self.just_forked,
        }))
    }
}

/// Returns why the record cannot restore `tree` from `base`, if it cannot.
pub(crate) fn cannot_be_restored(
    blobs: &Blobs,
    base: &str,
    tree: &str,
) -> Result<Option<String>, RecordError> {
    let (base, tree) = match (Tree::load(blobs, base), Tree::load(blobs, tree)) {
        (Ok(base), Ok(tree)) => (base, tree),
        (Err(error), _) | (_, Err(error)) => return damaged(error).map(Some),
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
    // Read everything first: a trial that cannot be restored must not leave a partial restoration.
    let files = base.diff(&tree).filter_map(|one| one.end);
    let mut contents =
        files.filter(|entry| entry.kind == EntryKind::File).filter_map(|entry| entry.hash.as_ref());
    let lost = contents.find_map(|hash| blobs.get(hash).err());
    lost.map(damaged).transpose()
}

/// Content that the record has lost is a reason; a disk read error is a fault.
fn damaged(error: RecordError) -> Result<String, RecordError> {
    match error {
        RecordError::Corrupt { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests;
