//! The trajectory: an append-only log of a trial's events, one JSON object per line.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value};

use crate::{
    Api, BudgetKind, BudgetScope, Fault, FieldLoss, ForkOrigin, ModelRequest, ModelResponse,
    Outcome, RequestClass, Responder, TaskId, TrialId, UrlRequest, Usage, Verdict,
};

/// The version of the envelope and of the set of event kinds.
pub const EVENT_VERSION: u32 = 2;

/// One line of `trajectory.jsonl`. `sum` is the first 16 hex digits of the BLAKE3 hash of the line
/// without `sum`. A reader drops an incomplete last line and reports any other line whose `sum`
/// does not match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`EVENT_VERSION`] of the writer.
    pub v: u32,
    /// Sequence number, counted from 1 without gaps.
    pub seq: u64,
    /// Number of the try, counted from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// Number of responses delivered so far.
    pub step: u64,
    /// Seconds since the try started, by the host's monotonic clock.
    pub t_mono: f64,
    /// Seconds since the Unix epoch, by the host's wall clock.
    pub t_wall: f64,
    /// The event. Its fields are on the same level as the envelope's fields.
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened in a trial. Each version has a fixed set of kinds, named in the past
/// tense.
///
/// Readers keep unknown kinds as [`Event::Unknown`]. A known kind with invalid fields is an error
/// that readers must not skip: the line is corrupt, or another version changed the kind.
///
/// ```
/// use proctor_types::{Envelope, Event};
///
/// let line = r#"{"v":2,"seq":7,"try":1,"step":3,"t_mono":9.5,"t_wall":1.7e9,
///     "kind":"patch_collected","bytes":120,"files":1,"hash":"af13"}"#;
/// let envelope: Envelope = serde_json::from_str(line).unwrap();
/// assert!(matches!(envelope.event, Event::PatchCollected { files: 1, .. }));
/// // An unknown kind is kept. A known kind with a missing field is rejected.
/// let later = line.replace("patch_collected", "patch_signed");
/// let envelope: Envelope = serde_json::from_str(&later).unwrap();
/// assert!(matches!(envelope.event, Event::Unknown(_)));
/// let damaged = line.replace(r#","hash":"af13""#, "");
/// let error = serde_json::from_str::<Envelope>(&damaged).unwrap_err();
/// assert!(error.to_string().contains("patch_collected: missing field `hash`"));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// The first event of every try.
    TrialStarted {
        /// The task's id.
        task: TaskId,
        /// The arm's full id.
        arm: String,
        /// Number of the arm's attempt at the task, counted from 1.
        attempt: u32,
    },
    /// The sandbox is running, the work directory is prepared and the leak check passed.
    SetupFinished {
        /// `native` or `docker`.
        backend: String,
        /// Milliseconds from the start of the try until the agent can start: the sandbox is open,
        /// prepared and checked.
        start_ms: f64,
        /// Hash of the work directory's manifest before the agent starts. The patch is the
        /// difference from this state.
        base_snapshot: String,
        /// Limits that the back end could not enforce, each with its reason.
        not_enforced: Vec<String>,
        /// The environment that the sandbox runs on. Absent in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<crate::EnvironmentRecord>,
    },
    /// A request is about to be sent. This event records only what the request adds to the previous
    /// one. The `model_attempted` events that follow have the hash of the request's exact bytes.
    ModelAsked {
        /// The request, without messages that earlier requests contained.
        ask: ModelRequestRecord,
    },
    /// One attempt to send the request ended, successfully or not.
    ModelAttempted {
        /// Number of the attempt at this request, counted from 1.
        attempt: u32,
        /// The HTTP status. Absent if there was no response.
        status: Option<u16>,
        /// Why the attempt failed, in one line.
        error: Option<String>,
        /// Back-off before this attempt, in seconds.
        wait_seconds: f64,
        /// Seconds spent waiting for the endpoint's rate limits and for shared limits.
        #[serde(default)]
        queued_seconds: f64,
        /// The part of `queued_seconds` spent waiting for shared limits.
        #[serde(default, skip_serializing_if = "is_zero")]
        shared_seconds: f64,
        /// Seconds from the request to the last byte of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// The part of `seconds` that was lost to the endpoint: all of a failed attempt, and the
        /// time in its queue, which the endpoint states or shows by comments in the stream.
        #[serde(default, skip_serializing_if = "is_zero")]
        lost_seconds: f64,
        /// Seconds from the request to the first byte of the response's body. Absent if no byte of
        /// the body arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_byte_seconds: Option<f64>,
        /// The tokens that the endpoint charged for the attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<crate::Usage>,
        /// Cost in US dollars. Absent if the model has no price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The model, provider and server that responded. Absent if the response names none of
        /// them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        responder: Option<Responder>,
        /// Repairs that made the endpoint accept the request, by their names in
        /// `configs/tables/repairs.toml`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<String>,
        /// Blob hash of the request's exact bytes.
        request: Option<String>,
        /// Blob hash of the response.
        body: Option<String>,
    },
    /// A step: one complete response was delivered to the scaffold.
    ModelAnswered {
        /// The response, as the scaffold received it.
        answer: ModelResponse,
    },
    /// The gateway's HTTP server answered or refused a client's request. The preceding
    /// `model_attempted` events are the attempts at the endpoint. If the response was delivered and
    /// belongs to the main conversation, `model_answered` follows.
    RequestServed {
        /// Number of the request within the trial, counted from 1.
        number: u64,
        /// The client's wire format.
        client: Api,
        /// The endpoint's wire format.
        upstream: Api,
        /// The path that the client requested.
        path: String,
        /// Whether the request belongs to the main conversation or is a side request.
        class: RequestClass,
        /// The sub-agent's conversation, according to `[requests.sub_agents]` of the manifest.
        /// Absent if the agent itself made the request, or if it is unknown which agent did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The conversation that started `conversation`, if the client names its parent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// Whether the client requested a stream.
        streamed: bool,
        /// The HTTP status sent to the client.
        status: u16,
        /// Why the request was refused or failed, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether the client received the complete response.
        delivered: bool,
        /// Blob hash of the request as the client sent it.
        request: String,
        /// Blob hash of the response as sent to the client. Absent if no response was sent.
        response: Option<String>,
        /// Fields that the translation between formats lost or that policy withheld.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        losses: Vec<FieldLoss>,
        /// A complete response that is not a step, because it belongs to a side request or the
        /// client did not receive it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<ModelResponse>>,
        /// The usage of the response, if the endpoint responded.
        usage: Option<Usage>,
        /// Cost in US dollars. Absent if the model has no price.
        cost_usd: Option<f64>,
        /// Seconds from the client's request to the last byte that the gateway sent to the client.
        seconds: f64,
        /// Seconds from the client's request to the first byte that the gateway sent to the client.
        first_byte_seconds: Option<f64>,
    },
    /// The model's response calls a tool. `tool_returned` with the same `call_id` follows.
    ToolCalled {
        /// The model's id for the call.
        call_id: String,
        /// The tool's name, as written by the model.
        name: String,
        /// The arguments as JSON; a string if they are not JSON.
        arguments: Value,
    },
    /// A tool call returned. `shown` is what the model sees; `full` is the hash of the complete
    /// output if it was truncated.
    ToolReturned {
        /// The id of the call.
        call_id: String,
        /// The tool's name, as written by the model.
        name: String,
        /// The output that the model sees, truncated to the scaffold's limit.
        shown: String,
        /// Blob hash of the complete output, if `shown` is truncated.
        full: Option<String>,
        /// Exit status of the command, for tools that run one. Absent if a signal killed it.
        exit_status: Option<i32>,
        /// How long the tool took, in seconds.
        seconds: f64,
        /// Whether the arguments could not be parsed, so that nothing ran.
        malformed: bool,
        /// The file edit that the tool made, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<EditRecord>,
    },
    /// An interrupted trial resumes with the files of `snapshot` and the conversation so far. Time
    /// since the previous event is not charged to any budget.
    TrialResumed {
        /// Hash of the restored manifest of the work directory.
        snapshot: String,
        /// The last step whose tool calls need not run again.
        whole_steps: u64,
        /// The `seq` of the last event that is kept. Later calls, outputs and snapshots are
        /// discarded: their effects are undone, and the calls run again. The cost of model
        /// responses still counts.
        stands_to: u64,
    },
    /// The trial starts from the state of another trial after a step. Earlier events belong to that
    /// other trial.
    TrialForked {
        /// The original trial and the step.
        from: ForkOrigin,
        /// Hash of the restored manifest of the work directory.
        snapshot: String,
        /// What the original trial had spent by that step. This spending counts toward the new
        /// trial's limits if the conversation is copied.
        spent: crate::Spending,
        /// Blob hash of the changes outside the work directory, if there are any and they were
        /// recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<String>,
    },
    /// The work directory was recorded after a step.
    SnapshotTaken {
        /// Blob hash of the work directory's manifest.
        snapshot: String,
        /// Number of paths that are new or changed since the previous snapshot.
        changed: u64,
        /// Number of paths that were removed since the previous snapshot.
        removed: u64,
        /// Bytes of content that the sandbox sent for the snapshot.
        bytes: u64,
        /// Duration in milliseconds.
        ms: f64,
        /// The state of the sandbox outside the work directory. Absent if nothing changed there
        /// since the agent started, if the trial cannot be resumed, or in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<OutsideState>,
    },
    /// The model returned one more response after a limit was reached. The response does not count
    /// as a step, and its tool calls are not run.
    GraceAnswered {
        /// The response.
        answer: ModelResponse,
    },
    /// A limit was reached. The trial ends, or one grace response follows.
    BudgetReached {
        /// The limit that was reached.
        budget: BudgetKind,
        /// The limit's scope: the trial, the arm or the run.
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
        /// What the trial had spent at that moment.
        spent: crate::Spending,
    },
    /// A try failed with a fault. The try's results are discarded.
    TryFailed {
        /// The fault.
        fault: Fault,
        /// Whether another try follows.
        will_retry: bool,
    },
    /// The egress proxy handled a request. The envelope's `step` is the step that made the request.
    /// The event is written when the request ends, so it may follow events of a later step.
    UrlRequested(Box<UrlRequest>),
    /// The resource counters of the agent's sandbox were read before it was closed.
    SandboxMeasured {
        /// Counters since the agent started.
        counts: Box<crate::SandboxCounts>,
    },
    /// The patch was computed from the snapshots and written to `patch.diff`.
    PatchCollected {
        /// Size of the patch in bytes.
        bytes: u64,
        /// Number of files that the patch changes.
        files: u64,
        /// BLAKE3 hash of the patch, in hex. Only a patch with this hash is graded.
        hash: String,
    },
    /// The scaffold recorded information that no other kind covers.
    Noted {
        /// Scaffold-specific keys.
        note: Map<String, Value>,
    },
    /// The trial ended. This is the trial's last event, with the same content as `outcome.json`.
    TrialEnded {
        /// How the trial ended.
        outcome: Box<Outcome>,
        /// Size of the trial's blob pack, in bytes, when this event was written. If the pack is now
        /// smaller, blobs have been lost. Absent if no blobs were stored, and in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packed: Option<u64>,
    },
    /// The trial was graded. The event is recorded in `grade/journal.jsonl`, because a trial's own
    /// journal ends with its outcome. If a trial was graded more than once, the last event is the
    /// valid one. `patch`, `log` and `results` are BLAKE3 hashes of the graded patch and of the
    /// files next to the journal.
    TrialGraded {
        /// The task's id.
        task: TaskId,
        /// The arm's full id.
        arm: String,
        /// Number of the attempt, counted from 1.
        attempt: u32,
        /// Hash of `patch.diff`.
        patch: String,
        /// Hash of the grading log.
        log: String,
        /// Hash of the raw results.
        results: String,
        /// The verdict, equal to `verdict.json`.
        verdict: Box<Verdict>,
        /// Whether this event restores a withdrawn verdict because regrading failed. Absent means
        /// false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        given_back: bool,
    },
    /// The previous verdict was withdrawn and is no longer valid. The event is recorded in
    /// `grade/journal.jsonl`.
    VerdictWithdrawn {
        /// The reason, in words.
        why: String,
    },
    /// A grading failed with a fault, so the trial has no verdict from it. The event is recorded in
    /// `grade/journal.jsonl`.
    GradingFailed {
        /// The task's id.
        task: TaskId,
        /// The arm's full id.
        arm: String,
        /// Number of the attempt, counted from 1.
        attempt: u32,
        /// The fault.
        fault: Fault,
        /// Whether Proctor grades the trial again in the same invocation.
        will_retry: bool,
        /// Name of the file next to the journal with the output of the failed grading. Absent if
        /// there is no output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log_file: Option<String>,
        /// BLAKE3 hash of that file. Absent if there is no such file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<String>,
    },
    /// An event of a kind that this version does not know, with all its fields.
    #[serde(skip)]
    Unknown(Map<String, Value>),
}

