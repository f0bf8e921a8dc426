//! Writes predictions: the submitted patches.

use serde_json::json;

use crate::Trial;

/// Returns a line of predictions without its newline. The keys are SWE-bench's, which FEA-Bench and
/// others read too.
///
/// # Errors
/// Returns an error if the patch is not UTF-8, because a prediction is text.
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
