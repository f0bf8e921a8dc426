//! Rewrites tool schemas for strict endpoints.

use serde_json::{Map, Value};

use super::body::change_each;

/// Removes a key at every level of a value. Returns whether it existed.
pub(super) fn drop_key(value: &mut Value, name: &str) -> bool {
    match value {
        Value::Array(items) => change_each(items.iter_mut(), |item| drop_key(item, name)),
        Value::Object(fields) => {
            let dropped = fields.shift_remove(name).is_some();
            change_each(fields.values_mut(), |value| drop_key(value, name)) || dropped
        }
        _ => false,
    }
}

/// Calls `change` for each object in a tool schema, at every level below `parameters` and its
/// equivalents. Skips the map of properties, because its keys are property names, not keywords.
fn change_each_schema(
    value: &mut Value,
    is_schema: bool,
    change: &mut dyn FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    match value {
        Value::Array(items) => {
            change_each(items.iter_mut(), |item| change_each_schema(item, is_schema, change))
        }
        Value::Object(fields) => {
            let mut changed = is_schema && change(fields);
            for (name, value) in fields.iter_mut() {
                let opens = ["parameters", "input_schema", "parametersJsonSchema", "schema"]
                    .contains(&name.as_str());
                changed |= match (is_schema, name.as_str(), &mut *value) {
                    (true, "properties" | "$defs" | "definitions", Value::Object(properties)) => {
                        change_each(properties.values_mut(), |one| {
                            change_each_schema(one, true, change)
                        })
                    }
                    (true, "enum" | "const" | "default" | "examples" | "required", _) => false,
                    _ => change_each_schema(value, is_schema || opens, change),
                };
            }
            changed
        }
        _ => false,
    }
}

/// Removes the schemas of tools without parameters, because Gemini rejects an object without
/// properties. `input_schema` stays, because Messages requires a schema.
pub(super) fn drop_empty_schemas(tools: &mut Value) -> bool {
    match tools {
        Value::Array(items) => change_each(items.iter_mut(), drop_empty_schemas),
        Value::Object(fields) => {
            let before = fields.len();
            fields.retain(|name, schema| {
                let is_schema = matches!(name.as_str(), "parameters" | "parametersJsonSchema");
                let properties = schema.get("properties").and_then(Value::as_object);
                !is_schema || properties.is_some_and(|properties| !properties.is_empty())
            });
            let inner = ["function", "functionDeclarations"];
            let mut changed = fields.len() < before;
            for name in inner {
                changed |= fields.get_mut(name).is_some_and(drop_empty_schemas);
            }
            changed
        }
        _ => false,
    }
}

/// Replaces `"type": ["string", "null"]` with the first type that is not null.
pub(super) fn collapse_type_lists(tools: &mut Value) -> bool {
    change_each_schema(tools, false, &mut |schema| {
        let Some(Value::Array(types)) = schema.get("type") else { return false };
        let first = types.iter().find(|kind| **kind != "null").or(types.first()).cloned();
        if let Some(first) = first {
            schema.insert("type".into(), first);
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        true
    })
}

/// Removes a keyword, given in lower case, from all tool schemas.
pub(super) fn drop_keyword(tools: &mut Value, keyword: &str) -> bool {
    change_each_schema(tools, false, &mut |schema| {
        let found = schema.keys().find(|name| name.to_lowercase() == keyword).cloned();
        found.is_some_and(|name| schema.shift_remove(&name).is_some())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{collapse_type_lists, drop_empty_schemas, drop_keyword};

    fn tools(schema: Value) -> Value {
        json!([{"type": "function", "function": {"name": "f", "parameters": schema}}])
    }

    #[test]
    fn collapse_type_lists_keeps_one_type_and_all_property_names() {
        let mut given = tools(json!({"type": "object", "properties": {
            "type": {"type": ["string", "null"], "enum": ["a", null]},
            "n": {"type": "array", "items": {"type": ["null", "integer"]}}}}));
        assert!(collapse_type_lists(&mut given));
        let wanted = tools(json!({"type": "object", "properties": {
            "type": {"type": "string", "enum": ["a"]},
            "n": {"type": "array", "items": {"type": "integer"}}}}));
        assert_eq!(given, wanted);
        assert!(!collapse_type_lists(&mut given));
    }

    #[test]
    fn drop_empty_schemas_removes_schemas_without_properties() {
        let full = json!({"type": "object", "properties": {"parameters": {"type": "string"}}});
        let mut given = json!([
            {"type": "function", "function": {"name": "f", "parameters": full}},
            {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}},
        ]);
        assert!(drop_empty_schemas(&mut given));
        let wanted = json!([
            {"type": "function", "function": {"name": "f", "parameters": full}},
            {"type": "function", "function": {"name": "g"}},
        ]);
        assert_eq!(given, wanted);
        assert!(!drop_empty_schemas(&mut given));
    }

    #[test]
    fn drop_keyword_keeps_a_property_of_that_name() {
        let mut given = tools(json!({"additionalProperties": false, "properties": {
            "additionalProperties": {"type": "string"}}}));
        assert!(drop_keyword(&mut given, "additionalproperties"));
        assert_eq!(
            given,
            tools(json!({"properties": {"additionalProperties": {"type": "string"}}}))
        );
    }
}
