//! Lists every key of a run configuration with its allowed values, generated from the schema of the
//! types. Files are checked against this table as the user wrote them.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::{
    kind::{ConfigKey, TextSyntax, ValueKind},
    schema::{config_schema, require_arms},
};

/// The top-level keys of a configuration file.
pub static TOP_LEVEL_KEYS: LazyLock<Vec<ConfigKey>> =
    LazyLock::new(|| keys_from_schema(&require_arms(config_schema())));

/// Returns the keys of a table, in the order of its type's fields.
pub(crate) fn keys_from_schema(schema: &Value) -> Vec<ConfigKey> {
    let needed = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, schema)| ConfigKey {
            name: name.clone(),
            kind: kind_from_schema(schema),
            is_required: needed(name),
            description: join_lines(schema["description"].as_str().unwrap_or_default()),
            default: schema.get("default").filter(|value| has_content(value)).map(to_toml),
            example: schema["examples"].get(0).map(to_toml),
        })
        .collect()
}

fn kind_from_schema(schema: &Value) -> ValueKind {
    let whole = |key: &str| schema[key].as_i64();
    let number = |key: &str| schema[key].as_f64();
    match schema["type"].as_str() {
        _ if !enum_values(schema).is_empty() => ValueKind::Choice(enum_values(schema)),
        Some("string") => match schema["x-form"].as_str() {
            Some("address") => ValueKind::Url,
            Some("variable") => ValueKind::EnvironmentVariable,
            _ => ValueKind::Text,
        },
        Some("boolean") => ValueKind::Flag,
        Some("integer") => ValueKind::Count(
            whole("minimum").unwrap_or(i64::MIN),
            whole("maximum").unwrap_or(i64::MAX),
        ),
        Some("number") if schema.get("exclusiveMinimum").is_some() => {
            ValueKind::PositiveNumber(number("maximum").unwrap_or(f64::MAX))
        }
        Some("number") => ValueKind::Number(
            number("minimum").unwrap_or(f64::MIN),
            number("maximum").unwrap_or(f64::MAX),
        ),
        Some("array") if schema["items"]["type"] == "object" => {
            ValueKind::TableList(keys_from_schema(&schema["items"]))
        }
        Some("array") => ValueKind::TextList(match schema["x-form"].as_str() {
            Some("allow") => TextSyntax::AllowedUrl,
            Some("deny") => TextSyntax::DeniedUrl,
            Some("private") => TextSyntax::PrivateAddress,
            _ => TextSyntax::Any,
        }),
        _ if schema["additionalProperties"].get("properties").is_some() => {
            ValueKind::NamedTables(keys_from_schema(&schema["additionalProperties"]))
        }
        _ if schema.get("properties").is_some() => ValueKind::Table(keys_from_schema(schema)),
        _ => ValueKind::AnyTable,
    }
}

/// Returns the values of an enumeration, whether or not they have descriptions.
fn enum_values(schema: &Value) -> Vec<String> {
    let values = |schema: &Value| -> Vec<String> {
        let one = schema["const"].as_str();
        let all = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        one.into_iter().chain(all).map(str::to_owned).collect()
    };
    let described = schema["oneOf"].as_array().into_iter().flatten().flat_map(values);
    values(schema).into_iter().chain(described).collect()
}

/// Joins paragraphs into one line.
fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a value differs in meaning from a missing key. An empty list or table does not.
fn has_content(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(has_content),
        Value::Array(items) => !items.is_empty(),
        Value::Null => false,
        Value::Bool(flag) => *flag,
        _ => true,
    }
}

/// Converts a JSON value to TOML.
fn to_toml(value: &Value) -> String {
    match value {
        Value::Object(map) => format!("{{ {} }}", format_fields(map)),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(to_toml).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn format_fields(map: &Map<String, Value>) -> String {
    let fields = map.iter().map(|(key, value)| format!("{key} = {}", to_toml(value)));
    fields.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects every key with the path of its table.
    fn collect_keys<'a>(
        keys: &'a [ConfigKey],
        table_path: &str,
        keys_by_path: &mut Vec<(String, &'a ConfigKey)>,
    ) {
        for key in keys {
            keys_by_path.push((format!("{table_path}{}", key.name), key));
            if let ValueKind::Table(inner)
            | ValueKind::NamedTables(inner)
            | ValueKind::TableList(inner) = &key.kind
            {
                collect_keys(inner, &format!("{table_path}{}.", key.name), keys_by_path);
            }
        }
    }

    /// Every type needs a bound, a description and an example. Otherwise, the check and the docs
    /// are incomplete.
    #[test]
    fn every_key_has_a_description_and_a_hint() {
        let mut keys = Vec::new();
        collect_keys(&TOP_LEVEL_KEYS, "", &mut keys);
        assert!(keys.len() > 80, "{}", keys.len());
        for (path, key) in keys {
            assert!(!key.description.is_empty(), "{path} has no description");
            if matches!(
                key.kind,
                ValueKind::Table(_) | ValueKind::NamedTables(_) | ValueKind::TableList(_)
            ) {
                continue;
            }
            assert!(
                matches!(key.kind, ValueKind::Flag) || key.example.is_some(),
                "{path}: no example"
            );
            match key.kind {
                ValueKind::Count(least, most) => {
                    let free = path.ends_with("seed");
                    assert!(free || (least > i64::MIN && most < i64::MAX), "{path} has no bounds");
                }
                ValueKind::Number(least, most) => {
                    assert!(least > f64::MIN && most < f64::MAX, "{path} has no bounds");
                }
                ValueKind::PositiveNumber(most) => assert!(most < f64::MAX, "{path} has no bound"),
                _ => {}
            }
            // Users copy the text between backticks verbatim.
            for written in key.usage_hint().split('`').skip(1).step_by(2) {
                let table: toml::Table = toml::from_str(written).expect(written);
                assert_eq!(
                    key.kind.check_value(key, &table[&key.name]),
                    Ok(()),
                    "{path}: {written}"
                );
            }
        }
    }
}
