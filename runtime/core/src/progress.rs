//! What the dispatcher reports while a run goes on.

use std::fmt;

use proctor_gateway::Waiting;
use proctor_types::{BudgetKind, BudgetScope, Event, Fault, Outcome, TrialId, Verdict, visible};

/// Past-tense events for the person who watches. The record does not depend on them.
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
    /// It was interrupted, or begins as a fork, and goes on after this step.
    Resumed {
        trial: TrialId,
        arm: String,
        step: u64,
    },
    /// Another runtime works on it.
    Elsewhere {
        trial: TrialId,
        arm: String,
    },
    /// Another worker ended it, and there have been workers ever since.
    EndedElsewhere {
        trial: TrialId,
        arm: String,
    },
    /// Another worker took this one for dead and continues the trial.
    TakenOver {
        trial: TrialId,
        arm: String,
    },
    /// It was interrupted, and begins anew.
    NotResumed {
        trial: TrialId,
        arm: String,
        why: String,
    },
    /// The trial ended earlier, and what it submitted is graded now.
    GradingRecorded {
        trial: TrialId,
        arm: String,
    },
    /// A file of the trial is not what was recorded, and what follows from that.
    Damaged {
        trial: TrialId,
        what: String,
        then: &'static str,
    },
    /// A limit that trials share is spent.
    NotStarted {
        trial: TrialId,
        arm: String,
        scope: BudgetScope,
        budget: BudgetKind,
    },
    /// A request waits.
    Waiting {
        trial: TrialId,
        arm: String,
        waiting: Waiting,
    },
    /// A request had to wait for so many seconds for a limit that trials share, or for the endpoint's
    /// rate limits.
    Waited {
        trial: TrialId,
        arm: String,
        seconds: f64,
    },
    /// What its sandbox is at, or its model.
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
    /// The sandbox of a try could not be closed. The try stands; the next run removes what is left.
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

/// What a trial is at between two events of its journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Doing {
    /// A request is on its way.
    Asks,
    /// An answer has come: tokens in and out, and US dollars where it has a price.
    Answered { tokens: u64, cost_usd: Option<f64> },
    /// A tool runs: its name and the first words of what it was given.
    Runs { tool: String, what: String },
}

/// Characters of a tool's arguments that fit beside a name.
const SHOWN: usize = 60;

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks => f.write_str("asks the model"),
            Self::Answered { .. } => f.write_str("has its answer"),
            Self::Runs { tool, what } => write!(f, "{tool}: {what}"),
        }
    }
}

impl Doing {
    /// What an event that is being recorded says of it.
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
