//! The committed JSON Schemas, and their generation from the types that configurations and tasks
//! are deserialized into.

use proctor_types::Task;
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::Transform};
use serde_json::{Map, Value, json};

use crate::ConfigFile;

/// Returns the schema of a run configuration: `configs/schema.json`.
///
/// # Panics
/// Panics if the committed file is not JSON. A test checks that it is.
pub fn config_schema() -> Value {
    const TEXT: &str = include_str!("../../../configs/schema.json");
    parse_committed_schema(TEXT)
}

/// Returns the schema of a configuration, with the keys that are required without a matrix.
pub(crate) fn require_arms(mut schema: Value) -> Value {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.push("arms".into());
    }
    schema
}

/// Returns the schema of a task in Proctor's own format: `configs/task-schema.json`.
///
/// # Panics
/// Panics in the same case as [`config_schema`].
pub fn task_schema() -> Value {
    const TEXT: &str = include_str!("../../../configs/task-schema.json");
    parse_committed_schema(TEXT)
}

/// Returns the schema of an agent's manifest: `configs/manifest-schema.json`.
///
/// # Panics
/// Panics in the same case as [`config_schema`].
pub fn manifest_schema() -> Value {
    const TEXT: &str = include_str!("../../../configs/manifest-schema.json");
    parse_committed_schema(TEXT)
}

/// Parses a committed schema. Tests compare each file with its types (`tests/current.rs` here and
/// in `scaffolds/external`), so the program itself need not generate schemas.
fn parse_committed_schema(text: &str) -> Value {
    #[expect(clippy::expect_used, reason = "the file is part of the build, and a test reads it")]
    serde_json::from_str(text).expect("the committed schema is JSON")
}

/// Generates the expected content of `configs/schema.json` from the types.
pub fn generated_config_schema() -> Value {
    let mut schema = schema_for_type::<ConfigFile>("Proctor run configuration");
    // Require `arms` or `matrix`, because either can create the arms.
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|key| key != "arms");
    }
    schema["anyOf"] = json!([{ "required": ["arms"] }, { "required": ["matrix"] }]);
    schema
}

/// Generates the expected content of `configs/task-schema.json` from the types.
pub fn generated_task_schema() -> Value {
    schema_for_type::<Task>("Proctor task")
}

/// Returns the schema of a type, in the form that editors and the table of keys use.
pub fn schema_for_type<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        // Inline subschemas, so that editors and the table of keys need not follow references.
        settings.inline_subschemas = true;
        settings.transforms.push(Box::new(RemoveNull));
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), title.into());
    schema.into()
}

/// Removes `null` from schemas, because TOML has no null and tasks omit missing values. A key that
/// is not required is optional.
#[derive(Debug, Clone)]
struct RemoveNull;

impl Transform for RemoveNull {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(object) = schema.as_object_mut() {
            simplify_schema(object);
        }
        schemars::transform::transform_subschemas(self, schema);
    }
}

fn simplify_schema(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(forms)) = schema.get("anyOf") {
        let mut left = forms.iter().filter(|form| form["type"] != "null");
        if let (Some(Value::Object(only)), None) = (left.next(), left.next()) {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // Remove the name of the Rust type, which means nothing to the author of a file.
    if schema.get("format").is_some_and(|format| format != "uri") {
        schema.remove("format");
    }
}
