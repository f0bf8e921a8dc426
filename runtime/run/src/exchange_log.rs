//! Records model calls that do not belong to a trial. Events are written to a JSON Lines file,
//! bodies to blobs.

use std::{
    fs::File,
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use proctor_gateway::ExchangeSink;
use proctor_record::{Blobs, now};
use proctor_types::{Event, Fault, FaultLayer};
use serde_json::{Map, json};

/// Appends events to a file, one per line, and stores bodies as blobs.
pub struct ExchangeLog {
    /// File name for error messages.
    pub name: &'static str,
    pub file: Arc<Mutex<File>>,
    pub blobs: Blobs,
    /// The model's name, which is added to each line if several models share the file.
    pub model: Option<String>,
}

#[async_trait]
impl ExchangeSink for ExchangeLog {
    async fn store_body(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.blobs.put(bytes).map_err(|error| Fault::new(FaultLayer::Record, error.to_string()))
    }

    async fn record_event(&self, _: u64, event: Event) -> Result<(), Fault> {
        let mut line = Map::new();
        line.insert("at".into(), json!(now()));
        if let Some(model) = &self.model {
            line.insert("model".into(), json!(model));
        }
        line.insert("event".into(), json!(event));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{}", json!(line))
            .map_err(|error| Fault::new(FaultLayer::Record, format!("{}: {error}", self.name)))
    }
}
