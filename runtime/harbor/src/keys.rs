//! Finds keys in `task.toml` that are unknown or have no effect.

use serde_json::{Map, Value};

use crate::{diagnostics::Diagnostic, rules::Rules};

pub(crate) type Table = Map<String, Value>;

/// Returns warnings about keys that Proctor does not know and about keys that have no effect.
pub(crate) fn key_warnings(text: &str, table: &Table, rules: &Rules) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for (name, known) in &rules.keys {
        let inner = match name.as_str() {
            "" => Some(table),
            name => find_value(table, name).and_then(Value::as_object),
        };
        for key in inner.into_iter().flat_map(Table::keys) {
            if known.contains(key) {
                continue;
            }
            let full = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            let message = match nearest_key(key, known) {
                Some(near) => format!("is an unknown key and is ignored; did you mean `{near}`?"),
                None => "is an unknown key and is ignored".to_owned(),
            };
            warnings.push(Diagnostic::at_key(text, &full, message));
        }
    }
    for (key, what) in &rules.ignored {
        if find_value(table, key).is_some_and(differs_from_default) {
            warnings.push(Diagnostic::at_key(text, key, format!("has no effect: {what}")));
        }
    }
    warnings
}

fn nearest_key<'a>(key: &str, known_keys: &'a [String]) -> Option<&'a str> {
    let scored = known_keys.iter().map(|one| (strsim::jaro_winkler(key, one), one.as_str()));
    let near = scored.filter(|(score, _)| *score >= 0.75);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, one)| one)
}

pub(crate) fn find_value<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(value)
}

/// Whether a value differs from the default that applies when the key is missing.
pub(crate) fn differs_from_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(table) => !table.is_empty(),
        Value::Bool(true) => true,
    }
}
