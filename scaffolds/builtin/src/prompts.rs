//! Prompts and settings, which are data: `prompts/<scaffold>/*.md.j2` and `manifest.toml`.

use std::{collections::BTreeMap, fmt, path::Path};

use minijinja::{Environment, value::Serde};
use proctor_scaffold_api::{
    AnnouncedLimits, PromptFolderError, PromptOverlay, Stop, TaskBrief, template_environment,
    template_error,
};
use proctor_types::{Fault, FaultLayer, from_toml};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

mod embedded;

/// The prompts and settings of one scaffold.
///
/// An undefined variable is an error. When the prompts are loaded, each template is rendered once
/// with sample values, so that an error in a prompt stops the run before its first trial.
pub struct Prompts {
    folder: &'static str,
    texts: BTreeMap<&'static str, String>,
    settings: Value,
    templates: Environment<'static>,
}

/// An invalid prompt. If the prompt comes from a user's folder, the error is a usage error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("prompts: {file}: {problem}")]
pub struct PromptError {
    /// The path of the prompt, such as `tools/task.md.j2`.
    pub file: String,
    pub problem: String,
}

impl Prompts {
    /// Loads the embedded prompts of one scaffold (such as `tools` or `bash`). Prompts in the
    /// overlay override them.
    pub fn load(
        folder: &'static str,
        overlay: Option<&PromptOverlay>,
    ) -> Result<Self, PromptError> {
        let templates = template_environment(false);
        let mut templates =
            templates.map_err(|error| prompt_error(folder, "manifest.toml", error))?;
        let mut texts = BTreeMap::new();
        let mut settings = Value::Null;
        for (file, embedded) in embedded::files(folder) {
            let text =
                overlay.and_then(|over| over.get(folder, file)).unwrap_or(embedded).to_owned();
            let Some(name) = file.strip_suffix(".md.j2") else {
                settings = from_toml(&text).map_err(|error| prompt_error(folder, file, error))?;
                continue;
            };
            templates
                .add_template_owned(name, text.clone())
                .and_then(|()| {
                    templates.get_template(name)?.render(Serde(sample_variables(name))).map(drop)
                })
                .map_err(|error| prompt_error(folder, file, template_error(&error)))?;
            texts.insert(name, text);
        }
        Ok(Self { folder, texts, settings, templates })
    }

    /// Parses the manifest into the scaffold's own settings type.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, PromptError> {
        serde_path_to_error::deserialize(self.settings.clone())
            .map_err(|error| prompt_error(self.folder, "manifest.toml", error))
    }

    /// Renders one prompt. Fails only for an error that rendering with sample values did not
    /// reveal. The error becomes a setup fault and is never shown to the model.
    pub fn render(&self, name: &str, variables: impl Serialize) -> Result<String, Stop> {
        self.templates.get_template(name).and_then(|text| text.render(Serde(variables))).map_err(
            |error| {
                let folder = self.folder;
                let why = template_error(&error);
                let what = format!("cannot render prompt {folder}/{name}.md.j2: {why}");
                Stop::Fault(Fault::new(FaultLayer::Setup, what))
            },
        )
    }

    /// Returns a prompt that has no variables, such as a tool's description.
    pub fn render_static(&self, name: &str) -> String {
        self.render(name, ()).unwrap_or_default()
    }

    /// Reads a user's prompt folder. `folders` are the folders in `prompts/` that the scaffold
    /// uses.
    pub(crate) fn read_overlay(
        dir: &Path,
        folders: &[&str],
    ) -> Result<PromptOverlay, PromptFolderError> {
        let files = |folder: &str| embedded::files(folder).iter().map(|(file, _)| *file).collect();
        let known: Vec<_> = folders.iter().map(|folder| (*folder, files(folder))).collect();
        PromptOverlay::read(dir, &known)
    }

    /// Adds prompts and settings that [`Prompts::factors`] returned and an arm recorded to an
    /// overlay. Settings are added in parsed form.
    pub(crate) fn overlay_with_factors(
        overlay: PromptOverlay,
        folder: &'static str,
        factors: &Value,
    ) -> Result<PromptOverlay, PromptError> {
        let texts = factors["prompts"].as_object().into_iter().flatten();
        let over = texts.fold(overlay, |over, (name, text)| {
            over.with_text(folder, &format!("{name}.md.j2"), text.as_str().unwrap_or_default())
        });
        let settings = toml::to_string(&factors["settings"])
            .map_err(|error| prompt_error(folder, "manifest.toml", error))?;
        Ok(over.with_text(folder, "manifest.toml", settings))
    }

    /// Returns all prompts, as written, and all settings, as parsed, by name.
    pub fn factors(&self) -> Value {
        json!({ "prompts": self.texts, "settings": self.settings })
    }
}

impl fmt::Debug for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompts").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl From<PromptError> for PromptFolderError {
    fn from(PromptError { file, problem: what }: PromptError) -> Self {
        let what = format!("{file}: {}", what.trim().replace('\n', " "));
        Self::new(what, "docs/reference/prompts.md lists the variables of each prompt")
    }
}

fn prompt_error(folder: &str, file: &str, problem: impl fmt::Display) -> PromptError {
    PromptError { file: format!("{folder}/{file}"), problem: problem.to_string() }
}

/// The template variables of the first messages. They come from the brief and never include the
/// gold patch or a recorded trajectory.
#[derive(Debug, Serialize)]
pub(crate) struct OpeningVariables<'a> {
    statement: &'a str,
    workdir: &'a str,
    command_seconds: u64,
    limits: Option<AnnouncedLimits>,
}

impl<'a> OpeningVariables<'a> {
    pub(crate) fn from_brief(brief: &'a TaskBrief) -> Self {
        Self {
            statement: brief.statement.trim(),
            workdir: &brief.workdir,
            command_seconds: brief.command_timeout.as_secs(),
            limits: brief.announced_budget.as_ref().and_then(AnnouncedLimits::from_budget),
        }
    }
}

/// Returns sample values for the variables of each prompt. They define which variables users' own
/// prompts may use.
fn sample_variables(name: &str) -> Value {
    match name {
        "system" | "task" => json!({
            "statement": "s", "workdir": "/w", "command_seconds": 1,
            "limits": AnnouncedLimits::sample(),
        }),
        "natural" | "patch" => json!({
            "request": "r", "discussion": "d", "detailed": true, "changes": "c", "definitions": "d",
            "readmes": "r", "files": "f",
        }),
        "probe" => json!({ "request": "r", "repo": "o/n" }),
        "definitions" => json!({
            "detailed": true,
            "files": [{ "file": "f", "components": [{ "name": "n", "signature": "s", "doc": "d" }] }],
        }),
        "file" => json!({ "path": "p", "text": "t" }),
        "nudge" => json!({ "length": true }),
        "format" => json!({ "length": true, "problem": "p" }),
        "shell_result" => json!({
            "output": "o", "exit_status": 1, "signal": null, "timed_out": false, "seconds": 1,
        }),
        "cut" => json!({ "kind": "shell", "tokens": 1, "lines": 1, "bytes": 1, "about": true }),
        _ => json!({}),
    }
}
