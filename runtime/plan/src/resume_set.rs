//! Changes a planned run for `resume --set`. Factors cannot be changed, because an arm with a
//! changed factor would be a different arm.

use std::error::Error;

use proctor_config as config;
use proctor_record::now;
use proctor_types::{
    ModelSpec, RunChange, RunRecord, SCRIPT_URL_PREFIX, UserError, format_error_chain,
};

use crate::limit_changes::describe_limit_changes;

/// Applies new shared limits to every arm, and new endpoints to the arms that call the model. The
/// record lists every change.
pub fn apply_overrides(record: &mut RunRecord, overrides: &[String]) -> Result<(), UserError> {
    let before = record.arms.clone();
    for set in overrides {
        let mut alone = toml::Table::new();
        let path = config::set(&mut alone, set)?;
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["budget", "run" | "arm", _, ..] => {
                check_override_keys(&alone, &path)?;
                set_shared_limit(record, set, &path)?;
            }
            ["models", name, key, ..] if ModelSpec::NON_FACTOR_KEYS.contains(key) => {
                check_override_keys(&alone, &path)?;
                let model = &alone["models"][*name];
                change_endpoint(record, name, key, model, &path.join("."))?;
            }
            ["models", name, key, ..] => {
                let what = format!("--set {}: `{key}` of the model `{name}`", path.join("."));
                return Err(factor_error(&what));
            }
            _ => return Err(factor_error(&format!("--set {}: this key", path.join(".")))),
        }
    }
    for change in describe_limit_changes(&before, &record.arms) {
        add_change(record, change);
    }
    Ok(())
}

fn add_change(record: &mut RunRecord, change: String) {
    let proctor = env!("CARGO_PKG_VERSION").into();
    record.changes.push(RunChange { at: now(), proctor, change });
}

fn factor_error(subject: &str) -> UserError {
    UserError::new(format!("{subject} is part of the plan, which cannot be changed")).hint(
        "you can set budget.run.*, budget.arm.*, and a model's base_url, key_env, price, cutoff \
         and tool_check; for other keys start a new run, or add arms with `proctor run CONFIG \
         --out RUN --extend`",
    )
}

fn check_override_keys(override_table: &toml::Table, path: &[String]) -> Result<(), UserError> {
    config::check_keys(override_table, config::CheckExtent::Partial).map_err(|problem| {
        let what = format!("--set {}: {}", path.join("."), problem.error.message);
        UserError::new(what).hint(problem.error.hint)
    })
}

/// Applies new shared limits to every arm. Limits are not factors, so the arms keep their IDs.
fn set_shared_limit(
    record: &mut RunRecord,
    override_text: &str,
    path: &[String],
) -> Result<(), UserError> {
    for arm in &mut record.arms {
        let mut table =
            toml::Table::from_iter([("budget".to_owned(), to_toml(&arm.budget, path)?)]);
        config::set(&mut table, override_text)?;
        let budget = table.remove("budget").unwrap_or_else(|| toml::Table::new().into());
        arm.budget = from_toml(budget, path)?;
    }
    Ok(())
}

/// Changes the model's endpoint in every arm that uses the model, and records the change in the
/// plan.
fn change_endpoint(
    record: &mut RunRecord,
    name: &str,
    key: &str,
    model_table: &toml::Value,
    path: &str,
) -> Result<(), UserError> {
    let parts = [path.to_owned()];
    let wrong = |error: serde_json::Error| invalid_value_error(&parts, &error);
    let asks: Vec<bool> =
        record.arms.iter().map(|arm| record.config.uses_model(&arm.name, name)).collect();
    let mut changed = false;
    for (arm, by_name) in record.arms.iter_mut().zip(asks) {
        let Some(model) = &mut arm.model else { continue };
        if !by_name && model.name != name {
            continue;
        }
        let mut new = with_key(model, key, model_table).map_err(wrong)?;
        if let Some(script) = new.base_url.strip_prefix(SCRIPT_URL_PREFIX) {
            let absolute = std::path::absolute(script).map_err(|error| {
                UserError::new(format!(
                    "--set {path}: {script}: {}",
                    proctor_types::describe_io_error(&error)
                ))
            })?;
            new.base_url = format!("{SCRIPT_URL_PREFIX}{}", absolute.display());
        }
        *model = new;
        changed = true;
    }
    if !changed {
        let known: Vec<_> = record.config.models.keys().map(|name| format!("`{name}`")).collect();
        let what = format!("--set {path}: no arm of this run uses a model `{name}`");
        return Err(UserError::new(what).hint(format!("models: {}", known.join(", "))));
    }
    if let Some(model) = record.config.models.get_mut(name) {
        *model = with_key(model, key, model_table).map_err(wrong)?;
    }
    add_change(record, format!("changed `{key}` of the model `{name}`"));
    Ok(())
}

/// Returns a copy of the model in which one key has a new value.
fn with_key(
    model: &ModelSpec,
    key: &str,
    model_table: &toml::Value,
) -> Result<ModelSpec, serde_json::Error> {
    let mut fields = serde_json::to_value(model)?;
    fields[key] = serde_json::to_value(model_table.get(key))?;
    serde_json::from_value(fields)
}

fn to_toml(value: &impl serde::Serialize, path: &[String]) -> Result<toml::Value, UserError> {
    toml::Value::try_from(value).map_err(|error| invalid_value_error(path, &error))
}

fn from_toml<T: serde::de::DeserializeOwned>(
    value: toml::Value,
    path: &[String],
) -> Result<T, UserError> {
    serde_json::to_value(value)
        .and_then(serde_json::from_value)
        .map_err(|error| invalid_value_error(path, &error))
}

fn invalid_value_error(path: &[String], error: &dyn Error) -> UserError {
    UserError::new(format!("--set {}: {}", path.join("."), format_error_chain(error)))
}
