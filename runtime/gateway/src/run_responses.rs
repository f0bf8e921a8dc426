//! Detects a cache on the route that returns one trial's response to another trial.
//!
//! The model did not produce such a response for the second trial, so the two trials are not
//! independent attempts. The gateway knows the responses that this process has received in the run.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use proctor_types::{Fault, RequestClass};

use crate::{
    TrialGateway,
    attempt_failure::AttemptFailure,
    checks::EndpointChecks,
    outgoing_request::OutgoingRequest,
    replay::{digest, unique_id},
    send::AttemptResult,
};

/// Maximum number of responses to remember. They take about 5 MB.
const MAX_RESPONSES: usize = 65_536;

/// The latest responses of a model in this run, by their id.
#[derive(Debug, Default)]
pub(crate) struct RunResponses {
    by_id: HashMap<u64, RunResponse>,
    /// Hashes of the ids, oldest first.
    order: VecDeque<u64>,
    /// Whether the endpoint used the same id for two different responses.
    reuses_ids: bool,
}

/// A response that a trial received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunResponse {
    /// Identifies the trial.
    pub trial: u64,
    /// Digest of the content.
    pub digest: u64,
}

impl RunResponses {
    /// Whether another trial received the same content with the same id.
    pub(crate) fn is_of_other_trial(&self, id: &str, response: RunResponse) -> bool {
        let before = self.by_id.get(&hash(id)).filter(|_| !self.reuses_ids);
        before.is_some_and(|before| {
            before.digest == response.digest && before.trial != response.trial
        })
    }

    /// Remembers a response that is delivered to a trial.
    pub(crate) fn add(&mut self, id: &str, response: RunResponse) {
        let id = hash(id);
        if let Some(before) = self.by_id.insert(id, response) {
            self.reuses_ids |= before.digest != response.digest;
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_RESPONSES
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }
}

/// Returns a hash of an id or a name.
pub(crate) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl TrialGateway {
    /// Returns why a response must be requested again if another trial of the run received the same
    /// response. Ids that may come from a counter prove nothing.
    ///
    /// # Errors
    /// Fails if a built-in table cannot be read.
    pub(crate) fn find_other_trials_response(
        &self,
        request: &OutgoingRequest,
        result: &AttemptResult,
    ) -> Result<Option<AttemptFailure>, Fault> {
        let Some((id, response)) = self.run_response(request, result) else { return Ok(None) };
        let (model, halts) = (&self.route().model, &self.route().halts);
        if !halts.is_of_other_trial(model, id, response) {
            return Ok(None);
        }
        let why = "a cache answered: another trial of the run received the same response";
        let hint = &EndpointChecks::shipped()?.replay.hint;
        Ok(Some(AttemptFailure::corrupted_response(why, hint)))
    }

    /// Remembers an accepted response for the other trials of the run.
    pub(crate) fn note_run_response(&self, request: &OutgoingRequest, result: &AttemptResult) {
        if let Some((id, response)) = self.run_response(request, result) {
            self.route().halts.note_run_response(&self.route().model, id, response);
        }
    }

    /// Returns the id and the content of a response in the main conversation, if the id is unique.
    fn run_response<'a>(
        &self,
        request: &OutgoingRequest,
        result: &'a AttemptResult,
    ) -> Option<(&'a str, RunResponse)> {
        let is_checked = request.class == RequestClass::Main
            && !request.is_grace
            && self.route().model.tool_check != Some(false);
        let id = unique_id(result.names.id.as_deref()).filter(|_| is_checked)?;
        Some((id, RunResponse { trial: self.trial(), digest: digest(&result.response) }))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_RESPONSES, RunResponse, RunResponses};

    fn of(trial: u64, digest: u64) -> RunResponse {
        RunResponse { trial, digest }
    }

    #[test]
    fn only_the_same_response_of_another_trial_is_detected() {
        let mut responses = RunResponses::default();
        responses.add("chatcmpl-8c41f0d2a97b", of(1, 10));
        for (id, response, is_detected) in [
            ("chatcmpl-8c41f0d2a97b", of(2, 10), true),
            // A later try of the same trial.
            ("chatcmpl-8c41f0d2a97b", of(1, 10), false),
            ("chatcmpl-8c41f0d2a97b", of(2, 11), false),
            // The model itself wrote the same.
            ("chatcmpl-77b0c9e1d4f2", of(2, 10), false),
        ] {
            assert_eq!(responses.is_of_other_trial(id, response), is_detected, "{id} {response:?}");
        }
    }

    #[test]
    fn ids_of_different_responses_prove_nothing() {
        let mut responses = RunResponses::default();
        responses.add("chatcmpl-8c41f0d2a97b", of(1, 10));
        responses.add("chatcmpl-8c41f0d2a97b", of(1, 11));
        assert!(!responses.is_of_other_trial("chatcmpl-8c41f0d2a97b", of(2, 11)));
    }

    #[test]
    fn oldest_responses_are_forgotten() {
        let mut responses = RunResponses::default();
        for number in 0..=MAX_RESPONSES {
            responses.add(&format!("chatcmpl-{number}"), of(1, 10));
        }
        assert_eq!((responses.by_id.len(), responses.order.len()), (MAX_RESPONSES, MAX_RESPONSES));
        assert!(!responses.is_of_other_trial("chatcmpl-0", of(2, 10)));
        assert!(responses.is_of_other_trial("chatcmpl-1", of(2, 10)));
    }
}
