//! Models that the command line names: `--model VENDOR/NAME` in the place of every arm's, and one that is asked outside of
//! a run.

use std::{collections::BTreeMap, path::Path};

use proctor_gateway::PriceTable;
use proctor_types::{ModelSpec, ShippedTable};
use serde::Deserialize;
use serde_json::Map;

use crate::{ConfigFile, Extent, UserError, Written, walk};

static ENDPOINTS: ShippedTable<BTreeMap<String, Endpoint>> =
    ShippedTable::new("endpoints.toml", include_str!("../../../configs/endpoints.toml"));

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    base_url: String,
    #[serde(default)]
    key_env: Option<String>,
}

/// Puts a model of the configuration, or `NAME` at a known vendor, in the place of every arm's.
pub fn put_model(file: &mut ConfigFile, name: &str) -> Result<(), UserError> {
    if !file.models.contains_key(name) {
        file.models.insert(name.to_owned(), at_vendor(name)?);
    }
    for arm in file.arms.iter_mut().filter(|arm| arm.model.is_some()) {
        if let Some(old) = arm.model.replace(name.to_owned()) {
            arm.name = arm.name.replace(&old, name);
        }
    }
    Ok(())
}

/// The model of a command that has no run: of `[models]` in a file, or `NAME` at a known vendor. The file's other tables
/// are not looked at.
pub fn model_of(name: &str, file: Option<&Path>) -> Result<ModelSpec, UserError> {
    let Some(path) = file else { return at_vendor(name) };
    let written = Written::read(path, &[])?;
    let found = written.table().get("models").and_then(|models| models.get(name)).cloned();
    let Some(found) = found else { return at_vendor(name) };
    let models = toml::Table::from_iter([(name.to_owned(), found.clone())]);
    let table = toml::Table::from_iter([("models".to_owned(), toml::Value::Table(models))]);
    walk(&table, Extent::Part).map_err(|problem| written.problem(&problem))?;
    found
        .try_into()
        .map_err(|error| UserError::new(format!("{}: models.{name}: {error}", path.display())))
}

pub(crate) fn at_vendor(name: &str) -> Result<ModelSpec, UserError> {
    let endpoints = ENDPOINTS.get().map_err(UserError::new)?;
    let found = name.split_once('/').and_then(|(vendor, model)| {
        endpoints.get(vendor).map(|endpoint| (endpoint.clone(), model))
    });
    let Some((endpoint, model)) = found else {
        let known: Vec<_> = endpoints.keys().map(String::as_str).collect();
        return Err(UserError::new(format!("{name}: no such model or vendor")).hint(format!(
            "write VENDOR/NAME with one of {}, or add a table [models.\"{name}\"]",
            known.join(", ")
        )));
    };
    let prices = PriceTable::shipped().map_err(|fault| UserError::new(fault.to_string()))?;
    Ok(ModelSpec {
        base_url: endpoint.base_url,
        name: model.to_owned(),
        api: Default::default(),
        key_env: endpoint.key_env,
        context_window: prices.find(model).and_then(|listed| listed.context_window),
        price: None,
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
    })
}
