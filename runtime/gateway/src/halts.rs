//! What an endpoint cannot do for any trial of the run, so that no further trial tries it.
//!
//! Without this, each trial would find out by itself that the key is wrong or the endpoint is down.
//! It would cost a sandbox and all retries, and end in a fault where it could wait for a `resume`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proctor_types::{Fault, ModelSpec};
use tokio::time::Instant;

use crate::{first_answer::FirstAnswer, rates::address, repair::Repair};

/// What can no longer be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Halt {
    /// Anything at this URL.
    Endpoint(String),
    /// The key of this variable (or no key) at this URL.
    Key(String, Option<String>),
    /// The model of this name at this URL.
    Model(String, String),
    /// The model of this name at this URL, in requests that offer tools.
    Tools(String, String),
}

impl Halt {
    fn key(model: &ModelSpec) -> Self {
        Self::Key(address(&model.base_url).to_owned(), model.key_env.clone())
    }

    fn model(model: &ModelSpec) -> Self {
        Self::Model(address(&model.base_url).to_owned(), model.name.clone())
    }

    fn tools(model: &ModelSpec) -> Self {
        Self::Tools(address(&model.base_url).to_owned(), model.name.clone())
    }

    fn endpoint(model: &ModelSpec) -> Self {
        Self::Endpoint(address(&model.base_url).to_owned())
    }
}

/// One request of one trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub model: &'a ModelSpec,
    /// Identifies the trial.
    pub trial: u64,
    /// Number of responses that the trial has received.
    pub answers: u64,
    /// The request offers tools.
    pub tools: bool,
}

/// Shared by all trials of a run. A `resume` starts with none.
#[derive(Debug, Default)]
pub(crate) struct Halts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    halted: BTreeMap<Halt, Fault>,
    /// By model and key.
    heard: BTreeMap<(Halt, Halt), Heard>,
}

/// What is known about a model that is called with one key.
#[derive(Debug, Default)]
struct Heard {
    first_answer: FirstAnswer,
    /// Its last response in any trial.
    last: Option<Instant>,
    /// Trials that have lost their time to its silence since then.
    lost: BTreeSet<u64>,
    /// It has responded to a request that offered tools.
    with_tools: bool,
    /// It has made a call that the endpoint returned as one.
    called: bool,
    /// Calls of a complete response were torn, too: the model writes them that way.
    torn: bool,
    /// A call had characters that HTML escapes: the endpoint passes them on.
    unescaped: bool,
    /// It rejects requests without streaming.
    only_streams: bool,
    /// What its requests need so that it accepts them.
    repairs: Vec<Repair>,
    /// Rejections by their text, until a trial gets past that point.
    turned_away: BTreeMap<String, TurnedAway>,
}

#[derive(Debug, Default)]
struct TurnedAway {
    trials: BTreeSet<u64>,
    /// The lowest number of responses before it.
    answers: u64,
}

