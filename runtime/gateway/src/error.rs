use proctor_types::{BudgetKind, BudgetScope, Fault};

/// Why an ask has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// A limit was reached: before the request, between two goes, or (for time) during one.
    #[error("the {0} budget is spent")]
    Budget(BudgetKind),
    /// A limit that the trial shares with others was reached. The trial did nothing wrong.
    #[error("the {scope}'s {kind} budget is spent")]
    SharedBudget { scope: BudgetScope, kind: BudgetKind },
    #[error("cancelled")]
    Cancelled,
    /// The endpoint refuses this very request (context overflow, a field it does not know). Asking
    /// again would not help; another request may succeed.
    #[error("the endpoint rejected the request with status {status}: {body}")]
    Rejected {
        status: u16,
        body: String,
        /// The end is the model's own: its conversation is too long, or a filter declined it. Everything else is an
        /// infrastructure failure.
        of_the_model: bool,
    },
    /// The endpoint failed after all retries, or is not usable as configured; or the record could
    /// not be written.
    #[error(transparent)]
    Fault(#[from] Fault),
}
