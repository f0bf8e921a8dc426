//! What is asked of a model outside of trials, kept in a file of lines and in blobs.

use std::{
    fs::File,
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use proctor_gateway::ExchangeSink;
use proctor_record::Blobs;
use proctor_types::{Event, Fault, Layer};
use serde_json::{Map, json};

use crate::commands::now;

/// Keeps the events in a file, one line each, and the bodies among the blobs.
pub struct Kept {
    /// The file's name, for errors.
    pub name: &'static str,
    pub file: Arc<Mutex<File>>,
    pub blobs: Blobs,
    /// Said in each line where the file is about several models.
    pub model: Option<String>,
}

#[async_trait]
impl ExchangeSink for Kept {
    async fn body(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.blobs.put(bytes).map_err(|error| Fault::new(Layer::Record, error.to_string()))
    }

    async fn event(&self, _: u64, event: Event) -> Result<(), Fault> {
        let mut line = Map::new();
        line.insert("at".into(), json!(now()));
        if let Some(model) = &self.model {
            line.insert("model".into(), json!(model));
        }
        line.insert("event".into(), json!(event));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{}", json!(line))
            .map_err(|error| Fault::new(Layer::Record, format!("{}: {error}", self.name)))
    }
}
