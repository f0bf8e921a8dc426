//! Applies the repairs that an endpoint requires before it accepts a request.

use http::{HeaderValue, header};
use proctor_types::Fault;
use serde_json::Value;

use crate::{
    TrialGateway, codec,
    outgoing_request::OutgoingRequest,
    rejections::{self, ErrorSubject},
    repair::{Action, Repair, RepairTable},
};

/// A request in the form that its endpoint accepts.
#[derive(Clone)]
pub(crate) struct RepairedRequest {
    /// The request as it is sent.
    pub request: OutgoingRequest,
    /// The request as the caller made it.
    original_request: OutgoingRequest,
    /// Applied repairs, in order.
    repairs: Vec<Repair>,
}

impl RepairedRequest {
    /// Applies the repairs that the model's endpoint is known to need.
    pub(crate) fn new(trial: &TrialGateway, request: &OutgoingRequest) -> Self {
        let mut form = Self {
            request: request.clone(),
            original_request: request.clone(),
            repairs: Vec::new(),
        };
        let known = trial.route().halts.repairs(&trial.route().model);
        form.apply_repairs(trial, known, usize::MAX);
        form
    }

    /// Applies at most `max_count` of the repairs. Repairs that would not change the request are
    /// skipped. Returns whether any was applied.
    pub(crate) fn apply_repairs(
        &mut self,
        trial: &TrialGateway,
        repairs: impl IntoIterator<Item = Repair>,
        max_count: usize,
    ) -> bool {
        let mut repairs = repairs.into_iter().peekable();
        // Don't parse the body if there is nothing to apply.
        if repairs.peek().is_none() {
            return false;
        }
        let Ok(Value::Object(mut body)) = serde_json::from_slice(&self.request.body) else {
            return false;
        };
        let (api, turns) = (trial.route().model.api, trial.native_turns());
        let is_stream_only = trial.route().halts.is_stream_only(&trial.route().model);
        let before = self.repairs.len();
        for repair in repairs {
            let is_futile = is_stream_only && repair.action == Action::DisableStreaming;
            if is_futile || self.repairs.contains(&repair) || !repair.apply(api, &mut body, &turns)
            {
                continue;
            }
            self.request.is_streaming &= repair.action != Action::DisableStreaming;
            self.repairs.push(repair);
            if self.repairs.len() - before == max_count {
                break;
            }
        }
        let changed = self.repairs.len() > before;
        if changed {
            self.request.max_output = codec::output_limit(api, &body);
            self.request.body = Value::Object(body).to_string().into();
        }
        changed
    }

    /// Changes the request so that every cache on the route forwards it to the model.
    pub(crate) fn bypass_caches(&mut self) {
        let no_cache = HeaderValue::from_static("no-cache");
        self.request.headers.insert(header::CACHE_CONTROL, no_cache);
    }

    /// Applies a repair for an error that has occurred `occurrences` times. Returns `false` if
    /// there is no repair for the error, or all its repairs have already been applied.
    pub(crate) fn repair_for_error(
        &mut self,
        trial: &TrialGateway,
        status: u16,
        body: &str,
        occurrences: u32,
    ) -> Result<bool, Fault> {
        // Don't keep repairing a request that is rejected every time.
        const MAX_REPAIRS: usize = 8;
        if self.repairs.len() >= MAX_REPAIRS {
            return Ok(false);
        }
        let model = &trial.route().model;
        let repairs: Vec<_> =
            RepairTable::shipped()?.repairs_for(model.api, status, body, occurrences).collect();
        if repairs.iter().any(|repair| repair.action == Action::EnableStreaming) {
            trial.route().halts.note_stream_only(model);
            if self.restore_streaming(trial) {
                return Ok(true);
            }
        }
        Ok(self.apply_repairs(trial, repairs, 1))
    }

    /// Whether the error is about the request's form, and there is a repair for it that has not
    /// been applied yet. Some endpoints report such an error with a status that is otherwise about
    /// the key or the model, such as 403.
    pub(crate) fn has_repair_for_error(
        &self,
        trial: &TrialGateway,
        status: u16,
        body: &str,
    ) -> Result<bool, Fault> {
        let is_about_form = rejections::classify_error(status, body) == ErrorSubject::Unknown;
        Ok(is_about_form && self.clone().repair_for_error(trial, status, body, 1)?)
    }

    /// Undoes [`Action::DisableStreaming`], because a stream-only endpoint rejects requests without
    /// streaming. Returns whether this repair had been applied.
    fn restore_streaming(&mut self, trial: &TrialGateway) -> bool {
        let (whole, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.repairs)
            .into_iter()
            .partition(|repair| repair.action == Action::DisableStreaming);
        if whole.is_empty() {
            self.repairs = others;
            return false;
        }
        let headers = std::mem::take(&mut self.request.headers);
        self.request = OutgoingRequest { headers, ..self.original_request.clone() };
        self.apply_repairs(trial, others, usize::MAX);
        true
    }

    /// Keeps the repairs for later requests, because the endpoint accepted the repaired request.
    pub(crate) fn remember_repairs(&self, trial: &TrialGateway) {
        let (model, halts) = (&trial.route().model, &trial.route().halts);
        // If the non-streamed response was also broken, streaming was not the cause, so don't keep
        // that repair.
        // A single stream without output may be the model's own empty turn.
        let is_broken = halts.has_own_style(model)
            || halts.ends_turns_without_output(model)
            || halts.hollow_streams(model) == 1
            || match self.request.offers_tools {
                true => halts.writes_malformed_calls(model),
                false => halts.omits_fences(model),
            };
        let is_futile = |repair: &&Repair| repair.action == Action::DisableStreaming && is_broken;
        for repair in self.repairs.iter().filter(|repair| !is_futile(repair)) {
            halts.remember_repair(model, repair);
        }
    }

    pub(crate) fn repair_names(&self) -> Vec<String> {
        self.repairs.iter().map(|repair| repair.name.clone()).collect()
    }
}
