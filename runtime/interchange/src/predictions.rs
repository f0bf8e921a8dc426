//! Writes predictions: the submitted patches.

use serde_json::json;

use crate::Trial;

/// Returns one line of a predictions file, without the newline. FEA-Bench and other tools read the
/// same keys as SWE-bench.
///
/// # Errors
/// Returns an error if the patch is not UTF-8, because predictions are text.
pub fn prediction(trial: &Trial<'_>) -> Result<String, String> {
    let patch = std::str::from_utf8(trial.patch)
        .map_err(|_| "the patch is not UTF-8, but a prediction must be".to_owned())?;
    let line = json!({
        "instance_id": trial.task.id,
        "model_name_or_path": trial.arm.name,
        "model_patch": patch,
    });
    Ok(line.to_string())
}