/// The names of all kinds except [`Event::Unknown`].
const EVENT_KINDS: [&str; 22] = [
    "trial_started",
    "setup_finished",
    "model_asked",
    "model_attempted",
    "model_answered",
    "request_served",
    "tool_called",
    "tool_returned",
    "trial_resumed",
    "trial_forked",
    "snapshot_taken",
    "grace_answered",
    "budget_reached",
    "try_failed",
    "url_requested",
    "sandbox_measured",
    "patch_collected",
    "noted",
    "trial_ended",
    "trial_graded",
    "verdict_withdrawn",
    "grading_failed",
];

/// The state of a sandbox outside the work directory after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideState {
    /// Blob hash of the changes since the agent started.
    Kept(String),
    /// Why the state cannot be restored in another sandbox. If the trial is interrupted, it starts
    /// over.
    Unkept(String),
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(fields) => fields.serialize(serializer),
            known => Self::serialize(known, serializer),
        }
    }
}

impl Event {
    /// Returns the first event of this trial's journal.
    pub fn trial_started(id: &TrialId) -> Self {
        Self::TrialStarted { task: id.task.clone(), arm: id.arm.to_string(), attempt: id.attempt }
    }
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Implemented by hand, because an untagged variant would accept known kinds with invalid fields
/// and lose the error that names the field.
impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let Some(kind) = fields.get("kind").and_then(Value::as_str).map(str::to_owned) else {
            return Err(D::Error::missing_field("kind"));
        };
        if !EVENT_KINDS.contains(&kind.as_str()) {
            return Ok(Self::Unknown(fields));
        }
        deserialize_known_event(fields)
            .map_err(|error| D::Error::custom(format_args!("{kind}: {error}")))
    }
}

