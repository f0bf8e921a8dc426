//! Converts Gemini's own parameter schema, an OpenAPI dialect, to JSON Schema.

use serde_json::{Map, Value};

/// Converts types to lower case, and `nullable` to a type.
pub(super) fn to_json_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(object_to_json_schema(fields)),
        Value::Array(items) => items.iter().map(to_json_schema).collect(),
        other => other.clone(),
    }
}

fn object_to_json_schema(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("type", Value::String(kind)) => {
                out.insert(key.clone(), kind.to_lowercase().into());
            }
            ("nullable" | "propertyOrdering", _) => {}
            // Property names are not keywords, so leave them unchanged.
            ("properties", Value::Object(properties)) => {
                let each = properties.iter().map(|(name, one)| (name.clone(), to_json_schema(one)));
                out.insert(key.clone(), Value::Object(each.collect()));
            }
            ("enum" | "required" | "default" | "example" | "const", _) => {
                out.insert(key.clone(), value.clone());
            }
            _ => {
                out.insert(key.clone(), to_json_schema(value));
            }
        }
    }
    if fields.get("nullable") == Some(&Value::Bool(true))
        && let Some(kind) = out.get("type").cloned()
    {
        out.insert("type".into(), vec![kind, "null".into()].into());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::to_json_schema;

    #[test]
    fn to_json_schema_lowercases_types_and_keeps_property_names() {
        let schema = json!({"type": "OBJECT", "required": ["TYPE"], "properties": {
            "type": {"type": "STRING", "nullable": true, "enum": ["A"]},
            "n": {"type": "ARRAY", "items": {"type": "INTEGER"}}}});
        let wanted = json!({"type": "object", "required": ["TYPE"], "properties": {
            "type": {"type": ["string", "null"], "enum": ["A"]},
            "n": {"type": "array", "items": {"type": "integer"}}}});
        assert_eq!(to_json_schema(&schema), wanted);
        assert_eq!(to_json_schema(&wanted), wanted);
    }
}
