//! Models given on the command line: `--model VENDOR/NAME` for every arm, and models used outside
//! a run.

use std::{collections::BTreeMap, path::Path};

use proctor_gateway::PriceTable;
use proctor_types::{Api, ModelSpec, Price, ShippedTable};
use serde::Deserialize;
use serde_json::Map;

use crate::{
    CheckExtent, ConfigFile, ConfigSource, UserError, check_keys, kind::closest_name,
    reader::no_builtins,
};

static ENDPOINTS: ShippedTable<BTreeMap<String, Endpoint>> = ShippedTable::new(
    "tables/endpoints.toml",
    include_str!("../../../configs/tables/endpoints.toml"),
);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    base_url: String,
    #[serde(default)]
    api: Api,
    #[serde(default)]
    key_env: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    agents: Vec<String>,
    #[serde(default)]
    local: bool,
}

impl Endpoint {
    /// Whether the name looks like one of the vendor's own models.
    fn has_model(&self, model: &str) -> bool {
        self.models.iter().any(|prefix| model.starts_with(prefix.as_str()))
    }
}

/// A vendor's model from `configs/tables/endpoints.toml`.
#[derive(Debug, Clone)]
pub struct VendorModel {
    pub spec: ModelSpec,
    /// The vendor's own command-line agents.
    pub agents: &'static [String],
    /// Whether the vendor is a server on this machine.
    pub is_local: bool,
}

/// Returns the names of all vendors, sorted.
///
/// # Errors
/// Fails if the built-in table is invalid.
pub fn vendor_names() -> Result<Vec<&'static str>, UserError> {
    Ok(ENDPOINTS.get().map_err(UserError::new)?.keys().map(String::as_str).collect())
}

/// Sets one model for every arm. `name` is a table in the configuration's `[models]`, or a known
/// vendor's model as `VENDOR/NAME`.
pub fn set_model(file: &mut ConfigFile, name: &str) -> Result<(), UserError> {
    if !file.models.contains_key(name) {
        file.models.insert(name.to_owned(), vendor_spec(name)?);
    }
    for arm in file.arms.iter_mut().filter(|arm| arm.model.is_some()) {
        if let Some(old) = arm.model.replace(name.to_owned()) {
            arm.name = arm.name.replace(&old, name);
        }
    }
    Ok(())
}

/// Returns the model for a command that has no run. `name` is a table in the file's `[models]`, or
/// a known vendor's model as `VENDOR/NAME`. The file's other tables are ignored.
pub fn find_model(name: &str, file: Option<&Path>) -> Result<ModelSpec, UserError> {
    let Some(path) = file else { return vendor_spec(name) };
    let written = ConfigSource::read(path, &[], &no_builtins)?;
    let found = written.table().get("models").and_then(|models| models.get(name)).cloned();
    let Some(found) = found else { return vendor_spec(name) };
    let models = toml::Table::from_iter([(name.to_owned(), found.clone())]);
    let table = toml::Table::from_iter([("models".to_owned(), toml::Value::Table(models))]);
    check_keys(&table, CheckExtent::Partial)
        .map_err(|problem| written.error_from_problem(&problem))?;
    found
        .try_into()
        .map_err(|error| UserError::new(format!("{}: models.{name}: {error}", path.display())))
}

pub(crate) fn vendor_spec(name: &str) -> Result<ModelSpec, UserError> {
    vendor_model(name).map(|found| found.spec)
}

/// Looks up `VENDOR/NAME`.
///
/// # Errors
/// Fails if the vendor is unknown or the model is missing. The hint lists the vendors.
pub fn vendor_model(name: &str) -> Result<VendorModel, UserError> {
    let endpoints = ENDPOINTS.get().map_err(UserError::new)?;
    let split = name.split_once('/').filter(|(_, model)| !model.trim().is_empty());
    let found = split.and_then(|(vendor, model)| {
        let is_named = |(key, one): &(&String, &Endpoint)| {
            *key == vendor || one.aliases.iter().any(|alias| alias == vendor)
        };
        Some((endpoints.iter().find(is_named)?.1, model.trim()))
    });
    let Some((endpoint, model)) = found else { return Err(unknown_model_error(name, endpoints)) };
    let prices = PriceTable::shipped().map_err(|fault| UserError::new(fault.to_string()))?;
    // Ignore listed values for a local server, where the same weights have a different price and
    // context window.
    let listed = prices.find_model(model).filter(|_| !endpoint.local);
    let spec = ModelSpec {
        base_url: endpoint.base_url.clone(),
        name: model.to_owned(),
        api: endpoint.api,
        key_env: endpoint.key_env.clone(),
        context_window: listed.and_then(|listed| listed.context_window),
        price: endpoint.local.then(|| Price::flat(0.0, 0.0, None)),
        cutoff: None,
        tool_check: None,
        cache: None,
        tokenizer: None,
        temperature: None,
        top_p: None,
        max_output_tokens: None,
        reasoning_effort: None,
        seed: None,
        extra_body: Map::new(),
    };
    Ok(VendorModel { spec, agents: &endpoint.agents, is_local: endpoint.local })
}

