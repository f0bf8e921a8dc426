//! Progress events of a run.

use std::fmt;

use proctor_gateway::WaitNotice;
use proctor_types::{
    BudgetKind, BudgetScope, Event, Fault, Outcome, TrialId, Verdict, escape_unprintable,
};

/// Progress events for display. The record does not depend on them.
#[derive(Debug, Clone)]
pub enum Progress {
    /// A task's environment was built. No event is sent for an environment from the cache.
    EnvironmentBuilt { task: String, seconds: f64 },
    /// The first try of the trial starts.
    Started { trial: TrialId, arm: String },
    /// The trial continues after this step, because it was interrupted or starts as a fork.
    Resumed { trial: TrialId, arm: String, step: u64 },
    /// Another process is running the trial.
    RunsElsewhere { trial: TrialId, arm: String },
    /// Another worker finished the trial.
    EndedElsewhere { trial: TrialId, arm: String },
    /// Another worker considered this worker dead and took over the trial.
    TakenOver { trial: TrialId, arm: String },
    /// The worker that ran the trial is gone, and this worker continues the trial. `worker`
    /// contains the name of the earlier worker and how its job ended.
    WorkerLost { trial: TrialId, arm: String, worker: String },
    /// The trial was interrupted, cannot be resumed and starts over.
    NotResumed { trial: TrialId, arm: String, reason: String },
    /// The trial ended earlier; its submission is being graded now.
    GradingRecorded { trial: TrialId, arm: String },
    /// A file of the trial differs from the record. `reaction` says how Proctor handles the
    /// difference.
    FileDamaged { trial: TrialId, difference: String, reaction: &'static str },
    /// The trial was not started, because a shared limit is used up.
    NotStarted { trial: TrialId, arm: String, scope: BudgetScope, budget: BudgetKind },
    /// A request of the trial started to wait.
    WaitStarted { trial: TrialId, arm: String, wait: WaitNotice },
    /// A request waited this many seconds for a shared limit or the endpoint's rate limits.
    WaitEnded { trial: TrialId, arm: String, seconds: f64 },
    /// The trial started a new activity, such as running a tool or waiting for the model.
    ActivityChanged { trial: TrialId, arm: String, activity: TrialActivity },
    /// A step ended.
    StepEnded { trial: TrialId, arm: String, step: u64 },
    /// A try ended with an infrastructure fault.
    TryFailed { trial: TrialId, arm: String, fault: Fault, will_retry: bool },
    /// The sandbox of a try could not be closed. The try still counts; the next run removes
    /// leftovers.
    SandboxNotClosed { trial: TrialId, arm: String, fault: Fault },
    /// The trial has an outcome. The trial is graded next, unless its ending is unfinished
    /// (`Ending::is_unfinished`). In that case, this is the trial's last event.
    Ended { trial: TrialId, arm: String, outcome: Box<Outcome> },
    /// The trial has a verdict. This is the trial's last event.
    Graded { trial: TrialId, arm: String, verdict: Box<Verdict> },
    /// The trial has no verdict because its grading failed. This is the trial's last event.
    GradingFailed { trial: TrialId, arm: String, fault: Fault },
}

/// A trial's activity between two events of its journal.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialActivity {
    /// The trial is waiting for a response from the model.
    WaitingForModel,
    /// A response arrived. Gives its input and output tokens, and its cost in US dollars if there
    /// is a price.
    ResponseReceived { tokens: u64, cost_usd: Option<f64> },
    /// A tool is running. Gives its name and the beginning of its input.
    RunningTool { tool: String, input: String },
}

/// Maximum number of characters of a tool's arguments shown next to its name.
const MAX_SHOWN_CHARS: usize = 60;

impl fmt::Display for TrialActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingForModel => f.write_str("waiting for the model"),
            Self::ResponseReceived { .. } => f.write_str("got a response"),
            Self::RunningTool { tool, input: what } => write!(f, "{tool}: {what}"),
        }
    }
}

impl TrialActivity {
    /// Derives the activity from an event that is being recorded.
    pub fn from_event(event: &Event) -> Option<Self> {
        match event {
            Event::ModelAsked { .. } => Some(Self::WaitingForModel),
            Event::ModelAnswered { answer } => Some(Self::ResponseReceived {
                tokens: answer.usage.input + answer.usage.output,
                cost_usd: answer.cost_usd,
            }),
            Event::ToolCalled { name, arguments, .. } => {
                let first = arguments.as_object().and_then(|given| given.values().next());
                let text = first.and_then(|first| first.as_str()).unwrap_or_default();
                let line = text.lines().next().unwrap_or_default();
                let first: String = line.chars().take(MAX_SHOWN_CHARS).collect();
                let what = escape_unprintable(&first).into_owned();
                Some(Self::RunningTool { tool: name.clone(), input: what })
            }
            _ => None,
        }
    }
}
