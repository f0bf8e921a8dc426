//! What an agent is told: one text for all of them, so that they are compared on equal terms.

use minijinja::value::Serde;
use proctor_scaffold_api::{Brief, Limits};
use serde_json::json;

use crate::templates::environment;

/// The shipped text.
pub const TASK: &str = include_str!("../../../prompts/external/task.md.j2");

/// The prompt of a trial.
pub fn render(template: &str, brief: &Brief, limits: Option<&Limits>) -> Result<String, String> {
    let with = json!({
        "statement": brief.statement.trim(), "workdir": brief.workdir, "limits": limits,
    });
    let text = environment()?
        .render_str(template, Serde(with))
        .map_err(|error| format!("prompt external/task.md.j2: {error:#}"))?;
    Ok(text.trim_end().to_owned())
}