impl Halts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates what is known about a model.
    fn hear<T>(&self, model: &ModelSpec, change: impl FnOnce(&mut Heard) -> T) -> T {
        let key = (Halt::model(model), Halt::key(model));
        change(self.lock().heard.entry(key).or_default())
    }

    /// Reads what is known about a model; `None` if nothing is.
    fn heard<T>(&self, model: &ModelSpec, read: impl FnOnce(&Heard) -> T) -> Option<T> {
        let key = (Halt::model(model), Halt::key(model));
        self.lock().heard.get(&key).map(read)
    }

    /// A response arrived. `asker` has the number of the trial's responses before it.
    pub(crate) fn answered(&self, asker: &Asker<'_>) {
        self.hear(asker.model, |heard| {
            heard.last = Some(Instant::now());
            heard.first_answer.came();
            heard.lost.clear();
            heard.with_tools |= asker.tools;
            heard.turned_away.retain(|_, met| met.answers > asker.answers);
        });
    }

    /// The gate for a model that has not responded yet.
    pub(crate) fn first_answer(&self, model: &ModelSpec) -> FirstAnswer {
        self.hear(model, |heard| heard.first_answer.clone())
    }

    /// Counts a trial that lost its time to the model's silence, and returns how many did in a row.
    pub(crate) fn lost_one(&self, asker: &Asker<'_>) -> usize {
        self.hear(asker.model, |heard| {
            heard.lost.insert(asker.trial);
            heard.lost.len()
        })
    }

    /// Whether the model has responded in this run.
    pub(crate) fn has_answered(&self, model: &ModelSpec) -> bool {
        self.last_answer(model).is_some()
    }

    fn last_answer(&self, model: &ModelSpec) -> Option<Instant> {
        self.heard(model, |heard| heard.last)?
    }

    /// Whether the model has responded to a request that offered tools.
    pub(crate) fn takes_tools(&self, model: &ModelSpec) -> bool {
        self.heard(model, |heard| heard.with_tools).unwrap_or_default()
    }

    /// The model made a call, and the endpoint returned it as one.
    pub(crate) fn called(&self, model: &ModelSpec) {
        self.hear(model, |heard| heard.called = true);
    }

    /// Whether the endpoint has returned a call of the model in this run.
    pub(crate) fn has_called(&self, model: &ModelSpec) -> bool {
        self.heard(model, |heard| heard.called).unwrap_or_default()
    }

    /// Notes that the model itself writes calls that look torn.
    pub(crate) fn tears_calls(&self, model: &ModelSpec) {
        self.hear(model, |heard| heard.torn = true);
    }

    /// Whether the model itself has written calls that look torn.
    pub(crate) fn has_torn(&self, model: &ModelSpec) -> bool {
        self.heard(model, |heard| heard.torn).unwrap_or_default()
    }

    /// The endpoint returned a call with characters that HTML escapes.
    pub(crate) fn leaves_unescaped(&self, model: &ModelSpec) {
        self.hear(model, |heard| heard.unescaped = true);
    }

    /// Whether the endpoint has returned a call with characters that HTML escapes.
    pub(crate) fn has_unescaped(&self, model: &ModelSpec) -> bool {
        self.heard(model, |heard| heard.unescaped).unwrap_or_default()
    }

    /// The endpoint rejects requests without streaming.
    pub(crate) fn streams_only(&self, model: &ModelSpec) {
        self.hear(model, |heard| heard.only_streams = true);
    }

    /// Whether the endpoint rejects requests without streaming.
    pub(crate) fn only_streams(&self, model: &ModelSpec) -> bool {
        self.heard(model, |heard| heard.only_streams).unwrap_or_default()
    }

    /// The repairs that requests of the model need.
    pub(crate) fn repairs(&self, model: &ModelSpec) -> Vec<Repair> {
        self.heard(model, |heard| heard.repairs.clone()).unwrap_or_default()
    }

    /// Keeps a repair with which a request was accepted.
    pub(crate) fn keep_repair(&self, model: &ModelSpec, repair: &Repair) {
        self.hear(model, |heard| {
            if repair.lasts() && !heard.repairs.contains(repair) {
                heard.repairs.push(repair.clone());
            }
        });
    }

    /// Counts a request that was rejected with this text. `true`: so many trials got the same
    /// rejection, and none got past it since, that the trials are not the cause.
    pub(crate) fn turned_away(&self, asker: &Asker<'_>, words: &str, alike_trials: usize) -> bool {
        self.hear(asker.model, |heard| {
            let met = heard.turned_away.entry(alike(words)).or_default();
            met.answers =
                if met.trials.is_empty() { asker.answers } else { met.answers.min(asker.answers) };
            met.trials.insert(asker.trial);
            met.trials.len() >= alike_trials
        })
    }

    /// Keeps a fault that every further request would meet again.
    ///
    /// A 403 for a key that has already received responses from the same model is treated as
    /// specific to that request: some endpoints return it for content that they reject.
    pub(crate) fn note(&self, model: &ModelSpec, status: Option<u16>, fault: &Fault) {
        let key = Halt::key(model);
        let halt = match status {
            Some(403) if self.has_answered(model) => return,
            // An empty account is 402, or 429 under another name.
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
        self.lock().halted.entry(halt).or_insert_with(|| fault.clone());
    }

    /// Whether the model has been silent to every trial since then.
    pub(crate) fn is_out(&self, model: &ModelSpec, since: Instant) -> bool {
        self.last_answer(model).is_none_or(|last| last < since)
    }

    /// Why the model must not be called; `tools`: with tools on offer.
    pub(crate) fn of(&self, model: &ModelSpec, tools: bool) -> Option<Fault> {
        let state = self.lock();
        if state.halted.is_empty() {
            return None;
        }
        let by = |halt: Halt| state.halted.get(&halt).cloned();
        by(Halt::key(model))
            .or_else(|| by(Halt::model(model)))
            .or_else(|| by(Halt::endpoint(model)))
            .or_else(|| if tools { by(Halt::tools(model)) } else { None })
    }

    pub(crate) fn all(&self) -> Vec<Fault> {
        self.lock().halted.values().cloned().collect()
    }
}

/// The text without what differs between requests: numbers, and everything after the first line.
fn alike(words: &str) -> String {
    const COMPARED: usize = 160;
    let line = words.trim().lines().next().unwrap_or_default();
    let kept = line.chars().take(COMPARED);
    // An id contains digits, so the whole word is removed.
    let kept: String = kept.collect();
    let words =
        kept.split_whitespace().filter(|word| !word.contains(|one: char| one.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use proctor_types::{Fault, Layer, ModelSpec};

    use super::{Asker, Halts, alike};

    fn model(name: &str) -> ModelSpec {
        let spec = serde_json::json!({"base_url": "http://h/v1", "name": name});
        serde_json::from_value(spec).expect("a model")
    }

    #[test]
    fn what_differs_from_request_to_request_is_not_compared() {
        let one = alike("no field `x` in messages[3] (request req_01ab)\nmore");
        assert_eq!(one, alike("No field `x` in messages[17] (request req_77fe)"));
        assert_ne!(one, alike("no field `y` in messages[3]"));
    }

    #[test]
    fn trials_that_are_turned_away_alike_meet_the_endpoint_until_one_comes_past() {
        let (halts, model) = (Halts::default(), model("m"));
        let asker = |trial, answers| Asker { model: &model, trial, answers, tools: false };
        assert!(!halts.turned_away(&asker(1, 2), "no", 3));
        assert!(!halts.turned_away(&asker(1, 2), "no", 3), "one trial is one witness");
        assert!(!halts.turned_away(&asker(2, 2), "no", 3));
        // A trial got past this point, so the endpoint did not cause the counted failures.
        halts.answered(&asker(3, 2));
        assert!(!halts.turned_away(&asker(4, 2), "no", 3));
        assert!(!halts.turned_away(&asker(5, 3), "no", 3));
        // A response before that point proves nothing.
        halts.answered(&asker(6, 1));
        assert!(halts.turned_away(&asker(6, 2), "no", 3));
    }

    #[test]
    fn a_model_without_tools_is_asked_without_them() {
        let (halts, no_tools) = (Halts::default(), model("m"));
        let fault = Fault::new(Layer::Model, "no tools");
        halts.halt_tools(&no_tools, &fault);
        assert_eq!(halts.of(&no_tools, true), Some(fault));
        assert_eq!(halts.of(&no_tools, false), None);
        assert_eq!(halts.of(&model("n"), true), None);
    }
}
