//! Parses the JSON of trajectory files.

use proctor_types::parse_python_json;
use serde::de::DeserializeOwned;

use super::error::ImportError;

/// Maximum length of an error message that quotes a value, in characters.
const MAX_ERROR_CHARS: usize = 300;
const INVALID_JSON_HINT: &str = "the file may be truncated: download it again, or exclude it";
const UNEXPECTED_SHAPE_HINT: &str =
    "fix the file, or exclude it; docs/reference/export.md lists what each format may contain";

/// Parses JSON as `T`. Errors contain the location of the problem.
pub(super) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, ImportError> {
    let value = parse_python_json(text.as_bytes()).map_err(|error| {
        let location = format!("line {}, column {}", error.line(), error.column());
        ImportError::new(location, "invalid or truncated JSON", INVALID_JSON_HINT)
    })?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let location = error.path().to_string();
        ImportError::new(
            location,
            shorten_error(&error.into_inner().to_string()),
            UNEXPECTED_SHAPE_HINT,
        )
    })
}

/// Shortens an error message that quotes a long value by removing its middle.
fn shorten_error(message: &str) -> String {
    let count = message.chars().count();
    if count <= MAX_ERROR_CHARS {
        return message.to_owned();
    }
    let head: String = message.chars().take(MAX_ERROR_CHARS / 2).collect();
    let tail: String = message.chars().skip(count - MAX_ERROR_CHARS / 2).collect();
    format!("{head}\u{2026}{tail}")
}
