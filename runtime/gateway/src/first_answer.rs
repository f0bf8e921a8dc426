//! Until a model has answered in this run, one request at a time asks it, and the others wait.
//!
//! An endpoint that is not there, or never says a word, is found out once, by one round of attempts, and not
//! by each trial in flight. Each attempt is another trial's where others wait, so that one request that the
//! endpoint cannot deal with is not taken for all. The price: without a preflight, trials that begin together
//! wait for the first event of one answer. The rejected option was to let each send one attempt and only
//! one try again: hundreds of requests then hang at an endpoint that never answers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    AskError, TrialGateway, clock::WaitKind, judge::TroubleKind, meter::FIRST_NOTICE, sink::Waiting,
};

/// One permit until the model has answered; closed from then on.
#[derive(Debug, Clone)]
pub(crate) struct FirstAnswer {
    turns: Arc<Semaphore>,
    round: Arc<Mutex<Round>>,
}

impl Default for FirstAnswer {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(1)), round: Arc::default() }
    }
}

impl FirstAnswer {
    /// Lets all requests through.
    pub(crate) fn came(&self) {
        self.turns.close();
    }
}

/// Attempts that failed, and the waits after them: of one request, or of all that asked a model in turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    pub failed: u32,
    pub silent: u32,
    pub waited: Duration,
}

impl Round {
    pub(crate) fn failed(&mut self, kind: TroubleKind) -> Self {
        self.failed += 1;
        self.silent += u32::from(kind == TroubleKind::Silent);
        *self
    }
}

/// The right to ask a model that has not answered yet; dropped, the next request has it.
#[derive(Debug)]
pub(crate) struct Turn {
    first: FirstAnswer,
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    /// The model speaks.
    pub(crate) fn answers(&self) {
        self.first.came();
    }

    /// Changes what is known of the round.
    pub(crate) fn round(&self, change: impl FnOnce(&mut Round) -> Round) -> Round {
        change(&mut self.first.round.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TrialGateway {
    /// Comes once the request may be sent: the model has answered, or nobody else is asking it. The wait
    /// is no work, and what it takes of the trial's time is the endpoint's doing.
    pub(crate) async fn turn(&self) -> Result<Option<Turn>, AskError> {
        let first = self.line().halts.first_answer(&self.line().model);
        let semaphore = Arc::clone(&first.turns);
        match semaphore.clone().try_acquire_owned() {
            Ok(permit) => return Ok(Some(Turn { first, _permit: permit })),
            Err(_) if semaphore.is_closed() => return Ok(None),
            Err(_) => {}
        }
        let begun = Instant::now();
        let _waiting = self.meter().clock.wait();
        let _kind = self.meter().clock.wait_for(WaitKind::RateLimits);
        let _lost = self.lost().wait_for("the model has not answered any request of this run yet");
        let model = || self.line().model.name.clone();
        let acquired = semaphore.acquire_owned();
        tokio::pin!(acquired);
        let mut so_far = FIRST_NOTICE;
        loop {
            tokio::select! {
                permit = &mut acquired => {
                    return Ok(permit.ok().map(|permit| Turn { first, _permit: permit }));
                }
                cut = self.cut(false) => return Err(cut.error()),
                () = tokio::time::sleep_until(begun + so_far) => {
                    self.sink().waiting(Waiting::FirstAnswer { model: model(), so_far });
                    so_far = so_far.saturating_mul(2);
                }
            }
        }
    }
}
