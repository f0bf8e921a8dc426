//! Tracks problems with an endpoint that affect every trial of the run, so that no further trial
//! encounters them.
//!
//! Otherwise, each trial would have to discover that the key is wrong or the endpoint is down. The
//! trial would use a sandbox and all its retries, and then end in a fault instead of waiting for a
//! `resume`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proctor_types::{Fault, ModelSpec};
use tokio::time::Instant;

use crate::{
    checks::AddedPromptCheck,
    first_prompts::FirstPrompts,
    first_response_gate::FirstResponseGate,
    prompt_counts::PromptCount,
    repair::Repair,
    run_responses::{RunResponse, RunResponses},
    stream_damage::StreamDamage,
};

/// A set of requests that can no longer succeed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Halt {
    /// All requests to the URL.
    Endpoint(String),
    /// Requests to the URL with the key in the named environment variable (or without a key).
    Key(String, Option<String>),
    /// Requests to the URL for the named model.
    Model(String, String),
    /// Requests to the URL that offer tools to the named model.
    Tools(String, String),
}

impl Halt {
    fn key(model: &ModelSpec) -> Self {
        Self::Key(model.normalized_url().to_owned(), model.key_env.clone())
    }

    fn model(model: &ModelSpec) -> Self {
        Self::Model(model.normalized_url().to_owned(), model.name.clone())
    }

    fn tools(model: &ModelSpec) -> Self {
        Self::Tools(model.normalized_url().to_owned(), model.name.clone())
    }

    fn endpoint(model: &ModelSpec) -> Self {
        Self::Endpoint(model.normalized_url().to_owned())
    }
}

/// The trial and model that a request belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOrigin<'a> {
    pub model: &'a ModelSpec,
    /// Identifies the trial.
    pub trial: u64,
    /// Number of responses that the trial received before the request.
    pub response_count: u64,
    /// Whether the request offers tools.
    pub offers_tools: bool,
}

/// Known problems, shared by all trials of a run. A resumed run starts without any known problems.
#[derive(Debug, Default)]
pub(crate) struct Halts(Mutex<EndpointHalts>);

#[derive(Debug, Default)]
struct EndpointHalts {
    faults: BTreeMap<Halt, Fault>,
    /// The state of each model, by model and API key.
    models: BTreeMap<(Halt, Halt), ModelState>,
}

/// The state of a model that is called with one API key.
#[derive(Debug, Default)]
struct ModelState {
    first_response_gate: FirstResponseGate,
    /// When the model last responded, in any trial.
    last_response_at: Option<Instant>,
    /// Trials that have used up their time waiting for the model since its last response.
    lost_trials: BTreeSet<u64>,
    /// Whether the model has responded to a request that offered tools.
    has_responded_with_tools: bool,
    /// Whether the endpoint has returned one of the model's calls as a call rather than as text.
    has_returned_call: bool,
    /// Whether a non-streamed response also contained broken calls. If so, the model itself writes
    /// its calls that way.
    writes_malformed_calls: bool,
    /// Whether a fence was also missing from a non-streamed text. If so, the model itself omits
    /// fences.
    omits_fences: bool,
    /// Kinds of damage that a non-streamed response also had. The model itself writes this way.
    own_styles: BTreeSet<StreamDamage>,
    /// The providers that have given a stop reason, or an empty name if the endpoint names none.
    stop_reporters: BTreeSet<String>,
    /// Whether all attempts of a request returned a response without output. If so, the model
    /// itself ends its turns that way.
    ends_turns_without_output: bool,
    /// Number of streams without output whose output was counted.
    hollow_streams: u64,
    /// Whether a call contained characters that HTML escapes. If so, the endpoint does not escape
    /// them.
    has_returned_unescaped_call: bool,
    /// Whether the endpoint rejects requests without streaming.
    is_stream_only: bool,
    /// The longest prompt that the endpoint has counted and answered, in tokens.
    largest_prompt: u64,
    first_prompts: FirstPrompts,
    responses: RunResponses,
    /// Repairs that requests to the model need before the endpoint accepts them.
    repairs: Vec<Repair>,
    /// Rejections by their text. A rejection is removed when a trial receives a response at the
    /// same or a later point of its conversation.
    rejections: BTreeMap<String, RejectionCount>,
}

#[derive(Debug, Default)]
struct RejectionCount {
    trials: BTreeSet<u64>,
    /// Fewest responses that any of the trials had received before the rejection.
    min_response_count: u64,
}