fn unknown_model_error(name: &str, endpoints: &BTreeMap<String, Endpoint>) -> UserError {
    let known: Vec<_> = endpoints.keys().map(String::as_str).collect();
    let near = match name.split_once('/') {
        Some((vendor, model)) => {
            closest_name(vendor, known.iter().copied()).map(|near| (near, model))
        }
        None => endpoints
            .iter()
            .find(|(_, one)| one.has_model(name))
            .map(|(vendor, _)| (vendor.as_str(), name)),
    };
    let near = near.filter(|(_, model)| !model.trim().is_empty());
    let near =
        near.map_or(String::new(), |(near, model)| format!("did you mean `{near}/{model}`? "));
    UserError::new(format!("{name}: no such model or vendor")).hint(format!(
        "{near}use VENDOR/NAME, where VENDOR is one of {}, or add a table [models.\"{name}\"]",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_models_use_the_vendors_own_api() {
        for (name, api, host, key) in [
            (
                "anthropic/claude-sonnet-4-5",
                Api::Messages,
                "api.anthropic.com",
                "ANTHROPIC_API_KEY",
            ),
            ("claude/claude-sonnet-4-5", Api::Messages, "api.anthropic.com", "ANTHROPIC_API_KEY"),
            ("gemini/g", Api::Gemini, "generativelanguage", "GEMINI_API_KEY"),
            ("google/g", Api::Gemini, "generativelanguage", "GOOGLE_API_KEY"),
            ("openai/gpt-5.1", Api::Chat, "api.openai.com", "OPENAI_API_KEY"),
            ("openrouter/a/b", Api::Chat, "openrouter.ai", "OPENROUTER_API_KEY"),
        ] {
            let spec = vendor_spec(name).unwrap();
            assert_eq!(spec.api, api, "{name}");
            assert!(spec.base_url.contains(host), "{name}: {}", spec.base_url);
            assert_eq!(spec.key_env.as_deref(), Some(key), "{name}");
        }
        assert_eq!(vendor_spec("openrouter/a/b").unwrap().name, "a/b");
        assert_eq!(
            vendor_spec("anthropic/claude-sonnet-4-5").unwrap().context_window,
            Some(200_000)
        );
    }

    #[test]
    fn local_servers_have_their_default_ports_and_no_key_or_price() {
        for (name, port) in [
            ("local/m", 8000),
            ("vllm/org/m", 8000),
            ("llama.cpp/m", 8080),
            ("llamacpp/m", 8080),
            ("ollama/m:7b", 11434),
            // This model must not get the price of the vendor that made the weights.
            ("ollama/deepseek-chat", 11434),
        ] {
            let found = vendor_model(name).unwrap();
            assert!(found.is_local, "{name}");
            assert!(found.spec.base_url.contains(&format!("127.0.0.1:{port}/")), "{name}");
            assert_eq!((found.spec.key_env, found.spec.context_window), (None, None), "{name}");
            assert_eq!(found.spec.price, Some(Price::flat(0.0, 0.0, None)), "{name}");
        }
    }

    /// Every model with a built-in price, and every agent, can be selected by name.
    #[test]
    fn vendors_cover_every_priced_model_and_agent() {
        let endpoints = ENDPOINTS.get().unwrap();
        let text = include_str!("../../../configs/tables/models.toml");
        let prices: toml::Table = toml::from_str(text).unwrap();
        for name in prices["models"].as_table().unwrap().keys() {
            let vendors = endpoints.values().filter(|one| one.has_model(name)).count();
            assert_eq!(vendors, 1, "{name}");
            let error = vendor_spec(name).unwrap_err();
            let hint = error.hint.unwrap();
            assert!(
                hint.starts_with("did you mean `") && hint.contains(&format!("/{name}`?")),
                "{hint}"
            );
        }
        let agents: Vec<_> = endpoints.values().flat_map(|one| &one.agents).collect();
        for agent in ["claude-code", "codex", "gemini-cli", "qwen-code"] {
            assert!(agents.iter().any(|one| *one == agent), "{agent}");
        }
    }

    #[test]
    fn unknown_vendor_error_suggests_the_nearest_vendor() {
        let hint = vendor_spec("opena/gpt-5.1").unwrap_err().hint.unwrap();
        assert!(hint.starts_with("did you mean `openai/gpt-5.1`?"), "{hint}");
        for name in ["openai/", "openai/ ", "gpt", ""] {
            let hint = vendor_spec(name).unwrap_err().hint.unwrap();
            assert!(!hint.contains("did you mean") && hint.contains("openrouter"), "{hint}");
        }
    }
}
