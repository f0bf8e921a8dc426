//! The trajectory: the append-only list of a trial's events, one JSON line each.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value};

use crate::{
    Answer, Api, Ask, BudgetKind, BudgetScope, Fault, ForkOrigin, Loss, Outcome, RequestClass,
    Responder, TaskId, TrialId, UrlRequest, Usage, Verdict,
};

/// The version of the envelope and of the closed set of kinds.
pub const EVENT_VERSION: u32 = 2;

/// One line of `trajectory.jsonl`. `sum` is the first 16 hex digits of the BLAKE3 hash of the line
/// without `sum`. A reader drops an incomplete last line and reports any other line that does not
/// match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`EVENT_VERSION`] of the writer.
    pub v: u32,
    /// Counted from 1, without gaps.
    pub seq: u64,
    /// Counted from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// Responses delivered so far.
    pub step: u64,
    /// Seconds since the try started, by the host's monotonic clock.
    pub t_mono: f64,
    /// Seconds since the Unix epoch, by the host's wall clock.
    pub t_wall: f64,
    /// The event. Its fields are on the same level as those of the envelope.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened: past tense, a closed set per version.
///
/// Readers keep unknown kinds as [`Event::Unknown`]. A known kind with unreadable fields is an
/// error: it is damage, or another version changed the kind. No reader may skip it.
///
/// ```
/// use proctor_types::{Envelope, Event};
///
/// let line = r#"{"v":2,"seq":7,"try":1,"step":3,"t_mono":9.5,"t_wall":1.7e9,
///     "kind":"patch_collected","bytes":120,"files":1,"hash":"af13"}"#;
/// let envelope: Envelope = serde_json::from_str(line).unwrap();
/// assert!(matches!(envelope.event, Event::PatchCollected { files: 1, .. }));
/// // A kind of a later version is kept; one of this version with a missing field is rejected.
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
        /// The attempt of the arm at the task, counted from 1.
        attempt: u32,
    },
    /// The sandbox is running, the work directory is prepared and the leak check passed.
    SetupFinished {
        /// `native` or `docker`.
        backend: String,
        /// Milliseconds from the start of the try until the agent can start: the sandbox is open,
        /// prepared and checked.
        start_ms: f64,
        /// The hash of the work directory's manifest before the agent starts. The patch is the
        /// difference from it.
        base_snapshot: String,
        /// Limits that the back end could not enforce, each with its reason.
        not_enforced: Vec<String>,
        /// Absent in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<crate::EnvironmentRecord>,
    },
    /// A request is about to be sent: what it adds to the previous one. The following
    /// `model_attempted` events name its exact bytes.
    ModelAsked {
        /// The request, without what earlier requests contained.
        ask: AskRecord,
    },
    /// The request was sent once; includes failed attempts.
    ModelAttempted {
        /// The attempt at this request, counted from 1.
        attempt: u32,
        /// The HTTP status. Absent if there was no response.
        status: Option<u16>,
        /// Why the attempt failed, in one line.
        error: Option<String>,
        /// Back-off before this attempt.
        wait_seconds: f64,
        /// Time in the queue for the endpoint's rate limits and for shared limits.
        #[serde(default)]
        queued_seconds: f64,
        /// The part of it for shared limits.
        #[serde(default, skip_serializing_if = "is_zero")]
        shared_seconds: f64,
        /// From the request to the last byte of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// The part of it that the endpoint lost: all of a failed attempt, and the time in which a
        /// response's stream contained only comments.
        #[serde(default, skip_serializing_if = "is_zero")]
        lost_seconds: f64,
        /// From the request to the first byte of the response's body. Absent: there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_byte_seconds: Option<f64>,
        /// What it was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<crate::Usage>,
        /// US dollars. Absent if the model has no price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The model, provider and server that responded. Absent if the response names none of
        /// them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        responder: Option<Responder>,
        /// Changes to the form of the request that made the endpoint accept it, by the names of
        /// `configs/repairs.toml`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<String>,
        /// Content hash of the exact bytes, among the blobs.
        request: Option<String>,
        /// The same for the response.
        body: Option<String>,
    },
    /// A step: one complete response was delivered to the scaffold.
    ModelAnswered {
        /// The response, as the scaffold received it.
        answer: Answer,
    },
    /// A request of a client of the gateway's HTTP server was answered or refused. The preceding
    /// `model_attempted` events are the attempts at the endpoint. If the response was delivered and
    /// belongs to the main conversation, `model_answered` follows.
    RequestServed {
        /// Within the trial, counted from 1.
        number: u64,
        /// The client's wire format.
        client: Api,
        /// The endpoint's wire format.
        upstream: Api,
        /// The path that the client requested.
        path: String,
        /// Whether it belongs to the main conversation or is a side request.
        class: RequestClass,
        /// The conversation of the sub-agent that made it, by `[requests.sub_agents]` of the
        /// manifest. Absent: the agent itself made it, or this is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The conversation that started that one, if the client names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// Whether the client requested a stream.
        streamed: bool,
        /// The HTTP status sent to the client.
        status: u16,
        /// Why it was refused or failed, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether the client received the complete response.
        delivered: bool,
        /// Content hash of the client's side of it, among the blobs.
        request: String,
        /// The same for the response. Absent if none was sent.
        response: Option<String>,
        /// What the translation lost, and what policy withheld.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        losses: Vec<Loss>,
        /// A complete response that is not a step: of a side request, or one that the client did
        /// not receive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<Answer>>,
        /// The usage of the response, if the endpoint responded.
        usage: Option<Usage>,
        /// US dollars. Absent if the model has no price.
        cost_usd: Option<f64>,
        /// From the client's request to the last byte sent to it.
        seconds: f64,
        /// From the client's request to the first byte sent to it.
        first_byte_seconds: Option<f64>,
    },
    /// The model's response calls a tool. `tool_returned` with the same `call_id` follows.
    ToolCalled {
        /// The model's id for the call.
        call_id: String,
        /// The tool, as the model named it.
        name: String,
        /// The arguments as JSON; a string if they are not JSON.
        arguments: Value,
    },
    /// `shown` is what the model sees; `full` is the hash of the complete output if it was cut.
    ToolReturned {
        /// The call that it answers.
        call_id: String,
        /// The tool, as the model named it.
        name: String,
        /// What the model sees, cut to the scaffold's limit.
        shown: String,
        /// The hash of the complete output among the blobs, if `shown` is not all of it.
        full: Option<String>,
        /// Of the command, for tools that run one. Absent if a signal ended it.
        exit_status: Option<i32>,
        /// How long the tool took.
        seconds: f64,
        /// The arguments could not be parsed, so nothing ran.
        malformed: bool,
        /// Its edit, if it made one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<EditRecord>,
    },
    /// An interrupted trial resumes: the files are those of `snapshot` again, and the conversation
    /// is that of the steps so far. Time since the previous event is not charged to any budget.
    TrialResumed {
        /// The hash of the manifest that was restored.
        snapshot: String,
        /// The last step whose tools need not run again.
        whole_steps: u64,
        /// Calls, outputs and snapshots after this event (`seq`) are discarded: their effects are
        /// undone, and the calls run again. What was paid stays paid.
        stands_to: u64,
    },
    /// The trial starts from the state of another one after a step. Earlier events belong to that
    /// trial.
    TrialForked {
        /// The trial and the step.
        from: ForkOrigin,
        /// The hash of the manifest that was restored.
        snapshot: String,
        /// What the other trial had spent by then. It counts towards this trial's limits if the
        /// conversation is copied.
        spent: crate::Spent,
        /// The hash of the changes outside the work directory, among the blobs. Absent: there are
        /// none, or they are not in the record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<String>,
    },
    /// The work directory after a step, in the record.
    SnapshotTaken {
        /// The hash of its manifest, among the blobs.
        snapshot: String,
        /// Paths that are new or changed since the previous snapshot.
        changed: u64,
        /// Paths that were removed since the previous snapshot.
        removed: u64,
        /// Bytes of content that the sandbox sent for it.
        bytes: u64,
        /// Duration in milliseconds.
        ms: f64,
        /// The state of the sandbox outside the work directory. Absent: nothing changed there since
        /// the agent started, the trial cannot be resumed, or an older version did not check.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<OutsideState>,
    },
    /// One response after the limit, for the record: it is not a step, and its calls are not run.
    GraceAnswered {
        /// The response. Its tool calls are not run.
        answer: Answer,
    },
    /// A limit was reached. The trial ends, or one grace response follows.
    BudgetReached {
        /// Which limit.
        budget: BudgetKind,
        /// The limit's scope: the trial, the arm or the run.
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
        /// What the trial had spent at that moment.
        spent: crate::Spent,
    },
    /// Why a try did not count.
    TryFailed {
        /// What broke.
        fault: Fault,
        /// Whether another try follows.
        will_retry: bool,
    },
    /// A request arrived at the egress proxy. The envelope's step is the one that made it. The
    /// event is written at the request's end, so it may follow events of a later step.
    UrlRequested(Box<UrlRequest>),
    /// The counters of the agent's sandbox, before it was closed.
    SandboxMeasured {
        /// From the agent's start on.
        counts: Box<crate::SandboxCounts>,
    },
    /// The patch was computed from the snapshots and written to `patch.diff`.
    PatchCollected {
        /// Its size.
        bytes: u64,
        /// Number of files it changes.
        files: u64,
        /// BLAKE3 of its bytes, hex. Only a patch with this hash is graded.
        hash: String,
    },
    /// Information that a scaffold records and no other kind covers.
    Noted {
        /// The scaffold's own keys.
        note: Map<String, Value>,
    },
    /// The last event of a trial, equal to `outcome.json`.
    TrialEnded {
        /// How it ended.
        outcome: Box<Outcome>,
        /// Bytes of the trial's own blobs at that time: a shorter pack has lost some. Absent if no
        /// blobs were stored, and in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packed: Option<u64>,
    },
    /// In `grade/journal.jsonl`: a trial's journal ends with its outcome, and it may be graded more
    /// than once afterwards. The last event counts. `patch`, `log` and `results` are BLAKE3 hashes
    /// of what was graded and of the files beside the journal.
    TrialGraded {
        /// The task's id.
        task: TaskId,
        /// The arm's full id.
        arm: String,
        /// The attempt, counted from 1.
        attempt: u32,
        /// Hash of `patch.diff`.
        patch: String,
        /// Hash of the grading log.
        log: String,
        /// Hash of the raw results.
        results: String,
        /// The verdict, equal to `verdict.json`.
        verdict: Box<Verdict>,
        /// Whether this is the withdrawn verdict, restored because regrading failed. Absent if it
        /// is not.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        given_back: bool,
    },
    /// In `grade/journal.jsonl`: the previous verdict no longer counts.
    VerdictWithdrawn {
        /// The reason, for people.
        why: String,
    },
    /// A kind of a later version, with all its fields.
    #[serde(skip)]
    Unknown(Map<String, Value>),
}

