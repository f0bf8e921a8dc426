//! Detects the format of another tool's file and parses it.

use proctor_types::parse_python_json;

use super::{atif, error::ImportError, imported_trial::ImportedTrial, mini, swe_agent};
use crate::{Fidelity, Format};

/// Detects a file's format from its content. Returns `None` if the file is not in a known
/// trajectory format.
pub fn detect_format(name: &str, text: &str) -> Option<Format> {
    // Match the start of the text, so that a truncated file is still recognized and reported as
    // truncated.
    let from_start = |words: &str| text.get(..4096).unwrap_or(text).contains(words);
    let Ok(value) = parse_python_json(text.as_bytes()) else {
        return match name {
            _ if from_start("\"ATIF-v") => Some(Format::Atif),
            _ if name.ends_with(".traj.json") => Some(Format::Mini),
            _ if name.ends_with(".traj") => Some(Format::SweAgent),
            _ => None,
        };
    };
    let has = |key: &str| !value[key].is_null();
    if value["schema_version"].as_str().is_some_and(|version| version.starts_with("ATIF")) {
        Some(Format::Atif)
    } else if has("trajectory_format") || (has("messages") && has("info")) {
        Some(Format::Mini)
    } else if has("trajectory") {
        Some(Format::SweAgent)
    } else {
        None
    }
}

/// Parses a trajectory. `fidelity` counts the data that the file lacks and the data that a record
/// cannot represent.
///
/// # Errors
/// Returns an error if the file is corrupt or in a different format.
pub fn read_trajectory(
    format: Format,
    text: &str,
    fidelity: &mut Fidelity,
) -> Result<ImportedTrial, ImportError> {
    let imported = match format {
        Format::Atif => atif::parse_trajectory(text, fidelity)?,
        Format::Mini => mini::parse_trajectory(text)?,
        Format::SweAgent => swe_agent::parse_trajectory(text)?,
        _ => {
            return Err(ImportError::new(
                "format",
                format!("importing {format} is not supported"),
                "supported: atif, mini, swe-agent, swebench",
            ));
        }
    };
    imported.conversation.count_missing_data(fidelity);
    fidelity.record_missing("patches", u64::from(imported.patch.is_none()));
    fidelity.record_missing(
        "the files after each step",
        imported.conversation.responses().count() as u64,
    );
    fidelity.trials += 1;
    Ok(imported)
}
