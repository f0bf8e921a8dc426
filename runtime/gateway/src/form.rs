//! The form of a request: what repairs make of it, so that its endpoint accepts it.

use http::{HeaderValue, header};
use proctor_types::Fault;
use serde_json::Value;

use crate::{
    TrialGateway, codec,
    repair::{Action, Repair, Repairs},
    way::Outgoing,
};

/// A request in the form that its endpoint accepts.
pub(crate) struct Form {
    /// As it is sent.
    pub request: Outgoing,
    /// As the caller made it.
    original: Outgoing,
    /// The changes, in order.
    repairs: Vec<Repair>,
}

impl Form {
    /// Applies the repairs that the model's endpoint is known to need.
    pub(crate) fn new(trial: &TrialGateway, request: &Outgoing) -> Self {
        let mut form =
            Self { request: request.clone(), original: request.clone(), repairs: Vec::new() };
        let known = trial.line().halts.repairs(&trial.line().model);
        form.add(trial, known, usize::MAX);
        form
    }

    /// Adds the repairs that change something, at most `most` of them. Returns whether any did.
    pub(crate) fn add(
        &mut self,
        trial: &TrialGateway,
        repairs: impl IntoIterator<Item = Repair>,
        most: usize,
    ) -> bool {
        let mut repairs = repairs.into_iter().peekable();
        // Don't parse the body if no repairs are needed.
        if repairs.peek().is_none() {
            return false;
        }
        let Ok(Value::Object(mut body)) = serde_json::from_slice(&self.request.body) else {
            return false;
        };
        let (api, turns) = (trial.line().model.api, trial.turns());
        let only_streams = trial.line().halts.only_streams(&trial.line().model);
        let before = self.repairs.len();
        for repair in repairs {
            let is_vain = only_streams && repair.action == Action::NoStream;
            if is_vain || self.repairs.contains(&repair) || !repair.apply(api, &mut body, &turns) {
                continue;
            }
            self.request.stream &= repair.action != Action::NoStream;
            self.repairs.push(repair);
            if self.repairs.len() - before == most {
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

    /// Asks every cache on the way for a response of the model.
    pub(crate) fn bypass_caches(&mut self) {
        let no_cache = HeaderValue::from_static("no-cache");
        self.request.headers.insert(header::CACHE_CONTROL, no_cache);
    }

    /// Repairs what an error complains of, which has come `times` times. `false`: there is nothing to repair,
    /// or nothing left.
    pub(crate) fn repair(
        &mut self,
        trial: &TrialGateway,
        status: u16,
        body: &str,
        times: u32,
    ) -> Result<bool, Fault> {
        // Don't keep repairing a body that is rejected every time.
        const MOST: usize = 8;
        if self.repairs.len() >= MOST {
            return Ok(false);
        }
        let model = &trial.line().model;
        let repairs: Vec<_> = Repairs::shipped()?.of(model.api, status, body, times).collect();
        if repairs.iter().any(|repair| repair.action == Action::Stream) {
            trial.line().halts.streams_only(model);
            if self.stream_again(trial) {
                return Ok(true);
            }
        }
        Ok(self.add(trial, repairs, 1))
    }

    /// Undoes `NoStream`, which an endpoint that only streams rejects. Returns whether there was one.
    fn stream_again(&mut self, trial: &TrialGateway) -> bool {
        let (whole, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.repairs)
            .into_iter()
            .partition(|repair| repair.action == Action::NoStream);
        if whole.is_empty() {
            self.repairs = others;
            return false;
        }
        let headers = std::mem::take(&mut self.request.headers);
        self.request = Outgoing { headers, ..self.original.clone() };
        self.add(trial, others, usize::MAX);
        true
    }

    /// The endpoint accepted the request: repair later ones before they are sent.
    pub(crate) fn accepted(&self, trial: &TrialGateway) {
        let (model, halts) = (&trial.line().model, &trial.line().halts);
        // The calls of the complete response are torn as well, so streaming was not the cause.
        let in_vain = |repair: &&Repair| repair.action == Action::NoStream && halts.has_torn(model);
        for repair in self.repairs.iter().filter(|repair| !in_vain(repair)) {
            halts.keep_repair(model, repair);
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.repairs.iter().map(|repair| repair.name.clone()).collect()
    }
}
