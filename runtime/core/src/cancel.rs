//! The wish that a run ends now: trials close their sandboxes and leave no outcome, `resume` takes over.

use proctor_types::{Cause, Fault, Layer};
use tokio::sync::watch;

/// Told once, heard by every trial.
#[derive(Debug)]
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
    /// Nothing more begins: no trial, no try, and no step of a trial that can go on later. What is in flight ends.
    pub fn wind_down(&self) {
        self.0.send_if_modified(|wish| {
            let sooner = *wish < Wish::WindDown;
            *wish = (*wish).max(Wish::WindDown);
            sooner
        });
    }

    /// Whether nothing more is to begin.
    pub fn winds_down(&self) -> bool {
        *self.0.borrow() >= Wish::WindDown
    }

    /// Returns once nothing more is to begin.
    pub async fn winding_down(&self) {
        let _ = self.0.subscribe().wait_for(|wish| *wish >= Wish::WindDown).await;
    }

    /// Everything ends now.
    pub fn tell(&self) {
        self.0.send_replace(Wish::Now);
    }

    /// Whether everything ends now.
    pub fn is_told(&self) -> bool {
        *self.0.borrow() == Wish::Now
    }

    /// Returns once everything ends. It cannot fail, because this object holds the sender.
    pub async fn told(&self) {
        let _ = self.0.subscribe().wait_for(|wish| *wish == Wish::Now).await;
    }

    /// What a trial ends its try with. It is not recorded: the trial has not ended.
    pub(crate) fn fault() -> Fault {
        Fault::new(Layer::Sandbox, "cancelled").cause(Cause::Cancelled)
    }
}
