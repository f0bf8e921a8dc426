//! Selects rows of a dataset by a list of ids, such as FEA-Bench's lite list.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    path::Path,
};

use proctor_types::Task;
use serde_json::Value;

use crate::DatasetError;

/// Keeps the tasks whose ids a file lists, in the file's order. Duplicate ids count once.
///
/// # Errors
/// The file is not a list, or an id has no task. Missing tasks are an error, because a benchmark
/// with fewer tasks is a different benchmark.
pub(crate) fn select_by_ids(tasks: Vec<Task>, file: &Path) -> Result<Vec<Task>, DatasetError> {
    let fault = |why: String| DatasetError::Ids { file: file.to_path_buf(), why };
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => fault("no such file; list the ids in a file, one per line".into()),
        _ => fault(error.to_string()),
    })?;
    let ids = parse_ids(&text).map_err(fault)?;
    let mut known: BTreeMap<String, Task> =
        tasks.into_iter().map(|task| (task.id.to_string(), task)).collect();
    let mut missing = Vec::new();
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for id in ids.into_iter().filter(|id| seen.insert(id.clone())) {
        match known.remove(&id) {
            Some(task) => out.push(task),
            None => missing.push(id),
        }
    }
    if missing.is_empty() {
        return Ok(out);
    }
    let (count, first) = (missing.len(), missing.iter().take(3).cloned().collect::<Vec<_>>());
    Err(fault(format!("no valid row for {count} ids, such as {}", first.join(", "))))
}

/// Reads a JSON list, or one id per line.
fn parse_ids(text: &str) -> Result<Vec<String>, String> {
    if !text.trim_start().starts_with('[') {
        let lines = text.lines().map(str::trim);
        return Ok(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect());
    }
    let list: Vec<Value> =
        serde_json::from_str(text).map_err(|error| format!("is not a JSON list: {error}"))?;
    let text = |value: Value| value.as_str().map(str::to_owned);
    list.into_iter()
        .map(text)
        .collect::<Option<_>>()
        .ok_or_else(|| "contains values that are not ids".into())
}
