//! The templates of a manifest: what is filled in when a trial begins.

use minijinja::{Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use proctor_scaffold_api::Limits;
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
    let templates = environment()?;
    let render = |key: &str, text: &str| {
        templates
            .render_str(text, Serde(with))
            .map_err(|error| format!("`{key}`: {error:#}").replace('\n', " "))
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

/// Names that are not there are errors; line ends stay as they are written.
pub fn environment() -> Result<Environment<'static>, String> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_syntax(syntax.map_err(|error| error.to_string())?);
    Ok(templates)
}
