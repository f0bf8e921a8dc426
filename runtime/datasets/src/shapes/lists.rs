//! Reads lists of strings in every form that rows use.

use serde_json::Value;

use super::literal;

/// Reads a list, a list as JSON text, a list as a Python literal, or the keys of an object.
pub(crate) fn parse_strings(value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| match item {
                Value::String(text) => Ok(text),
                other => {
                    Err(format!("element {} is {}, not text", index + 1, describe_type(&other)))
                }
            })
            .collect(),
        // An object with a status or a record per id, as in Multi-SWE-bench.
        Value::Object(map) => map
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(_) | Value::Object(_) => Ok(name),
                other => Err(format!(
                    "is an object, but its `{name}` is {}, not a list",
                    describe_type(&other)
                )),
            })
            .collect(),
        Value::String(text) => {
            let trimmed = text.trim();
            if !trimmed.starts_with(['[', '(', '{']) {
                return Err("is text that does not contain a list".into());
            }
            match serde_json::from_str::<Value>(trimmed) {
                Ok(Value::String(_)) | Err(_) => match literal::parse_literal(trimmed) {
                    Ok(inner @ (Value::Array(_) | Value::Object(_))) => parse_strings(inner),
                    Ok(_) => Err("is text that does not contain a list".into()),
                    Err(why) => Err(format!("is not JSON or a Python literal: {why}")),
                },
                Ok(inner) => parse_strings(inner),
            }
        }
        Value::Null => Err("is null; expected a list".into()),
        other => Err(format!("is {}, not a list", describe_type(&other))),
    }
}

/// Reads an object, or an object as JSON text.
pub(crate) fn parse_object(value: Value) -> Result<Value, String> {
    match value {
        Value::Object(_) | Value::Null => Ok(value),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
        Value::String(text) => {
            let inner = serde_json::from_str(&text)
                .map_err(|error| error.to_string())
                .or_else(|json| literal::parse_literal(&text).map_err(|_| json));
            match inner {
                Ok(inner @ (Value::Object(_) | Value::Null)) => Ok(inner),
                Ok(other) => Err(format!("is text with {}, not an object", describe_type(&other))),
                Err(why) => Err(format!("is not JSON: {why}")),
            }
        }
        other => Err(format!("is {}, not an object", describe_type(&other))),
    }
}

pub(crate) fn describe_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parse_strings_reads_all_encodings() {
        for value in [
            json!(["a[x]", "b"]),
            json!("[\"a[x]\", \"b\"]"),
            json!("['a[x]', 'b']"),
            json!({"a[x]": "PASSED", "b": {"run": "x"}}),
        ] {
            assert_eq!(parse_strings(value).unwrap(), ["a[x]", "b"]);
        }
    }

    #[test]
    fn parse_strings_rejects_values_that_are_not_lists() {
        for (value, said) in [
            (json!(null), "null"),
            (json!("tests/test_a.py"), "does not contain a list"),
            (json!(["a", 3]), "element 2 is a number"),
            (json!("[a, b]"), "not JSON or"),
            (json!(7), "a number"),
            (json!({"a": 1}), "its `a` is a number"),
            (json!("{'a': None}"), "its `a` is null"),
        ] {
            let error = parse_strings(value).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(parse_object(json!("{\"a\": 1}")).unwrap().is_object());
        assert!(parse_object(json!("{'a': True}")).unwrap().is_object());
        assert!(parse_object(json!("{oops")).unwrap_err().contains("not JSON"));
    }
}
