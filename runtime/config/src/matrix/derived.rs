//! Models with their own sampling settings. A matrix that crosses `model.temperature` creates a
//! model for each value.

use toml::{Table, Value};

use super::axes::{Choice, FactorKey};
use crate::{
    kind::{KeyError, display_value},
    source::{MatrixOrigins, ModelOrigin},
    walk::Problem,
};

/// Creates the model for these choices, if it does not exist yet, and assigns it to the arm.
pub(super) fn derive_model(
    top: &mut Table,
    crossed: &mut MatrixOrigins,
    arm: &mut Table,
    sampling: &[&Choice],
) -> Result<(), Problem> {
    let Some(name) = arm.get("model").and_then(Value::as_str).map(str::to_owned) else {
        let path = sampling.first().map(|choice| choice.at.clone()).unwrap_or_default();
        let wrong = KeyError::new(
            "has no effect: the arm uses no model",
            "add `model`, or exclude the combination with [[matrix.exclude]]",
        );
        return Err(Problem { path, wrong });
    };
    let models = top.get_mut("models").and_then(Value::as_table_mut);
    let Some((models, own)) =
        models.and_then(|models| models.get(&name).cloned().map(|own| (models, own)))
    else {
        // Resolving the arm reports the missing model.
        return Ok(());
    };
    let Value::Table(mut own) = own else { return Ok(()) };
    let (mut called, mut keys) = (name.clone(), Vec::new());
    for choice in sampling {
        let FactorKey::Model { key, .. } = &choice.place else { continue };
        called.push_str(&format!(
            "{}{key}={}",
            if keys.is_empty() { "@" } else { "," },
            display_value(&choice.value)
        ));
        own.insert(key.clone(), choice.value.clone());
        keys.push((vec![key.clone()], choice.at.clone()));
    }
    models.insert(called.clone(), own.into());
    arm.insert("model".into(), called.clone().into());
    crossed.models.insert(called, ModelOrigin { model: name, keys });
    Ok(())
}

/// Returns the value that a factor has in a combination. The value comes from the combination's
/// choices, the arm, its model, or the top level of the file.
pub(super) fn factor_value(
    place: &FactorKey,
    base: &Table,
    choices: &[Choice],
    top: &Table,
) -> Option<Value> {
    for choice in choices.iter().rev() {
        match (&choice.place, place) {
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
    match place {
        FactorKey::Arm(path) => {
            let own = value_at(&Value::Table(base.clone()), path);
            own.or_else(|| value_at(&Value::Table(top.clone()), path))
        }
        FactorKey::Model { key, .. } => {
            let of_arm = |choice: &&Choice| choice.place.is_arm(&["model"]);
            let asked = choices.iter().find(of_arm).map(|choice| &choice.value);
            let asked = asked.or_else(|| base.get("model"))?.as_str()?;
            top.get("models")?.get(asked)?.get(key).cloned()
        }
    }
}

fn value_at(value: &Value, path: &[String]) -> Option<Value> {
    path.iter().try_fold(value, |value, part| value.get(part)).cloned()
}
