//! Keys and models that an endpoint turned away for good: no trial of the run asks with them again.
//!
//! Without this each trial of a plan would find out by itself that the key is wrong, at the price of
//! a sandbox and a request each, and would end in a fault of its own where it could simply wait for a
//! `resume`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proctor_types::{Fault, ModelSpec};

use crate::rates::address;

/// What cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Halt {
    /// At this address, the key of this variable (or none).
    Key(String, Option<String>),
    /// At this address, the model of this name.
    Model(String, String),
}

impl Halt {
    fn key(model: &ModelSpec) -> Self {
        Self::Key(address(&model.base_url).to_owned(), model.key_env.clone())
    }

    fn model(model: &ModelSpec) -> Self {
        Self::Model(address(&model.base_url).to_owned(), model.name.clone())
    }
}

/// Shared by all trials of a run. A `resume` begins with none.
#[derive(Debug, Default)]
pub(crate) struct Halts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    halted: BTreeMap<Halt, Fault>,
    /// Models that have answered in this run, with the key that they were asked with.
    answered: BTreeSet<(Halt, Halt)>,
}

impl Halts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn answered(&self, model: &ModelSpec) {
        self.lock().answered.insert((Halt::key(model), Halt::model(model)));
    }

    /// Keeps a fault that every further request would only meet again.
    ///
    /// A 403 where the same key had answers of the same model is about that one request: some
    /// endpoints say so of a text that they do not like.
    pub(crate) fn note(&self, model: &ModelSpec, status: Option<u16>, fault: &Fault) {
        let (key, named) = (Halt::key(model), Halt::model(model));
        let mut state = self.lock();
        let halt = match status {
            Some(403) if state.answered.contains(&(key.clone(), named.clone())) => return,
            // An empty account is 402, or 429 by another name.
            Some(401 | 402 | 403 | 429) => key,
            _ => named,
        };
        state.halted.entry(halt).or_insert_with(|| fault.clone());
    }

    /// Why the model is not to be asked.
    pub(crate) fn of(&self, model: &ModelSpec) -> Option<Fault> {
        let state = self.lock();
        if state.halted.is_empty() {
            return None;
        }
        let by = |halt: Halt| state.halted.get(&halt).cloned();
        by(Halt::key(model)).or_else(|| by(Halt::model(model)))
    }

    pub(crate) fn all(&self) -> Vec<Fault> {
        self.lock().halted.values().cloned().collect()
    }
}
