//! Models with their own sampling settings. A matrix that crosses `model.temperature` creates a
//! model for each value.

use toml::{Table, Value};

use super::axes::{Choice, FactorKey};
use crate::{
    kind::{KeyError, display_value},
    source::{MatrixOrigins, ModelOrigin},
    walk::KeyProblem,
};

/// Creates the model for the given choices, if it does not exist yet, and assigns it to the arm.
pub(super) fn derive_model(
    top_level: &mut Table,
    origins: &mut MatrixOrigins,
    arm: &mut Table,
    sampling: &[&Choice],
) -> Result<(), KeyProblem> {
    let Some(name) = arm.get("model").and_then(Value::as_str).map(str::to_owned) else {
        let path = sampling.first().map(|choice| choice.path.clone()).unwrap_or_default();
        let wrong = KeyError::new(
            "has no effect: the arm uses no model",
            "add `model`, or exclude the combination with [[matrix.exclude]]",
        );
        return Err(KeyProblem { path, error: wrong });
    };
    let models = top_level.get_mut("models").and_then(Value::as_table_mut);
    let Some((models, own)) =
        models.and_then(|models| models.get(&name).cloned().map(|own| (models, own)))
    else {
        // Resolving the arm reports the missing model.
        return Ok(());
    };
    let Value::Table(mut own) = own else { return Ok(()) };
    let (mut called, mut keys) = (name.clone(), Vec::new());
    for choice in sampling {
        let FactorKey::Model { key, .. } = &choice.factor else { continue };
        called.push_str(&format!(
            "{}{key}={}",
            if keys.is_empty() { "@" } else { "," },
            display_value(&choice.value)
        ));
        own.insert(key.clone(), choice.value.clone());
        keys.push((vec![key.clone()], choice.path.clone()));
    }
    models.insert(called.clone(), own.into());
    arm.insert("model".into(), called.clone().into());
    origins.models.insert(called, ModelOrigin { model: name, keys });
    Ok(())
}

/// Returns the value that a factor has in a combination. The value comes from the combination's
/// choices, the arm, its model, or the top level of the file.
pub(super) fn factor_value(
    factor: &FactorKey,
    base: &Table,
    choices: &[Choice],
    top_level: &Table,
) -> Option<Value> {
    for choice in choices.iter().rev() {
        match (&choice.factor, factor) {
            (FactorKey::Arm(laid), FactorKey::Arm(path)) if path.starts_with(laid) => {
                if let Some(found) = value_at(&choice.value, &path[laid.len()..]) {
                    return Some(found);
                }
            }
            (FactorKey::Model { key: laid, .. }, FactorKey::Model { key, .. }) if laid == key => {
                return Some(choice.value.clone());
            }
            _ => {}
        }
    }
    match factor {
        FactorKey::Arm(path) => {
            let own = value_at(&Value::Table(base.clone()), path);
            own.or_else(|| value_at(&Value::Table(top_level.clone()), path))
        }
        FactorKey::Model { key, .. } => {
            let of_arm = |choice: &&Choice| choice.factor.is_arm(&["model"]);
            let asked = choices.iter().find(of_arm).map(|choice| &choice.value);
            let asked = asked.or_else(|| base.get("model"))?.as_str()?;
            top_level.get("models")?.get(asked)?.get(key).cloned()
        }
    }
}

fn value_at(value: &Value, path: &[String]) -> Option<Value> {
    path.iter().try_fold(value, |value, part| value.get(part)).cloned()
}