/// Not generic, because the compiler would otherwise instantiate this large code in every crate
/// that reads events.
fn deserialize_known_event(fields: Map<String, Value>) -> Result<Event, serde_json::Error> {
    Event::deserialize(Value::Object(fields))
}

/// An edit of one file by a tool that can undo its edits. The contents are stored as blob hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditRecord {
    /// The file, relative to the root of the sandbox.
    pub path: String,
    /// Content before the edit. Absent if the file did not exist.
    pub before: Option<String>,
    /// Content after the edit. Absent if the call undid the last edit of the file.
    pub after: Option<String>,
}

/// Removes the tool calls, tool results and snapshots that a later `trial_resumed` event discarded.
pub fn remove_discarded_events(events: Vec<Envelope>) -> Vec<Envelope> {
    let undone: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|one| match &one.event {
            Event::TrialResumed { stands_to, .. } => Some((*stands_to, one.seq)),
            _ => None,
        })
        .collect();
    let is_undoable = |event: &Event| {
        matches!(
            event,
            Event::ToolCalled { .. } | Event::ToolReturned { .. } | Event::SnapshotTaken { .. }
        )
    };
    let is_kept = |one: &Envelope| {
        !is_undoable(&one.event)
            || !undone.iter().any(|(from, to)| one.seq > *from && one.seq < *to)
    };
    events.into_iter().filter(is_kept).collect()
}

