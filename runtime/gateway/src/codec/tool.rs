//! What all formats say in the same way about tools and about the form of an answer.

use serde_json::{Value, json};

use crate::codec::{
    Losses,
    neutral::{Choice, Shape, Tool},
};

/// The functions among `tools`, each with its place in the list. The provider's own tools, which are
/// those of another kind, are lost: only the models of their maker know what they take.
pub(crate) fn functions<'a>(
    tools: &'a Value,
    kind: &str,
    losses: &mut Losses,
) -> Vec<(usize, &'a Value)> {
    let mut functions = Vec::new();
    for (index, tool) in tools.as_array().into_iter().flatten().enumerate() {
        match tool["type"].as_str().unwrap_or(kind) {
            given if given == kind => functions.push((index, tool)),
            other => losses.dropped(format!("tools[{index}] {other}")),
        }
    }
    functions
}

impl Tool {
    /// A function whose parameters stand under `schema`. An error names `place`.
    pub(crate) fn read(function: &Value, schema: &str, place: &str) -> Result<Self, String> {
        let name = function["name"].as_str().ok_or_else(|| format!("{place}.name: missing"))?;
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

impl Choice {
    /// OpenAI's word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "none" => Some(Self::Never),
            "required" => Some(Self::Any),
            _ => None,
        }
    }
}

impl Shape {
    /// OpenAI's kind of a form, and the value that holds its name and schema.
    pub(crate) fn read(kind: &str, given: &Value) -> Option<Self> {
        match kind {
            "json_object" => Some(Self::Json),
            "json_schema" => Some(Self::Schema {
                name: given["name"].as_str().unwrap_or("answer").to_owned(),
                schema: given["schema"].clone(),
                strict: given["strict"].as_bool(),
            }),
            _ => None,
        }
    }
}
