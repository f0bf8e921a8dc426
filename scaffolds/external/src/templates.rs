//! The templates of a manifest: what is filled in when a trial begins.

use minijinja::value::Serde;
use proctor_scaffold_api::{Limits, template_environment, template_error};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Manifest;

/// What a template may name.
#[derive(Debug, Clone, Serialize)]
pub struct Variables {
    /// The whole of `prompts/external/task.md.j2`, rendered.
    pub prompt: String,
    pub statement: String,
    pub workdir: String,
    pub home: String,
    /// Without `/v1`.
    pub endpoint: String,
    pub token: String,
    pub model: String,
    pub context_window: Option<u64>,
    pub limits: Option<Limits>,
    pub settings: Map<String, Value>,
}

/// A manifest with everything filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filled {
    pub argv: Vec<String>,
    pub stdin: String,
    pub cwd: String,
    pub env: Vec<(String, String)>,
    /// Path below `HOME`, content, whether it is a program.
    pub files: Vec<(String, String, bool)>,
}

/// Fills a manifest in. The error names the key.
pub fn fill(manifest: &Manifest, with: &Variables) -> Result<Filled, String> {
    // Line ends stay as they are written.
    let templates = template_environment(true).map_err(|error| template_error(&error))?;
    let render = |key: &str, text: &str| {
        templates
            .render_str(text, Serde(with))
            .map_err(|error| format!("`{key}`: {}", template_error(&error)))
    };
    let command = &manifest.command;
    let mut filled = Filled {
        stdin: render("command.stdin", &command.stdin)?,
        cwd: render("command.cwd", &command.cwd)?,
        ..Filled::default()
    };
    for entry in &command.argv {
        let text = render("command.argv", entry)?;
        if !(text.is_empty() && entry.contains("{%")) {
            filled.argv.push(text);
        }
    }
    for (name, value) in &manifest.env {
        filled.env.push((name.clone(), render(&format!("env.{name}"), value)?));
    }
    for file in &manifest.files {
        let content = render("files", &file.content)?;
        filled.files.push((file.path.clone(), content, file.executable));
    }
    Ok(filled)
}

/// Fills a manifest in with samples, so that a mistake ends a run before its first trial.
pub fn check(manifest: &Manifest) -> Result<(), String> {
    for context_window in [None, Some(1)] {
        let text = || "x".to_owned();
        let with = Variables {
            prompt: text(),
            statement: text(),
            workdir: text(),
            home: text(),
            endpoint: text(),
            token: text(),
            model: text(),
            context_window,
            limits: context_window.map(|_| Limits::sample()),
            settings: manifest.settings.clone(),
        };
        fill(manifest, &with)?;
    }
    Ok(())
}
