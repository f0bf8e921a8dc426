//! Builds the names of a matrix's arms. A name lists the values that differ between arms, in the
//! order of the file.

use std::path::Path;

use toml::Value;

use super::axes::{Axis, Choice, FactorKey};
use crate::kind::display_value;

/// Maximum length of a value in a name. Longer values are cut off.
const MAX_VALUE_CHARS: usize = 40;

/// Labels of all values, by axis.
pub(super) struct ValueLabels {
    labels: Vec<Vec<String>>,
    has_several_values: Vec<bool>,
}

impl ValueLabels {
    pub(super) fn for_axes(axes: &[Axis]) -> Self {
        let short: Vec<String> =
            axes.iter().map(|axis| factor_label(&axis.factor, false)).collect();
        let labels = axes.iter().enumerate().map(|(index, axis)| {
            let unique = short.iter().filter(|other| **other == short[index]).count() == 1;
            let key = if unique { short[index].clone() } else { factor_label(&axis.factor, true) };
            let texts = distinct_labels(&axis.values, axis.factor.is_arm(&["prompts"]));
            let bare = axis.factor.is_arm(&["scaffold"]) || axis.factor.is_arm(&["model"]);
            let label = |text: String| if bare { text } else { format!("{key}={text}") };
            texts.into_iter().map(label).collect()
        });
        let differs = axes.iter().map(|axis| axis.values.len() > 1);
        Self { labels: labels.collect(), has_several_values: differs.collect() }
    }

    /// Returns the label that distinguishes a value from the others of its axis, or `None` if the
    /// axis has only one value.
    pub(super) fn label(&self, axis: usize, value: usize) -> Option<String> {
        let label = self.labels.get(axis)?.get(value)?;
        self.has_several_values.get(axis).copied().unwrap_or_default().then(|| label.clone())
    }

    pub(super) fn arm_name(&self, base: Option<&str>, choices: &[Choice]) -> String {
        let mut parts: Vec<String> = base.map(str::to_owned).into_iter().collect();
        for choice in choices {
            let bare = choice.factor.is_arm(&["scaffold"]) || choice.factor.is_arm(&["model"]);
            // An arm without its own name is named after its scaffold and model.
            let own = (base.is_none() && bare).then(|| label_text(&choice.value, false));
            let included = choice.path.get(1).is_some_and(|part| part == "include");
            let label = match (&choice.label, included && !bare) {
                (Some(label), true) => {
                    Some(format!("{}={label}", factor_label(&choice.factor, false)))
                }
                (label, _) => label.clone(),
            };
            parts.extend(label.or(own));
        }
        match parts.is_empty() {
            true => "matrix".to_owned(),
            false => parts.join("/"),
        }
    }
}

/// Returns `steps` for `budget.steps` and `network` for `network.mode`, or the whole key if that
/// is ambiguous.
fn factor_label(factor: &FactorKey, is_full: bool) -> String {
    match factor {
        FactorKey::Model { model: Some(model), key } if is_full => format!("models.{model}.{key}"),
        FactorKey::Model { key, .. } if is_full => format!("model.{key}"),
        FactorKey::Model { key, .. } => key.clone(),
        FactorKey::Arm(path) if is_full => path.join("."),
        FactorKey::Arm(path) => match &path[..] {
            [table, key] if matches!(key.as_str(), "mode" | "kind") => table.clone(),
            [.., key] => key.clone(),
            [] => String::new(),
        },
    }
}

/// Returns short, distinct strings for values.
fn distinct_labels(values: &[Value], are_paths: bool) -> Vec<String> {
    let short: Vec<String> = values.iter().map(|value| label_text(value, are_paths)).collect();
    let alone =
        |texts: &[String], one: &String| texts.iter().filter(|text| *text == one).count() == 1;
    let longer: Vec<String> = short
        .iter()
        .zip(values)
        .map(
            |(short_text, value)| {
                if alone(&short, short_text) { short_text.clone() } else { display_value(value) }
            },
        )
        .collect();
    let numbered = longer.iter().enumerate().map(|(index, text)| match alone(&longer, text) {
        true => text.clone(),
        false => format!("{text}#{}", index + 1),
    });
    numbered.collect()
}

/// Returns a value as it appears in a name: for a path, its last part without the extension.
fn label_text(value: &Value, is_path: bool) -> String {
    match value {
        Value::String(text) if is_path || text.ends_with(".toml") => {
            let stem = Path::new(text).file_stem();
            truncate_label(&stem.map_or(text.clone(), |stem| stem.to_string_lossy().into_owned()))
        }
        other => truncate_label(&display_value(other)),
    }
}

fn truncate_label(text: &str) -> String {
    text.chars().take(MAX_VALUE_CHARS).collect()
}
