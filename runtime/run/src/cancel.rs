//! Cancels a run. Trials close their sandboxes without recording an outcome, and `resume`
//! continues them.

use proctor_types::{Fault, FaultCause, FaultLayer};
use tokio::sync::watch;

/// A cancellation signal that all trials of a run share. Clones share the same signal.
#[derive(Debug, Clone)]
pub struct CancelSignal(watch::Sender<CancelState>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CancelState {
    Running,
    WindingDown,
    Stopping,
}

impl Default for CancelSignal {
    fn default() -> Self {
        Self(watch::Sender::new(CancelState::Running))
    }
}

impl CancelSignal {
    /// Prevents new work: no further trial, try or step of a resumable trial starts. Work in
    /// progress finishes.
    pub fn wind_down(&self) {
        self.0.send_if_modified(|state| {
            let sooner = *state < CancelState::WindingDown;
            *state = (*state).max(CancelState::WindingDown);
            sooner
        });
    }

    /// Whether new work must not start.
    pub fn is_winding_down(&self) -> bool {
        *self.0.borrow() >= CancelState::WindingDown
    }

    /// Waits until the run winds down and new work must not start.
    pub async fn wait_for_wind_down(&self) {
        let _ = self.0.subscribe().wait_for(|state| *state >= CancelState::WindingDown).await;
    }

    /// Stops everything immediately.
    pub fn stop(&self) {
        self.0.send_replace(CancelState::Stopping);
    }

    /// Whether everything must stop immediately.
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow() == CancelState::Stopping
    }

    /// Waits until everything must stop. Waiting cannot fail, because `self` holds the sender.
    pub async fn wait_for_stop(&self) {
        let _ = self.0.subscribe().wait_for(|state| *state == CancelState::Stopping).await;
    }

    /// Returns the fault for a cancelled try. The fault is not recorded, because the trial has not
    /// ended.
    pub(crate) fn cancelled_fault() -> Fault {
        Fault::new(FaultLayer::Sandbox, "cancelled").cause(FaultCause::Cancelled)
    }
}
