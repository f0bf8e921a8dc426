use proctor_types::{BudgetKind, BudgetScope, Fault};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// A limit was reached before the request or between two attempts. A time limit may also be
    /// reached during an attempt.
    #[error("the {0} budget is used up")]
    Budget(BudgetKind),
    /// A limit that the trial shares with other trials was reached. The trial is not the cause.
    #[error("the {scope}'s {kind} budget is used up")]
    SharedBudget { scope: BudgetScope, kind: BudgetKind },
    #[error("cancelled")]
    Cancelled,
    /// The endpoint rejects this particular request (context overflow, an unknown field). Retrying
    /// would not help; a different request may succeed.
    #[error("the endpoint rejected the request with status {status}: {body}")]
    Rejected {
        status: u16,
        body: String,
        /// Whether the model caused the rejection, with a conversation that is too long or that a
        /// filter rejected. Any other rejection is an infrastructure failure.
        caused_by_model: bool,
    },
    /// The endpoint failed after all retries or is misconfigured, or the record could not be
    /// written.
    #[error(transparent)]
    Fault(#[from] Fault),
}
