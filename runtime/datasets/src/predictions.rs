//! Reads predictions: patches made by other tools, in the formats of their harnesses.
//!
//! Supports SWE-bench's JSON lines, list and object keyed by id, mini-swe-agent's `preds.json`,
//! FeatureBench's `output.jsonl`, and FEA-Bench's results. The formats differ in field names, in
//! whether one file has several attempts, and in whether failed attempts are marked.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    BadRow, DatasetError,
    errors::RowError,
    read::{self, RawRow},
    shapes,
};

/// The predictions in one file, by model name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predictions {
    pub by_model: BTreeMap<String, AttemptPredictions>,
    /// Invalid entries, and duplicates for the same task and attempt.
    pub bad_rows: Vec<BadRow>,
}

/// Predictions by task id and attempt. Attempts are numbered from 1.
pub type AttemptPredictions = BTreeMap<(String, u32), Prediction>;

/// One prediction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// The predicted patch. Empty if the prediction has none, which is scored as an empty patch.
    pub patch: String,
    /// The error of a failed attempt, according to the file. FeatureBench excludes such attempts
    /// from its results by default. Proctor counts them.
    pub failure: Option<String>,
    /// Whether the entry has an attempt number. An entry without one counts as attempt 1.
    pub has_attempt_number: bool,
}

impl Predictions {
    /// Returns the highest attempt number.
    pub fn max_attempt(&self) -> u32 {
        let all = self.by_model.values().flat_map(|attempts| attempts.keys());
        all.map(|(_, attempt)| *attempt).max().unwrap_or(1)
    }
}

/// The model name for predictions that have none.
const DEFAULT_MODEL: &str = "predictions";

/// Reads a file of predictions. The content determines the format, so the file may have any name.
///
/// # Errors
/// The whole file is unusable. Errors in entries are in [`Predictions::bad_rows`].
pub fn read_predictions(file: &Path) -> Result<Predictions, DatasetError> {
    let mut reader =
        PredictionReader { file: file.to_path_buf(), predictions: Predictions::default() };
    read::read_json_rows(file, &mut |row| reader.add_row(row))?;
    let mut out = reader.predictions;
    if out.by_model.is_empty() && out.bad_rows.is_empty() {
        let why = "contains no predictions".to_owned();
        return Err(DatasetError::Unreadable { file: file.to_path_buf(), why });
    }
    out.bad_rows.sort_by_key(|bad| (bad.line, bad.row));
    Ok(out)
}

struct PredictionReader {
    file: PathBuf,
    predictions: Predictions,
}

impl PredictionReader {
    fn add_row(&mut self, row: RawRow) {
        let (place, key) = (row.location, row.key);
        let value = match row.value {
            Ok(Value::Object(object)) if key.is_none() && is_keyed_by_id(&object) => {
                for (id, value) in object {
                    self.add_row(RawRow {
                        location: place,
                        split: None,
                        key: Some(id),
                        value: Ok(value),
                    });
                }
                return;
            }
            value => value,
        };
        let named = |value: &Value| value.get("instance_id")?.as_str().map(str::to_owned);
        let id = value.as_ref().ok().and_then(named).or_else(|| key.clone());
        let taken = value.and_then(|value| parse_entry(value, key));
        let done = taken.and_then(|(maker, at, prediction)| {
            let attempts = self.predictions.by_model.entry(maker).or_default();
            if attempts.contains_key(&at) {
                let (id, attempt) = at;
                let what = format!("duplicate prediction for {id}, attempt {attempt}; keep one");
                return Err(RowError::invalid_field("instance_id", what));
            }
            attempts.insert(at, prediction);
            Ok(())
        });
        if let Err(complaint) = done {
            self.predictions.bad_rows.push(BadRow::new(&self.file, Some(place), id, complaint));
        }
    }
}

/// Whether an object is a map of predictions by id. Some files with the suffix `.jsonl` contain
/// such a map.
fn is_keyed_by_id(object: &serde_json::Map<String, Value>) -> bool {
    let is_prediction = |value: &Value| {
        ["model_patch", "instance_id"].iter().any(|field| value.get(field).is_some())
    };
    !object.is_empty() && object.values().all(is_prediction)
}

type PredictionEntry = (String, (String, u32), Prediction);

fn parse_entry(mut value: Value, key: Option<String>) -> Result<PredictionEntry, RowError> {
    let Some(object) = value.as_object_mut() else {
        return Err(RowError::invalid_row("is not an object with `instance_id` and `model_patch`"));
    };
    let text =
        |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = match object.get("instance_id") {
        Some(Value::String(id)) if !id.is_empty() => Some(id.clone()),
        None | Some(Value::Null | Value::String(_)) => key,
        Some(value) => {
            let what = format!("is {}, not text", shapes::describe_type(value));
            return Err(RowError::invalid_field("instance_id", what));
        }
    };
    let id = id.ok_or_else(|| RowError::invalid_field("instance_id", "is missing"))?;
    let maker = match (text("model_name_or_path"), text("agent"), text("model")) {
        (Some(name), ..) => name.to_owned(),
        (None, Some(agent), Some(model)) => format!("{agent}/{model}"),
        (None, one, other) => one.or(other).unwrap_or(DEFAULT_MODEL).to_owned(),
    };
    let attempt = match object.get("n_attempt") {
        None | Some(Value::Null) => 1,
        Some(value) => value
            .as_u64()
            .and_then(|attempt| u32::try_from(attempt).ok())
            .filter(|attempt| *attempt > 0)
            .ok_or_else(|| {
                RowError::invalid_field(
                    "n_attempt",
                    format!("is {value}, but attempts are numbered from 1"),
                )
            })?,
    };
    let failed = (object.get("success") == Some(&Value::Bool(false)))
        .then(|| text("error").unwrap_or("the attempt failed").to_owned());
    let patch = take_patch(object, failed.is_some())?;
    let numbered = object.get("n_attempt").is_some_and(|value| !value.is_null());
    Ok((maker, (id, attempt), Prediction { patch, failure: failed, has_attempt_number: numbered }))
}

/// Returns the patch; null means empty. A missing key is an error, unless the attempt is marked as
/// failed.
fn take_patch(
    object: &mut serde_json::Map<String, Value>,
    has_failed: bool,
) -> Result<String, RowError> {
    let inner = object.get("test_result").and_then(|result| result.get("git_patch")).cloned();
    match object.remove("model_patch").or(inner) {
        Some(Value::String(patch)) => Ok(patch),
        Some(Value::Null) => Ok(String::new()),
        None if has_failed => Ok(String::new()),
        Some(_) => Err(RowError::invalid_field(
            "model_patch",
            "is not text; use \"\" or null for an empty prediction",
        )),
        None => {
            let near = object.keys().find(|key| key.contains("patch") || key.contains("diff"));
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            Err(RowError::invalid_field("model_patch", format!("is missing{hint}")))
        }
    }
}