impl Halts {
    fn lock(&self) -> MutexGuard<'_, EndpointHalts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates what is known about a model.
    fn update<T>(&self, model: &ModelSpec, change: impl FnOnce(&mut ModelState) -> T) -> T {
        let key = (Halt::model(model), Halt::key(model));
        change(self.lock().models.entry(key).or_default())
    }

    /// Reads what is known about a model. Returns `None` if nothing is known.
    fn read<T>(&self, model: &ModelSpec, read: impl FnOnce(&ModelState) -> T) -> Option<T> {
        let key = (Halt::model(model), Halt::key(model));
        self.lock().models.get(&key).map(read)
    }

    /// Notes that a response arrived. `origin` contains the number of responses that the trial had
    /// received before.
    pub(crate) fn note_response(&self, origin: &RequestOrigin<'_>) {
        self.update(origin.model, |state| {
            state.last_response_at = Some(Instant::now());
            state.first_response_gate.open();
            state.lost_trials.clear();
            state.has_responded_with_tools |= origin.offers_tools;
            state
                .rejections
                .retain(|_, rejection| rejection.min_response_count > origin.response_count);
        });
    }

    /// Returns the gate for a model that has not responded yet.
    pub(crate) fn first_response_gate(&self, model: &ModelSpec) -> FirstResponseGate {
        self.update(model, |state| state.first_response_gate.clone())
    }

    /// Counts a trial that used up its time waiting for the model. Returns how many trials in a row
    /// did so.
    pub(crate) fn count_lost_trial(&self, origin: &RequestOrigin<'_>) -> usize {
        self.update(origin.model, |state| {
            state.lost_trials.insert(origin.trial);
            state.lost_trials.len()
        })
    }

    /// Whether the model has responded in this run.
    pub(crate) fn has_responded(&self, model: &ModelSpec) -> bool {
        self.last_response(model).is_some()
    }

    fn last_response(&self, model: &ModelSpec) -> Option<Instant> {
        self.read(model, |state| state.last_response_at)?
    }

