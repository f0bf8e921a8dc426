//! Answers of a model, each of which is had once: kept by the model and the question.

use std::path::Path;

use async_trait::async_trait;
use proctor_types::{Fault, Layer};
use serde::{Serialize, de::DeserializeOwned};

use super::{kept::Kept, pipeline::keep, settings::Settings};

/// A model that answers one question at a time. Who implements it counts what that costs.
#[async_trait]
pub trait Model: Send + Sync {
    /// As its endpoint calls it.
    fn name(&self) -> &str;

    /// The model with its parameters: an answer that is kept under another key does not count.
    fn key(&self) -> &str;

    /// # Errors
    /// The endpoint gave no answer.
    async fn answer(&self, question: &str) -> Result<String, Fault>;
}

/// A model, and the answers that it gave.
pub struct Answers<'a> {
    model: &'a dyn Model,
    kept: Kept,
    attempts: usize,
}

impl<'a> Answers<'a> {
    /// # Errors
    /// The settings that came with the program are broken.
    pub fn new(model: &'a dyn Model, cache: &Path) -> Result<Self, Fault> {
        let kept = Kept::new(&cache.join("collections"), "answers");
        Ok(Self { model, kept, attempts: Settings::get()?.tops.model.attempts.max(1) })
    }

    pub(super) fn model(&self) -> &dyn Model {
        self.model
    }

    /// What `read` makes of an answer. One that it cannot read is asked for again, some times. `what` is told of where
    /// none can be read: whom it is about, and what was not in the answers.
    ///
    /// # Errors
    /// The endpoint gave no answer, or none that can be read.
    pub(super) async fn ask<T: Serialize + DeserializeOwned>(
        &self,
        stage: &str,
        question: &str,
        read: impl Fn(&str) -> Option<T>,
        (of, what): (&str, &str),
    ) -> Result<T, Fault> {
        let named = format!("{}\0{question}", self.model.key());
        if let Some(known) = self.kept.get(stage, &named) {
            return Ok(known);
        }
        for _ in 0..self.attempts {
            if let Some(found) = read(&self.model.answer(question).await?) {
                keep(&self.kept, stage, &named, &found);
                return Ok(found);
            }
        }
        let (name, attempts) = (self.model.name(), self.attempts);
        let what = format!("{of}: {name} answered {attempts} times without {what}");
        let hint = "take another model, or leave --llm out: rules decide then";
        Err(Fault::new(Layer::Model, what).hint(hint))
    }
}

/// The last JSON object of an answer that is of a type.
pub(super) fn last_json<T: DeserializeOwned>(answer: &str) -> Option<T> {
    let starts = answer.match_indices('{').map(|(at, _)| at);
    let mut found = starts.filter_map(|at| {
        serde_json::Deserializer::from_str(&answer[at..]).into_iter::<T>().next()?.ok()
    });
    found.next_back()
}
