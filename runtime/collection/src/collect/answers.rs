//! Sends prompts to a model and caches its responses by model and prompt.

use std::path::Path;

use async_trait::async_trait;
use proctor_types::{Fault, FaultLayer};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    settings::Settings,
    stage_cache::{StageCache, cache_result},
};

/// A model that responds to single prompts. The implementation keeps track of the cost.
#[async_trait]
pub trait Model: Send + Sync {
    /// The model's name at the endpoint.
    fn name(&self) -> &str;

    /// Identifies the model and its parameters. Responses are cached under this key.
    fn cache_key(&self) -> &str;

    /// Sends one prompt and returns the response text.
    ///
    /// # Errors
    /// Fails if the endpoint did not respond.
    async fn complete(&self, question: &str) -> Result<String, Fault>;
}

/// A model and its cached responses.
pub struct CachedModel<'a> {
    model: &'a dyn Model,
    response_cache: StageCache,
    max_attempts: usize,
}

impl<'a> CachedModel<'a> {
    /// Opens the cache of responses for a model.
    ///
    /// # Errors
    /// Fails if the built-in settings are invalid.
    pub fn new(model: &'a dyn Model, cache: &Path) -> Result<Self, Fault> {
        let kept = StageCache::new(&cache.join("collections"), "answers");
        Ok(Self {
            model,
            response_cache: kept,
            max_attempts: Settings::get()?.tops.model.attempts.max(1),
        })
    }

    pub(crate) fn model(&self) -> &dyn Model {
        self.model
    }

    /// Sends a prompt and returns the value that `parse` parses from the response. If the response
    /// cannot be parsed, the prompt is sent again, up to a fixed number of times. The final error
    /// message names the prompt's subject (`subject`) and the missing value (`what`).
    ///
    /// Fails if the endpoint did not respond, or if no response can be parsed.
    pub(crate) async fn ask<T: Serialize + DeserializeOwned>(
        &self,
        stage: &str,
        question: &str,
        parse: impl Fn(&str) -> Option<T>,
        (subject, what): (&str, &str),
    ) -> Result<T, Fault> {
        let cache_input = format!("{}\0{question}", self.model.cache_key());
        if let Some(known) = self.response_cache.get(stage, &cache_input) {
            return Ok(known);
        }
        for _ in 0..self.max_attempts {
            if let Some(found) = parse(&self.model.complete(question).await?) {
                cache_result(&self.response_cache, stage, &cache_input, &found);
                return Ok(found);
            }
        }
        let (name, attempts) = (self.model.name(), self.max_attempts);
        let what = format!("{subject}: {attempts} responses from {name} do not contain {what}");
        let hint = "use another model, or omit --llm to decide by rules";
        Err(Fault::new(FaultLayer::Model, what).hint(hint))
    }
}

/// Returns the last JSON object in a response that has the type `T`.
pub(crate) fn last_json<T: DeserializeOwned>(response: &str) -> Option<T> {
    let starts = response.match_indices('{').map(|(at, _)| at);
    let mut found = starts.filter_map(|at| {
        serde_json::Deserializer::from_str(&response[at..]).into_iter::<T>().next()?.ok()
    });
    found.next_back()
}