    /// Whether the model has responded to a request that offered tools.
    pub(crate) fn supports_tools(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.has_responded_with_tools).unwrap_or_default()
    }

    /// Notes that the endpoint returned one of the model's calls as a call rather than as text.
    pub(crate) fn note_call(&self, model: &ModelSpec) {
        self.update(model, |state| state.has_returned_call = true);
    }

    /// Whether the endpoint has returned one of the model's calls as a call in this run.
    pub(crate) fn has_returned_call(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.has_returned_call).unwrap_or_default()
    }

    /// Notes that the model itself writes calls that look broken.
    pub(crate) fn note_malformed_calls(&self, model: &ModelSpec) {
        self.update(model, |state| state.writes_malformed_calls = true);
    }

    /// Whether the model itself has written calls that look broken.
    pub(crate) fn writes_malformed_calls(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.writes_malformed_calls).unwrap_or_default()
    }

    /// Notes that the model itself omits fences of its code blocks.
    pub(crate) fn note_omitted_fence(&self, model: &ModelSpec) {
        self.update(model, |state| state.omits_fences = true);
    }

    /// Whether the model itself has omitted a fence of a code block.
    pub(crate) fn omits_fences(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.omits_fences).unwrap_or_default()
    }

    /// Notes that the model itself writes text that looks damaged.
    pub(crate) fn note_own_style(&self, model: &ModelSpec, damage: StreamDamage) {
        self.update(model, |state| state.own_styles.insert(damage));
    }

    /// Whether the model itself has written text that looks damaged in this way.
    pub(crate) fn writes_like(&self, model: &ModelSpec, damage: StreamDamage) -> bool {
        self.read(model, |state| state.own_styles.contains(&damage)).unwrap_or_default()
    }

    /// Whether the model itself has written text that looks damaged in any way.
    pub(crate) fn has_own_style(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| !state.own_styles.is_empty()).unwrap_or_default()
    }

    /// Notes that a response of the provider had a stop reason.
    pub(crate) fn note_stop_reason(&self, model: &ModelSpec, provider: &str) {
        self.update(model, |state| {
            if !state.stop_reporters.contains(provider) {
                state.stop_reporters.insert(provider.to_owned());
            }
        });
    }

    /// Whether a response of the provider has had a stop reason in this run.
    pub(crate) fn gives_stop_reasons(&self, model: &ModelSpec, provider: &str) -> bool {
        self.read(model, |state| state.stop_reporters.contains(provider)).unwrap_or_default()
    }

    /// Notes the endpoint's count for the first request of a trial. Returns how many tokens the
    /// endpoint added to the prompt, if it counted far more than for other trials.
    pub(crate) fn note_first_prompt(
        &self,
        model: &ModelSpec,
        check: &AddedPromptCheck,
        count: &PromptCount,
    ) -> Option<u64> {
        self.update(model, |state| state.first_prompts.add(check, count))
    }

    /// Whether another trial received this response.
    pub(crate) fn is_of_other_trial(
        &self,
        model: &ModelSpec,
        id: &str,
        response: RunResponse,
    ) -> bool {
        self.read(model, |state| state.responses.is_of_other_trial(id, response))
            .unwrap_or_default()
    }

    /// Remembers a response for the other trials.
    pub(crate) fn note_run_response(&self, model: &ModelSpec, id: &str, response: RunResponse) {
        self.update(model, |state| state.responses.add(id, response));
    }

    /// Notes that the model itself ends turns without output.
    pub(crate) fn note_turn_without_output(&self, model: &ModelSpec) {
        self.update(model, |state| state.ends_turns_without_output = true);
    }

    /// Whether the model itself has ended a turn without output.
    pub(crate) fn ends_turns_without_output(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.ends_turns_without_output).unwrap_or_default()
    }

    /// Counts a stream without output.
    pub(crate) fn note_hollow_stream(&self, model: &ModelSpec) {
        self.update(model, |state| state.hollow_streams += 1);
    }

    /// Returns the number of streams without output in this run.
    pub(crate) fn hollow_streams(&self, model: &ModelSpec) -> u64 {
        self.read(model, |state| state.hollow_streams).unwrap_or_default()
    }

    /// Notes that the endpoint returned a call with characters that HTML escapes.
    pub(crate) fn note_unescaped_call(&self, model: &ModelSpec) {
        self.update(model, |state| state.has_returned_unescaped_call = true);
    }

    /// Whether the endpoint has returned a call with characters that HTML escapes.
    pub(crate) fn returns_unescaped_calls(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.has_returned_unescaped_call).unwrap_or_default()
    }

    /// Notes that the endpoint rejects requests without streaming.
    pub(crate) fn note_stream_only(&self, model: &ModelSpec) {
        self.update(model, |state| state.is_stream_only = true);
    }

    /// Whether the endpoint rejects requests without streaming.
    pub(crate) fn is_stream_only(&self, model: &ModelSpec) -> bool {
        self.read(model, |state| state.is_stream_only).unwrap_or_default()
    }

    /// Notes the tokens that the endpoint counted for a prompt that it answered.
    pub(crate) fn note_prompt(&self, model: &ModelSpec, tokens: u64) {
        self.update(model, |state| state.largest_prompt = state.largest_prompt.max(tokens));
    }

    /// Returns the longest prompt that the endpoint has answered in this run, in tokens. Returns 0
    /// if the endpoint has counted no tokens.
    pub(crate) fn largest_prompt(&self, model: &ModelSpec) -> u64 {
        self.read(model, |state| state.largest_prompt).unwrap_or_default()
    }

    /// Returns the repairs that requests to the model need.
    pub(crate) fn repairs(&self, model: &ModelSpec) -> Vec<Repair> {
        self.read(model, |state| state.repairs.clone()).unwrap_or_default()
    }

    /// Keeps a repair that made the endpoint accept a request.
    pub(crate) fn remember_repair(&self, model: &ModelSpec, repair: &Repair) {
        self.update(model, |state| {
            if repair.is_lasting() && !state.repairs.contains(repair) {
                state.repairs.push(repair.clone());
            }
        });
    }

    /// Counts a request that was rejected with this text. Returns whether the endpoint must be the
    /// cause: `min_trials` trials got the same rejection, and since then no trial has received a
    /// response that clears the count.
    pub(crate) fn count_rejection(
        &self,
        origin: &RequestOrigin<'_>,
        message: &str,
        min_trials: usize,
    ) -> bool {
        self.update(origin.model, |state| {
            let rejection = state.rejections.entry(normalize_message(message)).or_default();
            rejection.min_response_count = if rejection.trials.is_empty() {
                origin.response_count
            } else {
                rejection.min_response_count.min(origin.response_count)
            };
            rejection.trials.insert(origin.trial);
            rejection.trials.len() >= min_trials
        })
    }

    /// Stores a fault that every further request with the same key or model would also encounter.
    ///
    /// If the key has already received responses from the same model, a 403 is treated as specific
    /// to that request, because some endpoints return 403 for content that they reject.
    pub(crate) fn halt_for_status(&self, model: &ModelSpec, status: Option<u16>, fault: &Fault) {
        let key = Halt::key(model);
        let halt = match status {
            Some(403) if self.has_responded(model) => return,
            // Endpoints report an account without credit as 402 or 429.
            Some(401 | 402 | 403 | 429) => key,
            _ => Halt::model(model),
        };
        self.halt(halt, fault);
    }

    pub(crate) fn halt_endpoint(&self, model: &ModelSpec, fault: &Fault) {
        self.halt(Halt::endpoint(model), fault);
    }

    pub(crate) fn halt_model(&self, model: &ModelSpec, fault: &Fault) {
        self.halt(Halt::model(model), fault);
    }

    pub(crate) fn halt_tools(&self, model: &ModelSpec, fault: &Fault) {
        self.halt(Halt::tools(model), fault);
    }

    fn halt(&self, halt: Halt, fault: &Fault) {
        self.lock().faults.entry(halt).or_insert_with(|| fault.clone());
    }

    /// Whether no trial has received a response from the model after `since`.
    pub(crate) fn is_down(&self, model: &ModelSpec, since: Instant) -> bool {
        self.last_response(model).is_none_or(|last| last < since)
    }

    /// Returns why the model must not be called, if there is a reason. `offers_tools` says whether
    /// the request offers tools.
    pub(crate) fn halting_fault(&self, model: &ModelSpec, offers_tools: bool) -> Option<Fault> {
        let state = self.lock();
        if state.faults.is_empty() {
            return None;
        }
        let by = |halt: Halt| state.faults.get(&halt).cloned();
        by(Halt::key(model))
            .or_else(|| by(Halt::model(model)))
            .or_else(|| by(Halt::endpoint(model)))
            .or_else(|| if offers_tools { by(Halt::tools(model)) } else { None })
    }

    pub(crate) fn faults(&self) -> Vec<Fault> {
        self.lock().faults.values().cloned().collect()
    }
}