/// The kinds of this version.
const KINDS: [&str; 21] = [
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
];

/// The state outside the work directory after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideState {
    /// The hash of the changes since the agent started, among the blobs.
    Kept(String),
    /// Why the state cannot be restored in another sandbox: an interrupted trial restarts.
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
    /// The first event of this trial's journal.
    pub fn trial_started(id: &TrialId) -> Self {
        Self::TrialStarted { task: id.task.clone(), arm: id.arm.to_string(), attempt: id.attempt }
    }
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Not derived with an untagged variant: that accepts everything that does not parse, including
/// known kinds with invalid fields, and loses the error that names the field.
impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let Some(kind) = fields.get("kind").and_then(Value::as_str).map(str::to_owned) else {
            return Err(D::Error::missing_field("kind"));
        };
        if !KINDS.contains(&kind.as_str()) {
            return Ok(Self::Unknown(fields));
        }
        known(fields).map_err(|error| D::Error::custom(format_args!("{kind}: {error}")))
    }
}

/// Not generic: otherwise this large function would be instantiated in every crate that reads
/// events.
fn known(fields: Map<String, Value>) -> Result<Event, serde_json::Error> {
    Event::deserialize(Value::Object(fields))
}

/// An edit of one file, by a tool that can undo it. Contents are hashes among the blobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditRecord {
    /// The file, relative to the root of the sandbox.
    pub path: String,
    /// Absent: there was no file.
    pub before: Option<String>,
    /// Absent: the call undid the last edit of the file.
    pub after: Option<String>,
}

