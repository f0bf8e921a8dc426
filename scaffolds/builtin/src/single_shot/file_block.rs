//! Formats a file for the prompt.

use proctor_scaffold_api::Stop;
use serde_json::json;

use crate::prompts::Prompts;

/// Formats a file between its markers, with line numbers.
pub(super) fn format_numbered_block(
    prompts: &Prompts,
    path: &str,
    text: &str,
) -> Result<String, Stop> {
    format_block(prompts, path, Some(text), true)
}

pub(super) fn format_block(
    prompts: &Prompts,
    path: &str,
    text: Option<&str>,
    has_line_numbers: bool,
) -> Result<String, Stop> {
    let text = text.unwrap_or_default();
    let text = match has_line_numbers && !text.is_empty() {
        true => {
            let lines = text.split('\n').enumerate();
            lines.map(|(at, line)| format!("{} {line}", at + 1)).collect::<Vec<_>>().join("\n")
        }
        false => text.to_owned(),
    };
    Ok(prompts.render("file", json!({ "path": path, "text": text }))? + "\n\n")
}
