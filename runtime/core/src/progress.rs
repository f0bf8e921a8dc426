//! What the dispatcher reports while a run goes on.

use proctor_gateway::Waiting;
use proctor_types::{BudgetKind, BudgetScope, Fault, Outcome, TrialId, Verdict};

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
