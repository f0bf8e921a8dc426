//! Code that all formats share, for tools and for response formats.

use serde_json::{Value, json};

use crate::{
    Losses,
    neutral::{ResponseFormat, Tool, ToolChoice},
};

/// Returns the functions in `tools`, each with its index. The provider's own tools have another
/// type and are dropped, because only the vendor's models know their arguments.
pub fn functions<'a>(tools: &'a Value, kind: &str, losses: &mut Losses) -> Vec<(usize, &'a Value)> {
    let mut functions = Vec::new();
    for (index, tool) in tools.as_array().into_iter().flatten().enumerate() {
        match tool["type"].as_str().unwrap_or(kind) {
            given if given == kind => functions.push((index, tool)),
            other => losses.add_dropped(format!("tools[{index}] {other}")),
        }
    }
    functions
}

impl Tool {
    /// Reads a function whose parameters are at `schema`. An error names `location`.
    pub fn read(function: &Value, schema: &str, location: &str) -> Result<Self, String> {
        let name = function["name"].as_str().ok_or_else(|| format!("{location}.name: missing"))?;
        let parameters = match &function[schema] {
            Value::Null => json!({"type": "object", "properties": {}}),
            given => given.clone(),
        };
        Ok(Self {
            name: name.to_owned(),
            description: function["description"].as_str().unwrap_or_default().to_owned(),
            parameters,
            strict: function["strict"].as_bool(),
        })
    }
}

impl ToolChoice {
    /// Parses a `tool_choice` value of OpenAI's API.
    pub fn from_openai(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "none" => Some(Self::Never),
            "required" => Some(Self::Any),
            _ => None,
        }
    }
}

impl ResponseFormat {
    /// Reads a response format of OpenAI's API. `kind` is its type, and `format` contains its name
    /// and schema.
    pub fn read(kind: &str, format: &Value) -> Option<Self> {
        match kind {
            "json_object" => Some(Self::Json),
            "json_schema" => Some(Self::Schema {
                name: format["name"].as_str().unwrap_or("answer").to_owned(),
                schema: format["schema"].clone(),
                strict: format["strict"].as_bool(),
            }),
            _ => None,
        }
    }
}
