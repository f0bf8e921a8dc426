//! What an endpoint cannot do for any trial of the run, so that no trial asks for it again.
//!
//! Without this each trial of a plan would find out by itself that the key is wrong or that nobody is
//! there, at the price of a sandbox and of its retries each, and would end in a fault of its own where
//! it could simply wait for a `resume`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proctor_types::{Fault, ModelSpec};
use tokio::time::Instant;

use crate::{first_answer::FirstAnswer, rates::address, repair::Repair};

/// What cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Halt {
    /// Anything at this address.
    Endpoint(String),
    /// At this address, the key of this variable (or none).
    Key(String, Option<String>),
    /// At this address, the model of this name.
    Model(String, String),
    /// At this address, the model of this name in requests that offer tools.
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
    /// Tells trials apart.
    pub trial: u64,
    /// Answers that the trial has had.
    pub answers: u64,
    /// The request offers tools.
    pub tools: bool,
}

/// Shared by all trials of a run. A `resume` begins with none.
#[derive(Debug, Default)]
pub(crate) struct Halts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    halted: BTreeMap<Halt, Fault>,
    /// By model and key.
    heard: BTreeMap<(Halt, Halt), Heard>,
}

/// What was heard of a model that is asked with one key.
#[derive(Debug, Default)]
struct Heard {
    first_answer: FirstAnswer,
    /// When it answered last, in any trial.
    last: Option<Instant>,
    /// Trials that have lost their time to its silence since then.
    lost: BTreeSet<u64>,
    /// It has answered a request that offered tools.
    with_tools: bool,
    /// It has made a call that the endpoint returned as one.
    called: bool,
    /// The calls of a whole response were torn, too: the model writes them so.
    torn: bool,
    /// A call had characters that HTML escapes: the endpoint passes them on.
    unescaped: bool,
    /// What its requests need so that it accepts them.
    repairs: Vec<Repair>,
    /// What was turned away, by its words, until a trial comes past it.
    turned_away: BTreeMap<String, TurnedAway>,
}

#[derive(Debug, Default)]
struct TurnedAway {
    trials: BTreeSet<u64>,
    /// The fewest answers before it.
    answers: u64,
}

impl Halts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what was heard of a model.
    fn hear<T>(&self, model: &ModelSpec, change: impl FnOnce(&mut Heard) -> T) -> T {
        let key = (Halt::model(model), Halt::key(model));
        change(self.lock().heard.entry(key).or_default())
    }

    /// Reads what was heard of a model; `None` if nothing was.
    fn heard<T>(&self, model: &ModelSpec, read: impl FnOnce(&Heard) -> T) -> Option<T> {
        let key = (Halt::model(model), Halt::key(model));
        self.lock().heard.get(&key).map(read)
    }

    /// An answer came: `asker` says how many the trial had had before it.
    pub(crate) fn answered(&self, asker: &Asker<'_>) {
        self.hear(asker.model, |heard| {
            heard.last = Some(Instant::now());
            heard.first_answer.came();
            heard.lost.clear();
            heard.with_tools |= asker.tools;
            heard.turned_away.retain(|_, met| met.answers > asker.answers);
        });
    }

    /// Who may ask a model that has not answered yet.
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

    /// Whether the model has answered in this run.
    pub(crate) fn has_answered(&self, model: &ModelSpec) -> bool {
        self.last_answer(model).is_some()
    }

    fn last_answer(&self, model: &ModelSpec) -> Option<Instant> {
        self.heard(model, |heard| heard.last)?
    }

    /// Whether the model has answered a request that offered tools.
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

    /// The model itself writes calls that look torn.
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

    /// The repairs that requests of the model need.
    pub(crate) fn repairs(&self, model: &ModelSpec) -> Vec<Repair> {
        self.heard(model, |heard| heard.repairs.clone()).unwrap_or_default()
    }

    /// Keeps a repair that a request was accepted with.
    pub(crate) fn keep_repair(&self, model: &ModelSpec, repair: &Repair) {
        self.hear(model, |heard| {
            if repair.lasts() && !heard.repairs.contains(repair) {
                heard.repairs.push(repair.clone());
            }
        });
    }

    /// Counts a request that was turned away with these words. `true`: so many trials have met them
    /// alike, and none came past them since, that they say nothing of a trial.
    pub(crate) fn turned_away(&self, asker: &Asker<'_>, words: &str, alike_trials: usize) -> bool {
        self.hear(asker.model, |heard| {
            let met = heard.turned_away.entry(alike(words)).or_default();
            met.answers =
                if met.trials.is_empty() { asker.answers } else { met.answers.min(asker.answers) };
            met.trials.insert(asker.trial);
            met.trials.len() >= alike_trials
        })
    }

    /// Keeps a fault that every further request would only meet again.
    ///
    /// A 403 where the same key had answers of the same model is about that one request, as far as one
    /// can tell from one: some endpoints say so of a text that they do not like.
    pub(crate) fn note(&self, model: &ModelSpec, status: Option<u16>, fault: &Fault) {
        let key = Halt::key(model);
        let halt = match status {
            Some(403) if self.has_answered(model) => return,
            // An empty account is 402, or 429 by another name.
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

    /// Why the model is not to be asked; `tools`: with tools on offer.
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

/// Words without what differs from one request to the next: numbers, and what follows the first line.
fn alike(words: &str) -> String {
    const COMPARED: usize = 160;
    let line = words.trim().lines().next().unwrap_or_default();
    let kept = line.chars().take(COMPARED);
    // An id has digits in it: the word goes with them.
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
        // A trial got past this point, so the failures that were counted were not the endpoint's.
        halts.answered(&asker(3, 2));
        assert!(!halts.turned_away(&asker(4, 2), "no", 3));
        assert!(!halts.turned_away(&asker(5, 3), "no", 3));
        // An answer before the place proves nothing.
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