/// A recorded request, without the messages that the trial's earlier requests contained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequestRecord {
    /// Number of leading messages that are unchanged since the previous request.
    pub kept: usize,
    /// The rest of the request.
    pub new: ModelRequest,
    /// Indices (from 0) of new messages that are tool outputs already recorded in `shown` of a
    /// `tool_returned` since the previous request. Their content is omitted here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub as_returned: Vec<usize>,
}

impl ModelRequestRecord {
    /// Whether the request contains the whole conversation of the previous one, which had
    /// `message_count` messages. The last of these messages need not be equal, because a notice may
    /// have been appended to it in only one of the requests. If nothing was sent before, a resumed
    /// try continues the recorded conversation.
    pub fn continues(&self, message_count: usize) -> bool {
        message_count == 0 || self.kept > 0 && self.kept + 1 >= message_count
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// For an unknown kind, the derived deserializer returns an error that lists all known kinds.
    #[test]
    fn kinds_match_the_event_variants() {
        let error = Event::deserialize(json!({"kind": "dreamt"})).unwrap_err().to_string();
        let named: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(named, EVENT_KINDS, "{error}");
    }

    #[test]
    fn known_kind_with_invalid_fields_is_an_error_naming_the_field() {
        for (event, named) in [
            (json!({"kind": "tool_called", "call_id": "1", "name": "ls"}), "arguments"),
            (json!({"kind": "verdict_withdrawn", "why": 5}), "verdict_withdrawn"),
            (json!({"kind": "model_answered", "answer": {}}), "model_answered: missing field"),
            (json!({"note": {}}), "kind"),
        ] {
            let error = serde_json::from_value::<Event>(event).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        let later = json!({"kind": "dreamt", "of": ["sheep"]});
        let kept: Event = serde_json::from_value(later.clone()).unwrap();
        assert!(matches!(kept, Event::Unknown(_)));
        assert_eq!(serde_json::to_value(&kept).unwrap(), later);
    }
}
