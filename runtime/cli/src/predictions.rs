//! Predictions: patches that were made elsewhere.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use crate::error::UserError;

/// Patches by task id; an empty or null patch is kept as the empty one.
#[derive(Debug, Default)]
pub struct Predictions {
    pub model: Option<String>,
    pub patches: BTreeMap<String, Vec<u8>>,
}

/// Reads SWE-bench predictions: JSONL, a JSON list, or a JSON object keyed by id, of
/// `{"instance_id", "model_name_or_path", "model_patch"}`.
pub fn read(path: &Path) -> Result<Predictions, UserError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| UserError::new(format!("cannot read {shown}: {error}")))?;
    let mut predictions = Predictions::default();
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Array(rows)) => {
            for (index, row) in rows.iter().enumerate() {
                take(&mut predictions, row, None, &format!("{shown}, element {index}"))?;
            }
        }
        // One line of JSONL is an object too: told apart by its own `instance_id`.
        Ok(Value::Object(rows)) if !rows.contains_key("instance_id") => {
            for (id, row) in &rows {
                take(&mut predictions, row, Some(id), &format!("{shown}, key {id}"))?;
            }
        }
        _ => {
            for (index, line) in
                text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
            {
                let place = format!("{shown} line {}", index + 1);
                let row = serde_json::from_str(line)
                    .map_err(|error| UserError::new(format!("{place}: {error}")))?;
                take(&mut predictions, &row, None, &place)?;
            }
        }
    }
    Ok(predictions)
}

fn take(
    predictions: &mut Predictions,
    row: &Value,
    key: Option<&str>,
    place: &str,
) -> Result<(), UserError> {
    let id = row.get("instance_id").and_then(Value::as_str).or(key);
    let Some(id) = id else {
        return Err(UserError::new(format!("{place}: no `instance_id`")).mend(
            "each prediction is {\"instance_id\", \"model_name_or_path\", \"model_patch\"}",
        ));
    };
    let patch = match row.get("model_patch") {
        Some(Value::String(patch)) => patch.clone().into_bytes(),
        Some(Value::Null) => Vec::new(),
        _ => {
            return Err(UserError::new(format!("{place} ({id}): `model_patch` is not text"))
                .mend("an empty prediction is \"\" or null"));
        }
    };
    if predictions.patches.insert(id.to_owned(), patch).is_some() {
        return Err(UserError::new(format!("{place}: a second prediction for {id}"))
            .mend("keep one; several attempts are several files"));
    }
    if let Some(model) = row.get("model_name_or_path").and_then(Value::as_str) {
        predictions.model.get_or_insert_with(|| model.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Predictions, UserError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn the_three_forms_say_the_same() {
        let row = r#"{"instance_id": "a", "model_name_or_path": "m", "model_patch": "x"}"#;
        let keyed = r#"{"a": {"model_name_or_path": "m", "model_patch": "x"}}"#;
        for text in [row.to_owned(), format!("[{row}]"), keyed.to_owned(), format!("{row}\n\n")] {
            let read = read_text(&text).unwrap();
            assert_eq!(read.patches["a"], b"x");
            assert_eq!(read.model.as_deref(), Some("m"));
        }
    }

    #[test]
    fn bad_rows_are_named() {
        for (text, named) in [
            ("{\"instance_id\": \"a\", \"model_patch\": 3}", "line 1 (a)"),
            ("{\"instance_id\": \"a\", \"model_patch\": \"\"}\nnope", "line 2"),
            ("[{\"model_patch\": \"\"}]", "element 0"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.what.contains(named), "{}", error.what);
        }
    }
}
