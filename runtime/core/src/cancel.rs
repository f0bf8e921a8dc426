//! The wish that a run ends now: trials close their sandboxes and leave no outcome, `resume` takes over.

use proctor_types::{Cause, Fault, Layer};
use tokio::sync::watch;

/// Told once, heard by every trial.
#[derive(Debug)]
pub struct Cancel(watch::Sender<bool>);

impl Default for Cancel {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Cancel {
    pub fn tell(&self) {
        self.0.send_replace(true);
    }

    pub fn is_told(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the run is cancelled. It cannot fail, because this object holds the sender.
    pub async fn told(&self) {
        let _ = self.0.subscribe().wait_for(|told| *told).await;
    }

    /// What a trial ends its try with. It is not recorded: the trial has not ended.
    pub(crate) fn fault() -> Fault {
        Fault::new(Layer::Sandbox, "cancelled").cause(Cause::Cancelled)
    }
}
