//! Until a model has responded in this run, the gateway sends it only one request at a time. Other
//! requests wait.
//!
//! If the endpoint is down or silent, a single series of attempts detects this for all trials.
//! While other trials wait, each attempt is made by a different trial, so that a single request
//! that the endpoint cannot handle does not halt the model.
//!
//! The drawback is that, without a preflight, trials that start together wait for the first event
//! of one response.
//!
//! Rejected alternative: let each request make one attempt, and let only one request retry. If the
//! endpoint never responded, hundreds of requests would then hang.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    RequestError, TrialGateway,
    clock::WaitKind,
    first_response_gate::CallPermit,
    sink::{FIRST_NOTICE_DELAY, WaitNotice},
};

impl TrialGateway {
    /// Resolves once the request may be sent: the model has responded, or no other request is
    /// calling it. The time spent waiting counts as lost to the endpoint, not as working time.
    pub(crate) async fn acquire_call_permit(&self) -> Result<Option<CallPermit>, RequestError> {
        let first = self.route().halts.first_response_gate(&self.route().model);
        let semaphore = Arc::clone(&first.permits);
        match semaphore.clone().try_acquire_owned() {
            Ok(permit) => return Ok(Some(CallPermit::new(first, permit))),
            Err(_) if semaphore.is_closed() => return Ok(None),
            Err(_) => {}
        }
        let begun = Instant::now();
        let _waiting = self.meter().clock.start_wait();
        let _kind = self.meter().clock.start_wait_timer(WaitKind::RateLimits);
        let _lost = self
            .lost_time()
            .start_wait_for("the model has not responded to any request in this run yet");
        let model = || self.route().model.name.clone();
        let acquired = semaphore.acquire_owned();
        tokio::pin!(acquired);
        let mut so_far = FIRST_NOTICE_DELAY;
        loop {
            tokio::select! {
                permit = &mut acquired => {
                    return Ok(permit.ok().map(|permit| CallPermit::new(first, permit)));
                }
                cut = self.wait_for_cancel(false) => return Err(cut.error()),
                () = tokio::time::sleep_until(begun + so_far) => {
                    self.sink().report_wait(WaitNotice::FirstResponse { model: model(), elapsed: so_far });
                    so_far = so_far.saturating_mul(2);
                }
            }
        }
    }
}