/// Returns the text without the parts that differ between requests: words with digits, and
/// everything after the first line.
fn normalize_message(message: &str) -> String {
    const MAX_COMPARED_CHARS: usize = 160;
    let line = message.trim().lines().next().unwrap_or_default();
    let kept = line.chars().take(MAX_COMPARED_CHARS);
    // Remove words that contain digits, because they may be ids.
    let kept: String = kept.collect();
    let words =
        kept.split_whitespace().filter(|word| !word.contains(|one: char| one.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use proctor_types::{Fault, FaultLayer, ModelSpec};

    use super::{Halts, RequestOrigin, normalize_message};

    fn model(name: &str) -> ModelSpec {
        let spec = serde_json::json!({"base_url": "http://h/v1", "name": name});
        serde_json::from_value(spec).expect("a model")
    }

    #[test]
    fn normalize_message_ignores_ids_and_later_lines() {
        let one = normalize_message("no field `x` in messages[3] (request req_01ab)\nmore");
        assert_eq!(one, normalize_message("No field `x` in messages[17] (request req_77fe)"));
        assert_ne!(one, normalize_message("no field `y` in messages[3]"));
    }

    #[test]
    fn rejection_count_resets_after_a_response_at_the_same_point() {
        let (halts, model) = (Halts::default(), model("m"));
        let origin = |trial, answers| RequestOrigin {
            model: &model,
            trial,
            response_count: answers,
            offers_tools: false,
        };
        assert!(!halts.count_rejection(&origin(1, 2), "no", 3));
        assert!(!halts.count_rejection(&origin(1, 2), "no", 3), "each trial counts once");
        assert!(!halts.count_rejection(&origin(2, 2), "no", 3));
        // A trial received a response at this point, so the endpoint did not cause the rejections
        // counted so far.
        halts.note_response(&origin(3, 2));
        assert!(!halts.count_rejection(&origin(4, 2), "no", 3));
        assert!(!halts.count_rejection(&origin(5, 3), "no", 3));
        // A response at an earlier point of a conversation does not clear the count.
        halts.note_response(&origin(6, 1));
        assert!(halts.count_rejection(&origin(6, 2), "no", 3));
    }

    #[test]
    fn halted_tools_still_allow_requests_without_tools() {
        let (halts, no_tools) = (Halts::default(), model("m"));
        let fault = Fault::new(FaultLayer::Model, "no tools");
        halts.halt_tools(&no_tools, &fault);
        assert_eq!(halts.halting_fault(&no_tools, true), Some(fault));
        assert_eq!(halts.halting_fault(&no_tools, false), None);
        assert_eq!(halts.halting_fault(&model("n"), true), None);
    }
}
