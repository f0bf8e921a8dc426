//! Predictions: only what a trial submitted.

use serde_json::json;

use crate::Trial;

/// A line of predictions without its newline. The keys are those of SWE-bench, which FEA-Bench and
/// others read too.
///
/// # Errors
/// The patch is not text, so no such line can hold it.
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
