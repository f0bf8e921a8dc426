//! The prompt for command-line agents. All agents get the same prompt, so that they are compared on
//! equal terms.

use minijinja::value::Serde;
use proctor_scaffold_api::{AnnouncedLimits, TaskBrief, template_environment, template_error};
use serde_json::json;

/// The folder in `prompts/`.
pub const PROMPT_FOLDER: &str = "external";
pub const TASK_FILE: &str = "task.md.j2";

/// The file with the text that replaces the prompt if it is too long for a command-line argument.
pub const POINTER_FILE: &str = "pointer.md.j2";

/// The built-in text of [`TASK_FILE`].
pub const TASK_TEMPLATE: &str = include_str!("../../../prompts/external/task.md.j2");
/// The built-in text of [`POINTER_FILE`].
pub const POINTER_TEMPLATE: &str = include_str!("../../../prompts/external/pointer.md.j2");

/// Renders the prompt for a trial.
pub fn render(
    template: &str,
    brief: &TaskBrief,
    limits: Option<&AnnouncedLimits>,
) -> Result<String, String> {
    render_task(template, brief.statement.trim(), &brief.workdir, limits)
}

/// Renders a template with sample values, so that an error in the template stops a run before its
/// first trial.
pub fn check_template(template: &str) -> Result<(), String> {
    for limits in [None, Some(AnnouncedLimits::sample())] {
        render_task(template, "s", "/w", limits.as_ref())?;
    }
    Ok(())
}

/// Renders the text that replaces the prompt as an argument. The prompt itself is in the file
/// `path`.
pub fn render_pointer(template: &str, path: &str) -> Result<String, String> {
    let text = template_environment(true)
        .and_then(|templates| templates.render_str(template, Serde(json!({ "path": path }))))
        .map_err(|error| {
            format!("prompt {PROMPT_FOLDER}/{POINTER_FILE}: {}", template_error(&error))
        })?;
    Ok(text.trim_end().to_owned())
}

fn render_task(
    template: &str,
    statement: &str,
    workdir: &str,
    limits: Option<&AnnouncedLimits>,
) -> Result<String, String> {
    let with = json!({ "statement": statement, "workdir": workdir, "limits": limits });
    let text = template_environment(true)
        .and_then(|templates| templates.render_str(template, Serde(with)))
        .map_err(|error| {
            format!("prompt {PROMPT_FOLDER}/{TASK_FILE}: {}", template_error(&error))
        })?;
    Ok(text.trim_end().to_owned())
}