/// The events that no later `trial_resumed` undid, and payments.
pub fn standing(events: Vec<Envelope>) -> Vec<Envelope> {
    let undone: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|one| match &one.event {
            Event::TrialResumed { stands_to, .. } => Some((*stands_to, one.seq)),
            _ => None,
        })
        .collect();
    let acts = |event: &Event| {
        matches!(
            event,
            Event::ToolCalled { .. } | Event::ToolReturned { .. } | Event::SnapshotTaken { .. }
        )
    };
    let stands = |one: &Envelope| {
        !acts(&one.event) || !undone.iter().any(|(from, to)| one.seq > *from && one.seq < *to)
    };
    events.into_iter().filter(stands).collect()
}

/// A request in the record: messages of earlier requests of the trial are not repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskRecord {
    /// Number of unchanged messages at the start, compared with the previous request.
    pub kept: usize,
    /// What follows them.
    pub new: Ask,
    /// Indices (from 0) of new messages that are tool outputs already recorded in `shown` of a
    /// `tool_returned` since the previous request. Their content is omitted here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub as_returned: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The derived code's error for an unknown kind lists the kinds that it knows.
    #[test]
    fn the_list_of_kinds_is_that_of_the_type() {
        let error = Event::deserialize(json!({"kind": "dreamt"})).unwrap_err().to_string();
        let named: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(named, KINDS, "{error}");
    }

    #[test]
    fn a_known_kind_that_does_not_read_is_an_error_that_names_the_field() {
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
