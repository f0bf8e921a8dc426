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
/// without `sum`; a reader drops a torn last line and reports any other line that does not match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`EVENT_VERSION`] of the writer.
    pub v: u32,
    /// Counted from 1, without gaps.
    pub seq: u64,
    /// Counted from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// Answers delivered so far.
    pub step: u64,
    /// Seconds since the try began, by the host's monotonic clock.
    pub t_mono: f64,
    /// Seconds since the Unix epoch, by the host's wall clock.
    pub t_wall: f64,
    /// What happened. Its fields stand beside those of the envelope, on one level.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened: past tense, a closed set a version.
///
/// Readers keep kinds that they do not know, as [`Event::Unknown`]. A kind that they do know and whose
/// fields they cannot read is an error: it is damage, or another version changed the kind. No reader may
/// pass over it.
///
/// ```
/// use proctor_types::{Envelope, Event};
///
/// let line = r#"{"v":2,"seq":7,"try":1,"step":3,"t_mono":9.5,"t_wall":1.7e9,
///     "kind":"patch_collected","bytes":120,"files":1,"hash":"af13"}"#;
/// let envelope: Envelope = serde_json::from_str(line).unwrap();
/// assert!(matches!(envelope.event, Event::PatchCollected { files: 1, .. }));
/// // A kind of a later version is kept, one of this version with a field missing is refused.
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
        /// The arm's id, whole.
        arm: String,
        /// Which attempt of the arm at the task it is, counted from 1.
        attempt: u32,
    },
    /// The sandbox runs, the work directory is prepared and the leak check was verified.
    SetupFinished {
        /// `native` or `docker`.
        backend: String,
        /// Milliseconds from the begin of the try until the agent can start: the sandbox opened, prepared
        /// and checked.
        start_ms: f64,
        /// The hash of the work directory's manifest before the agent starts. The patch is the difference
        /// from it.
        base_snapshot: String,
        /// Limits that the back end could not enforce, each with its reason.
        not_enforced: Vec<String>,
        /// Absent in records of before it was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<crate::EnvironmentRecord>,
    },
    /// A request is about to leave: what it adds to the one before it. Its exact bytes are named by the
    /// `model_attempted` that follow.
    ModelAsked {
        /// The request, without what earlier requests held.
        ask: AskRecord,
    },
    /// The request was sent once, failed sends included.
    ModelAttempted {
        /// Which send of this request it is, counted from 1.
        attempt: u32,
        /// The HTTP status. Absent where no response came.
        status: Option<u16>,
        /// Why the send failed, in one line.
        error: Option<String>,
        /// Back-off before this send.
        wait_seconds: f64,
        /// Then in the queue for the endpoint's rate limits and for limits that trials share.
        #[serde(default)]
        queued_seconds: f64,
        /// Of these, for limits that trials share.
        #[serde(default, skip_serializing_if = "is_zero")]
        shared_seconds: f64,
        /// From the request to the last byte of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// Of these, what the endpoint lost: all of a send that failed, and the time in which a response's stream held
        /// comments alone.
        #[serde(default, skip_serializing_if = "is_zero")]
        lost_seconds: f64,
        /// From the request to the first byte of the response's body. Absent: none came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_byte_seconds: Option<f64>,
        /// What it was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<crate::Usage>,
        /// US dollars. Absent where the model has no price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The model, provider and server that answered. Absent if the response names none of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        responder: Option<Responder>,
        /// What was changed in the form of the request so that the endpoint accepts it, by the names of
        /// `configs/repairs.toml`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<String>,
        /// Content hashes of the exact bytes, among the blobs.
        request: Option<String>,
        /// Of the response, as `request` is of the request.
        body: Option<String>,
    },
    /// A step: one complete answer was delivered to the scaffold.
    ModelAnswered {
        /// The answer, as the scaffold was given it.
        answer: Answer,
    },
    /// A request of a client of the gateway's HTTP server was answered or refused. The sends to the
    /// endpoint are the `model_attempted` before it; where the answer was delivered and is of the
    /// main conversation, `model_answered` follows.
    RequestServed {
        /// Within the trial, counted from 1.
        number: u64,
        /// The wire format that the client spoke.
        client: Api,
        /// The wire format of the endpoint.
        upstream: Api,
        /// The path that the client asked for.
        path: String,
        /// Whether it was of the main conversation or a side request.
        class: RequestClass,
        /// The conversation of the sub-agent that made it, by `[requests.sub_agents]` of the manifest. Absent: the agent
        /// itself made it, or nothing tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The conversation that started that one, where the client names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// Whether the client asked for a stream.
        streamed: bool,
        /// The HTTP status that the client was given.
        status: u16,
        /// Why it was refused or failed, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether the client took the whole answer.
        delivered: bool,
        /// Content hashes of the client's side of it, among the blobs.
        request: String,
        /// Of the response, as `request` is of the request. Absent where none was sent.
        response: Option<String>,
        /// What translation could not carry over, and what policy withheld.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        losses: Vec<Loss>,
        /// A whole answer that is no step: of a side request, or one that nobody took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<Answer>>,
        /// What the answer took, where the endpoint answered.
        usage: Option<Usage>,
        /// US dollars. Absent where the model has no price.
        cost_usd: Option<f64>,
        /// From the client's request to the last byte that it was sent.
        seconds: f64,
        /// From the client's request to the first byte that it was sent.
        first_byte_seconds: Option<f64>,
    },
    /// The model's answer calls a tool. `tool_returned` with the same `call_id` follows.
    ToolCalled {
        /// The id that the model gave the call.
        call_id: String,
        /// The tool, as the model named it.
        name: String,
        /// The arguments as JSON; a string where they are not JSON.
        arguments: Value,
    },
    /// `shown` is what the model is shown; `full` the hash of the whole output where it was cut.
    ToolReturned {
        /// The call that it answers.
        call_id: String,
        /// The tool, as the model named it.
        name: String,
        /// What the model is shown, cut to the scaffold's limit.
        shown: String,
        /// The hash of the whole output among the blobs, where `shown` is not all of it.
        full: Option<String>,
        /// Of the command, for tools that run one. Absent where a signal ended it.
        exit_status: Option<i32>,
        /// How long the tool took.
        seconds: f64,
        /// The arguments could not be read, so that nothing was run.
        malformed: bool,
        /// The edit that it made, where it made one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<EditRecord>,
    },
    /// An interrupted trial goes on: the files are those of `snapshot` again, and the conversation is that of the
    /// steps so far. Time between the event before this one and this one is nobody's.
    TrialResumed {
        /// The hash of the manifest that was restored.
        snapshot: String,
        /// The last step whose tools need not run again.
        whole_steps: u64,
        /// Calls, outputs and snapshots of later events than this one (`seq`) do not stand: what they did is
        /// undone, and the calls run again. What was paid stays paid.
        stands_to: u64,
    },
    /// The trial begins as another one was after a step. Events before this one are that trial's.
    TrialForked {
        /// Which.
        from: ForkOrigin,
        /// The hash of the manifest that was restored.
        snapshot: String,
        /// What the other trial had spent by then. It counts towards this trial's limits where the conversation goes
        /// along.
        spent: crate::Spent,
        /// The hash of what had changed outside the work directory, among the blobs. Absent: nothing, or it is
        /// not in the record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<String>,
    },
    /// The work directory after a step, in the record.
    SnapshotTaken {
        /// The hash of its manifest, among the blobs.
        snapshot: String,
        /// Paths that are new or changed since the snapshot before.
        changed: u64,
        /// Paths that are gone since the snapshot before.
        removed: u64,
        /// Bytes of content that the sandbox sent for it.
        bytes: u64,
        /// Milliseconds that it took.
        ms: f64,
        /// The state of the sandbox outside the work directory. Absent: nothing changed there since the agent
        /// started, the trial cannot be resumed, or an older version did not look.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<OutsideState>,
    },
    /// One answer after the limit, for the record: no step, and its calls are not run.
    GraceAnswered {
        /// The answer. Its tool calls are not run.
        answer: Answer,
    },
    /// A limit was reached. The trial ends, or one grace answer follows.
    BudgetReached {
        /// Which limit.
        budget: BudgetKind,
        /// Whose limit: the trial's, the arm's or the run's.
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
    /// A request came to the egress proxy. The envelope's step is the one that made it: written at
    /// its end, it may stand behind events of a later step.
    UrlRequested(Box<UrlRequest>),
    /// What was counted of the agent's sandbox, before it was closed.
    SandboxMeasured {
        /// From the agent's start on.
        counts: Box<crate::SandboxCounts>,
    },
    /// The patch was computed from the snapshots and written to `patch.diff`.
    PatchCollected {
        /// Its size.
        bytes: u64,
        /// How many files it changes.
        files: u64,
        /// BLAKE3 of its bytes, hex. Only a patch with this hash is graded.
        hash: String,
    },
    /// Anything a scaffold wants kept that no other kind says.
    Noted {
        /// The scaffold's own keys.
        note: Map<String, Value>,
    },
    /// The last event of a trial, the same as `outcome.json`.
    TrialEnded {
        /// How it ended.
        outcome: Box<Outcome>,
        /// Bytes of the trial's own blobs by then: a pack that is shorter has lost some. Absent where no
        /// blobs were kept, and in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packed: Option<u64>,
    },
    /// In `grade/journal.jsonl`: the journal of a trial ends with its outcome, and it may be graded
    /// more than once after that. The last one counts. `patch`, `log` and `results` are BLAKE3 hashes of
    /// what was graded and of the files beside the journal.
    TrialGraded {
        /// The task's id.
        task: TaskId,
        /// The arm's id, whole.
        arm: String,
        /// Which attempt, counted from 1.
        attempt: u32,
        /// Of `patch.diff`.
        patch: String,
        /// Of the grading log.
        log: String,
        /// Of the raw results.
        results: String,
        /// The verdict, the same as `verdict.json`.
        verdict: Box<Verdict>,
        /// It is the verdict that was withdrawn: what was to grade anew could not. Absent where it is not.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        given_back: bool,
    },
    /// In `grade/journal.jsonl`: the verdict before it does not count any more.
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

/// What a step left outside the work directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideState {
    /// The hash of what had changed since the agent started, among the blobs.
    Kept(String),
    /// Why another sandbox cannot be given the same state: an interrupted trial starts again.
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

/// Not left to an untagged variant: that takes whatever does not read, known kinds with wrong fields
/// too, and the error that names the field is lost.
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

/// Not generic: every crate that reads events would have this large function again.
fn known(fields: Map<String, Value>) -> Result<Event, serde_json::Error> {
    Event::deserialize(Value::Object(fields))
}

/// An edit of one file, by a tool that can undo it. Contents are hashes among the blobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditRecord {
    /// The file, from the root of the sandbox.
    pub path: String,
    /// Absent: there was no file.
    pub before: Option<String>,
    /// Absent: the call undid the last edit of the file.
    pub after: Option<String>,
}

/// The events of which nothing was undone by a later `trial_resumed`, and what was paid.
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

/// A request in the record: messages that earlier requests of the trial held are not repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskRecord {
    /// How many messages of the request before this one are unchanged at its head.
    pub kept: usize,
    /// What follows them.
    pub new: Ask,
    /// Which of the new messages, counted from 0, are outputs of tools that stand in `shown` of the
    /// `tool_returned` of their call since the request before. Their content is left out here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub as_returned: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The derived code names the kinds that it reads where it meets another.
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
