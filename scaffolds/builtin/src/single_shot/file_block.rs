//! Formats a file for the prompt.

use proctor_scaffold_api::Stop;
use serde_json::json;

use crate::prompts::Prompts;

/// Formats a file between its markers, with line numbers.
pub(super) fn numbered_block(prompts: &Prompts, path: &str, text: &str) -> Result<String, Stop> {
    block(prompts, path, Some(text), true)
}

pub(super) fn block(
    prompts: &Prompts,
    path: &str,
    text: Option<&str>,
    numbers: bool,
) -> Result<String, Stop> {
    let text = text.unwrap_or_default();
    let text = match numbers && !text.is_empty() {
        true => {
            let lines = text.split('\n').enumerate();
            lines.map(|(at, line)| format!("{} {line}", at + 1)).collect::<Vec<_>>().join("\n")
        }
        false => text.to_owned(),
    };
    Ok(prompts.render("file", json!({ "path": path, "text": text }))? + "\n\n")
}
