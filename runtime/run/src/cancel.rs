//! Cancellation of a run: trials close their sandboxes without recording an outcome, and `resume`
//! continues them.

use proctor_types::{Cause, Fault, Layer};
use tokio::sync::watch;

/// A cancellation signal that all trials of a run share. A clone is the same signal.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Sender<Wish>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    GoOn,
    WindDown,
    Now,
}

impl Default for Cancel {
    fn default() -> Self {
        Self(watch::Sender::new(Wish::GoOn))
    }
}

impl Cancel {
    /// Starts nothing further: no trial, no try, and no step of a trial that can be resumed. Work
    /// in flight finishes.
    pub fn wind_down(&self) {
        self.0.send_if_modified(|wish| {
            let sooner = *wish < Wish::WindDown;
            *wish = (*wish).max(Wish::WindDown);
            sooner
        });
    }

    /// Whether new work must not start.
    pub fn winds_down(&self) -> bool {
        *self.0.borrow() >= Wish::WindDown
    }

    /// Returns once new work must not start.
    pub async fn winding_down(&self) {
        let _ = self.0.subscribe().wait_for(|wish| *wish >= Wish::WindDown).await;
    }

    /// Stops everything immediately.
    pub fn tell(&self) {
        self.0.send_replace(Wish::Now);
    }

    /// Whether everything must stop immediately.
    pub fn is_told(&self) -> bool {
        *self.0.borrow() == Wish::Now
    }

    /// Returns once everything must stop. It cannot fail, because this object holds the sender.
    pub async fn told(&self) {
        let _ = self.0.subscribe().wait_for(|wish| *wish == Wish::Now).await;
    }

    /// The fault that a cancelled try returns. It is not recorded: the trial has not ended.
    pub(crate) fn fault() -> Fault {
        Fault::new(Layer::Sandbox, "cancelled").cause(Cause::Cancelled)
    }
}
