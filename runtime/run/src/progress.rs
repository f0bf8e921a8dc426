//! What the dispatcher reports during a run.

use std::fmt;

use proctor_gateway::Waiting;
use proctor_types::{BudgetKind, BudgetScope, Event, Fault, Outcome, TrialId, Verdict, visible};

/// Past-tense events for display. The record does not depend on them.
#[derive(Debug, Clone)]
pub enum Progress {
    EnvironmentBuilt {
        task: String,
        seconds: f64,
    },
    Started {
        trial: TrialId,
        arm: String,
    },
    /// The trial was interrupted, or starts as a fork, and continues after this step.
    Resumed {
        trial: TrialId,
        arm: String,
        step: u64,
    },
    /// Another process runs it.
    Elsewhere {
        trial: TrialId,
        arm: String,
    },
    /// Another worker finished it, and other workers have been active throughout.
    EndedElsewhere {
        trial: TrialId,
        arm: String,
    },
    /// Another worker considered this one dead and continues the trial.
    TakenOver {
        trial: TrialId,
        arm: String,
    },
    /// The worker that ran the trial is gone, and this one continues. `worker`: which one, and how its job ended.
    WorkerLost {
        trial: TrialId,
        arm: String,
        worker: String,
    },
    /// The trial was interrupted and restarts.
    NotResumed {
        trial: TrialId,
        arm: String,
        why: String,
    },
    /// The trial ended earlier; its submission is being graded now.
    GradingRecorded {
        trial: TrialId,
        arm: String,
    },
    /// A file of the trial differs from the record, and the consequence.
    Damaged {
        trial: TrialId,
        what: String,
        then: &'static str,
    },
    /// A shared limit is used up.
    NotStarted {
        trial: TrialId,
        arm: String,
        scope: BudgetScope,
        budget: BudgetKind,
    },
    /// A request is waiting.
    Waiting {
        trial: TrialId,
        arm: String,
        waiting: Waiting,
    },
    /// A request waited this many seconds for a shared limit or for the endpoint's rate limits.
    Waited {
        trial: TrialId,
        arm: String,
        seconds: f64,
    },
    /// What the sandbox or the model is doing.
    Does {
        trial: TrialId,
        arm: String,
        doing: Doing,
    },
    Stepped {
        trial: TrialId,
        arm: String,
        step: u64,
    },
    TryFailed {
        trial: TrialId,
        arm: String,
        fault: Fault,
        will_retry: bool,
    },
    /// The sandbox of a try could not be closed. The try counts; the next run removes leftovers.
    NotClosed {
        trial: TrialId,
        arm: String,
        fault: Fault,
    },
    Ended {
        trial: TrialId,
        arm: String,
        outcome: Box<Outcome>,
    },
    Graded {
        trial: TrialId,
        arm: String,
        verdict: Box<Verdict>,
    },
    GradingFailed {
        trial: TrialId,
        arm: String,
        fault: Fault,
    },
}

/// What a trial is doing between two events of its journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Doing {
    /// A request is in flight.
    Asks,
    /// A response arrived: tokens in and out, and its cost in US dollars if there is a price.
    Answered { tokens: u64, cost_usd: Option<f64> },
    /// A tool is running: its name and the first words of its input.
    Runs { tool: String, what: String },
}

/// Maximum characters of a tool's arguments beside its name.
const SHOWN: usize = 60;

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks => f.write_str("waiting for the model"),
            Self::Answered { .. } => f.write_str("got a response"),
            Self::Runs { tool, what } => write!(f, "{tool}: {what}"),
        }
    }
}

impl Doing {
    /// Derives the activity from an event that is being recorded.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::ModelAsked { .. } => Some(Self::Asks),
            Event::ModelAnswered { answer } => Some(Self::Answered {
                tokens: answer.usage.input + answer.usage.output,
                cost_usd: answer.cost_usd,
            }),
            Event::ToolCalled { name, arguments, .. } => {
                let first = arguments.as_object().and_then(|given| given.values().next());
                let text = first.and_then(|first| first.as_str()).unwrap_or_default();
                let line = text.lines().next().unwrap_or_default();
                let first: String = line.chars().take(SHOWN).collect();
                let what = visible(&first).into_owned();
                Some(Self::Runs { tool: name.clone(), what })
            }
            _ => None,
        }
    }
}
