//! Derives tool schemas from argument types, in the strict dialect that providers enforce.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value, json};

/// Returns the schema of a tool's arguments. It has no references, no additional properties and no
/// keywords that strict endpoints reject. Every property is required, and an optional one is
/// nullable.
pub(crate) fn strict_schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .with_transform(make_strict)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        // Remove the description, which is the type's internal doc comment. The model reads the
        // description of the tool in the prompt.
        root.remove("description");
        root.entry("properties").or_insert_with(|| json!({}));
        root.entry("required").or_insert_with(|| json!([]));
    }
    schema
}

fn make_strict(schema: &mut Schema) {
    transform_subschemas(&mut make_strict, schema);
    for keyword in ["$schema", "title", "default", "format"] {
        schema.remove(keyword);
    }
    if let Some(one_of) = schema.remove("oneOf") {
        schema.insert("anyOf".into(), one_of);
    }
    if let Some(value) = schema.remove("const") {
        schema.insert("enum".into(), json!([value]));
    }
    if schema.get("type") == Some(&json!("object")) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let names: Vec<_> = properties.into_iter().flat_map(|map| map.keys().cloned()).collect();
        schema.insert("required".into(), json!(names));
        schema.insert("additionalProperties".into(), json!(false));
    }
}

/// Formats a schema for error messages, for example as `{"path": string, "view_range": [integer] or
/// null}`.
pub(crate) fn describe_schema(schema: &Value) -> String {
    if let Some(options) = schema["enum"].as_array() {
        return options.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
    }
    if let Some(options) = schema["anyOf"].as_array() {
        return options.iter().map(describe_schema).collect::<Vec<_>>().join(" or ");
    }
    let one = |kind: &str| match kind {
        "object" => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields: Vec<_> =
                fields.map(|(name, of)| format!("\"{name}\": {}", describe_schema(of))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        "array" => format!("[{}]", describe_schema(&schema["items"])),
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{prompts::Prompts, tools::specs};

    /// Asserts that a schema follows the rules that strict endpoints enforce.
    fn assert_strict(location: &str, schema: &Value) {
        let map = schema.as_object().unwrap_or_else(|| panic!("{location}: not an object schema"));
        for keyword in ["$schema", "$ref", "$defs", "title", "default", "format", "oneOf", "const"]
        {
            assert!(!map.contains_key(keyword), "{location}: has {keyword}");
        }
        if schema["type"] == "object" {
            assert_eq!(schema["additionalProperties"], json!(false), "{location}");
            let properties = schema["properties"].as_object().unwrap();
            let names: Vec<_> = properties.keys().collect();
            let required: Vec<_> = schema["required"].as_array().unwrap().iter().collect();
            assert_eq!(names, required, "{location}: not every property is required");
            for (name, property) in properties {
                assert!(
                    property["description"].is_string() || property["enum"].is_array(),
                    "{location}.{name}: has no description"
                );
                assert_strict(&format!("{location}.{name}"), property);
            }
        }
        if map.contains_key("items") {
            assert_strict(&format!("{location}[]"), &schema["items"]);
        }
        for option in schema["anyOf"].as_array().into_iter().flatten() {
            assert_strict(&format!("{location}|"), option);
        }
        let typed =
            map.contains_key("type") || map.contains_key("anyOf") || map.contains_key("enum");
        assert!(typed, "{location}: has no type");
    }

    #[test]
    fn every_tool_schema_conforms_to_the_strict_dialect() {
        let specs = specs(&Prompts::load("tools", None).unwrap());
        assert_eq!(specs.len(), 4);
        for spec in &specs {
            assert!(!spec.description.is_empty(), "{}", spec.name);
            assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
            assert_strict(&spec.name, &spec.parameters);
        }
    }

    #[test]
    fn strict_schema_normalizes_schemars_output() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Sample {
            /// A pieced enum.
            kind: Pieced,
            /// With a default.
            #[serde(default)]
            count: u32,
            /// Optional.
            inner: Option<Inner>,
        }
        #[derive(Deserialize, JsonSchema)]
        enum Pieced {
            /// Documented: becomes a `oneOf`.
            A,
            B,
        }
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Inner {
            /// Text.
            text: Option<String>,
        }
        let schema = strict_schema::<Sample>();
        assert_strict("sample", &schema);
        assert_eq!(
            describe_schema(&schema),
            r#"{"kind": "B" or "A", "count": integer, "inner": {"text": string or null} or null}"#
        );
    }
}
