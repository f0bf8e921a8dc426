//! `--model NAME`: one model in the place of every arm's.

use proctor_gateway::PriceTable;
use proctor_types::ModelSpec;
use serde_json::Map;

use crate::{config::ConfigFile, error::UserError};

/// Puts a model of the configuration or of the catalogue in the place of every arm's model.
pub fn put_model(file: &mut ConfigFile, name: &str) -> Result<(), UserError> {
    if !file.models.contains_key(name) {
        file.models.insert(name.to_owned(), of_catalogue(name)?);
    }
    for arm in file.arms.iter_mut().filter(|arm| arm.model.is_some()) {
        if let Some(old) = arm.model.replace(name.to_owned()) {
            arm.name = arm.name.replace(&old, name);
        }
    }
    Ok(())
}

/// An entry of the catalogue; `openai/X` that it does not list is X at OpenAI's own endpoint.
fn of_catalogue(name: &str) -> Result<ModelSpec, UserError> {
    let table = PriceTable::shipped().map_err(|fault| UserError::new(fault.to_string()))?;
    let entry = table.entry(name);
    let endpoint = entry.and_then(|entry| Some((entry.base_url.clone()?, entry.key_env.clone())));
    let (base_url, key_env) = match (endpoint, name.split_once('/')) {
        (Some(endpoint), _) => endpoint,
        (None, Some(("openai", _))) => {
            ("https://api.openai.com/v1".to_owned(), Some("OPENAI_API_KEY".to_owned()))
        }
        _ => {
            return Err(UserError::new(format!("--model {name}: not in the catalogue"))
                .mend(format!("add a table [models.\"{name}\"] with base_url, name and key_env")));
        }
    };
    Ok(ModelSpec {
        base_url,
        name: name.split_once('/').map_or(name, |(_, rest)| rest).to_owned(),
        key_env,
        context_window: entry.and_then(|entry| entry.context_window),
        temperature: None,
        top_p: None,
        max_output_tokens: None,
        reasoning_effort: None,
        seed: None,
        extra_body: Map::new(),
    })
}
