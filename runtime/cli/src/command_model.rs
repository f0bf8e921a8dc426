//! A model that a command calls outside of a run. Usage is metered, and the requests and responses
//! are recorded next to the command's output.

use std::{
    fs::{self, File},
    path::Path,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use proctor_collection::Model;
use proctor_gateway::{Gateway, PriceTable, RequestError, TrialGateway};
use proctor_record::Blobs;
use proctor_run::ExchangeLog;
use proctor_types::{
    Budget, Fault, FaultLayer, Message, ModelRequest, ModelSpec, count_with_noun,
    format_error_chain,
};
use serde_json::json;

use crate::error::{CommandError, UserError};

/// The connection to one model.
pub struct CommandModel {
    name: String,
    cache_key: String,
    gateway: TrialGateway,
}

impl CommandModel {
    /// Opens the connection. Stores requests and responses below `out`: events in `model.jsonl`,
    /// bodies in `model`.
    pub fn open(model: &ModelSpec, out: &Path) -> Result<Self, CommandError> {
        let gateway = Gateway::new(PriceTable::shipped()?)?;
        let budget = Budget::default();
        gateway
            .check_model(model, &budget)
            .map_err(|fault| UserError { message: fault.what, hint: fault.hint })?;
        fs::create_dir_all(out)?;
        let (mut options, path) = (File::options(), out.join("model.jsonl"));
        let file = proctor_files::open_with(options.create(true).append(true), &path)?;
        let (file, blobs) = (Arc::new(Mutex::new(file)), Blobs::new(out.join("model")));
        let sink = ExchangeLog { name: "model.jsonl", file, blobs, model: None };
        let line = gateway.open(model, &budget, Arc::new(sink))?;
        // Leave out settings that don't affect responses, such as the endpoint, the key and the
        // price.
        let plain = ModelSpec {
            base_url: String::new(),
            key_env: None,
            price: None,
            cutoff: None,
            tool_check: None,
            cache: None,
            ..model.clone()
        };
        Ok(Self { name: model.name.clone(), cache_key: json!(plain).to_string(), gateway: line })
    }

    /// Summarizes the requests and their cost.
    pub fn cost_summary(&self) -> String {
        let spent = self.gateway.meter().spending();
        let requests = match spent.steps {
            0 => "no requests: every response was stored by an earlier run".to_owned(),
            steps => format!(
                "{} answered, {} in, {} out, {}",
                count_with_noun(steps, "request"),
                count_with_noun(spent.input_tokens, "token"),
                count_with_noun(spent.output_tokens, "token"),
                spent.format_cost()
            ),
        };
        format!("{}: {requests}", self.name)
    }
}

#[async_trait]
impl Model for CommandModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn cache_key(&self) -> &str {
        &self.cache_key
    }

    async fn complete(&self, question: &str) -> Result<String, Fault> {
        let ask = ModelRequest {
            messages: vec![Message::User { content: question.to_owned() }],
            tools: Vec::new(),
        };
        match self.gateway.ask(&ask).await {
            Ok(answer) => Ok(answer.content),
            Err(RequestError::Fault(fault)) => Err(fault),
            Err(other) => Err(Fault::new(FaultLayer::Model, format_error_chain(&other))),
        }
    }
}
