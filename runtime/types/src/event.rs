//! The trajectory: the append-only list of a trial's events, one JSON line each.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Answer, Api, Ask, BudgetKind, BudgetScope, Fault, Loss, Outcome, RequestClass, TaskId,
    UrlRequest, Usage, Verdict,
};

/// The version of the envelope and of the closed set of kinds.
pub const EVENT_VERSION: u32 = 2;

/// One line of `trajectory.jsonl`. `sum` is the first 16 hex digits of the BLAKE3 hash of the line
/// without `sum`; a reader drops a torn last line and reports any other line that does not match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
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
    #[serde(flatten)]
    pub event: Event,
}

/// What happened: past tense, a closed set a version. Readers keep kinds they do not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    TrialStarted {
        task: TaskId,
        arm: String,
        attempt: u32,
    },
    /// The sandbox runs, the work directory is prepared and the leak check was verified.
    SetupFinished {
        backend: String,
        start_ms: f64,
        base_snapshot: String,
        not_enforced: Vec<String>,
        /// Absent in records of before it was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<crate::EnvironmentRecord>,
    },
    /// A request is about to leave: what it adds to the one before it. Its exact bytes are named by the
    /// `model_attempted` that follow.
    ModelAsked {
        ask: AskRecord,
    },
    /// The request was sent once, failed sends included.
    ModelAttempted {
        attempt: u32,
        status: Option<u16>,
        error: Option<String>,
        /// Back-off before this send.
        wait_seconds: f64,
        /// Then in the queue for the endpoint's rate limits and for limits that trials share.
        #[serde(default)]
        queued_seconds: f64,
        /// From the request to the last byte of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// From the request to the first byte of the response's body. Absent: none came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_byte_seconds: Option<f64>,
        /// What it was charged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<crate::Usage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Content hashes of the exact bytes, among the blobs.
        request: Option<String>,
        body: Option<String>,
    },
    /// A step: one complete answer was delivered to the scaffold.
    ModelAnswered {
        answer: Answer,
    },
    /// A request of a client of the gateway's HTTP server was answered or refused. The sends to the
    /// endpoint are the `model_attempted` before it; where the answer was delivered and is of the
    /// main conversation, `model_answered` follows.
    RequestServed {
        /// Within the trial, counted from 1.
        number: u64,
        client: Api,
        upstream: Api,
        path: String,
        class: RequestClass,
        streamed: bool,
        status: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        delivered: bool,
        /// Content hashes of the client's side of it, among the blobs.
        request: String,
        response: Option<String>,
        /// What translation could not carry over, and what policy withheld.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        losses: Vec<Loss>,
        /// A whole answer that is no step: of a side request, or one that nobody took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<Answer>>,
        usage: Option<Usage>,
        cost_usd: Option<f64>,
        seconds: f64,
        first_byte_seconds: Option<f64>,
    },
    ToolCalled {
        call_id: String,
        name: String,
        arguments: Value,
    },
    /// `shown` is what the model is shown; `full` the hash of the whole output where it was cut.
    ToolReturned {
        call_id: String,
        name: String,
        shown: String,
        full: Option<String>,
        exit_status: Option<i32>,
        seconds: f64,
        malformed: bool,
    },
    SnapshotTaken {
        snapshot: String,
        changed: u64,
        removed: u64,
        bytes: u64,
        ms: f64,
    },
    /// One answer after the limit, for the record: no step, and its calls are not run.
    GraceAnswered {
        answer: Answer,
    },
    BudgetReached {
        budget: BudgetKind,
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
        spent: crate::Spent,
    },
    /// Why a try did not count.
    TryFailed {
        fault: Fault,
        will_retry: bool,
    },
    /// A request came to the egress proxy. The envelope's step is the one that made it: written at
    /// its end, it may stand behind events of a later step.
    UrlRequested(Box<UrlRequest>),
    PatchCollected {
        bytes: u64,
        files: u64,
        hash: String,
    },
    /// Anything a scaffold wants kept that no other kind says.
    Noted {
        note: Map<String, Value>,
    },
    TrialEnded {
        outcome: Box<Outcome>,
    },
    /// In `grade/journal.jsonl`: the journal of a trial ends with its outcome, and it may be graded
    /// more than once after that. The last one counts. `patch`, `log` and `results` are BLAKE3 hashes of
    /// what was graded and of the files beside the journal.
    TrialGraded {
        task: TaskId,
        arm: String,
        attempt: u32,
        patch: String,
        log: String,
        results: String,
        verdict: Box<Verdict>,
    },
    /// In `grade/journal.jsonl`: the verdict before it does not count any more.
    VerdictWithdrawn {
        why: String,
    },
    /// A kind of a later version.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
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
