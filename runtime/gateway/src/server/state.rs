//! The state of one trial's server.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};

use tokio::sync::watch;

use super::{
    policy::ServerPolicy, stored_responses::StoredResponses, token::Token, traffic::TrafficTracker,
};
use crate::{RequestError, RequestRules, TrialGateway};

/// The state that the requests of one trial share.
#[derive(Debug)]
pub(super) struct ServerState {
    pub trial: Arc<TrialGateway>,
    pub rules: RequestRules,
    pub policy: ServerPolicy,
    /// Whether a request has offered the tool that sub-agents lack according to the rules.
    pub(super) has_sub_agent_tool: AtomicBool,
    /// Whether to record tool calls when requests contain their results.
    pub records_calls: bool,
    pub(super) token: Token,
    pub(super) next_request_number: AtomicU64,
    /// Number of requests in flight, and whether new ones are admitted.
    pub(super) in_flight: watch::Sender<(usize, bool)>,
    /// The first error that stopped the trial.
    pub(super) stop_reason: watch::Sender<Option<RequestError>>,
    pub(super) tracker: TrafficTracker,
    /// Responses that clients of the Responses API may continue.
    pub(super) stored_responses: StoredResponses,
}

impl ServerState {
    /// Reports that the trial cannot continue. The first reason wins.
    pub(super) fn stop(&self, error: &RequestError) {
        self.stop_reason.send_if_modified(|stopped| {
            let first = stopped.is_none();
            if first {
                *stopped = Some(error.clone());
            }
            first
        });
    }
}
