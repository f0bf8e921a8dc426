//! A scaffold that a manifest defines.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_bundles::{Bundle, MOUNT};
use proctor_sandbox_api::Mount;
use proctor_scaffold_api::{
    AnnouncedLimits, Finish, PromptFolderError, PromptOverlay, Scaffold, Session, SettingError,
    Stop, TaskBrief,
};
use proctor_types::{Fault, FaultCause, FaultLayer, RepositorySettings};
use serde_json::{Map, Value, json};

use crate::{
    Manifest, ManifestError,
    catalogue::{LoadedManifest, parse_manifest},
    prompt::{self, POINTER_FILE, POINTER_TEMPLATE, PROMPT_FOLDER, TASK_FILE, TASK_TEMPLATE},
    run,
    templates::{
        RenderedManifest, TemplateVariables, max_output_tokens, output_tokens, render_manifest,
    },
};

/// Time limit for copying the agent's log after the agent has exited.
const LOG_COPY_TIMEOUT: Duration = Duration::from_secs(30);

/// A command-line agent in the sandbox.
#[derive(Debug, Clone)]
pub struct External {
    loaded_manifest: LoadedManifest,
    /// The bundle; `None` if the agent has none or it is not built yet.
    bundle: Option<Bundle>,
    /// The template for the prompt.
    task_template: String,
    /// The template for the text that replaces the prompt if it is too long for a command-line
    /// argument.
    pointer_template: String,
}

impl External {
    /// Creates the scaffold from a manifest and, if it is already built, a bundle.
    pub fn new(loaded_manifest: LoadedManifest, bundle: Option<Bundle>) -> Self {
        Self {
            loaded_manifest,
            bundle,
            task_template: TASK_TEMPLATE.to_owned(),
            pointer_template: POINTER_TEMPLATE.to_owned(),
        }
    }

    /// Returns what identifies the bundle, as a factor of the arm.
    pub fn bundle_factor(bundle: &Bundle) -> Value {
        json!({ "digest": bundle.digest, "versions": bundle.versions })
    }

    /// Restores the scaffold from the factors that an arm recorded, without its bundle. So a
    /// resumed run keeps the manifest that it was planned with, even if the file has changed.
    /// Returns `None` if the factors belong to another kind of scaffold.
    ///
    /// # Errors
    /// Fails if this version cannot parse the recorded manifest.
    pub fn from_factors(factors: &Value) -> Result<Option<Self>, ManifestError> {
        let Some(text) = factors["manifest"].as_str() else { return Ok(None) };
        let recorded = Self::new(parse_manifest("the recorded manifest", text)?, None);
        let text = |key: &str, shipped: &str| {
            factors["prompts"][key].as_str().unwrap_or(shipped).to_owned()
        };
        let (task, pointer) = (text("task", TASK_TEMPLATE), text("pointer", POINTER_TEMPLATE));
        Ok(Some(Self { task_template: task, pointer_template: pointer, ..recorded }))
    }

    /// Adds the agent's bundle.
    #[must_use]
    pub fn with_bundle(self, bundle: Bundle) -> Self {
        Self { bundle: Some(bundle), ..self }
    }

    /// Returns the agent's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.loaded_manifest.manifest
    }

    fn render_for_trial(&self, brief: &TaskBrief, home: &str) -> Result<RenderedManifest, Stop> {
        let manifest = self.manifest();
        let Some(endpoint) = &brief.model_endpoint else {
            return Err(setup_fault("the scaffold has no model endpoint".into()));
        };
        let wrong =
            |what: String| setup_fault(format!("the manifest of {}: {what}", manifest.name));
        let limits = brief.announced_budget.as_ref().and_then(AnnouncedLimits::from_budget);
        let mut settings = brief.settings.clone();
        settings.remove(RepositorySettings::KEY);
        let context_window = brief.context_window.or(brief.listed_context_window);
        let known = (context_window, brief.max_output_tokens);
        let max_output_tokens = max_output_tokens(manifest, &settings, known);
        let with = TemplateVariables {
            prompt: prompt::render(&self.task_template, brief, limits.as_ref()).map_err(wrong)?,
            statement: brief.statement.trim().to_owned(),
            workdir: brief.workdir.clone(),
            home: home.to_owned(),
            endpoint: endpoint.url.clone(),
            token: endpoint.token.clone(),
            model: brief.model.clone().unwrap_or_default(),
            context_window,
            max_output_tokens,
            output_tokens: output_tokens(manifest, max_output_tokens),
            repository_settings: repository_settings(brief).name(),
            limits,
            settings,
            pointer: self.pointer_template.clone(),
        };
        render_manifest(manifest, &with).map_err(wrong)
    }
}

/// Returns what the arm does with the agent's settings files in the repository.
fn repository_settings(brief: &TaskBrief) -> RepositorySettings {
    let said = brief.settings.get(RepositorySettings::KEY).cloned();
    said.and_then(|said| serde_json::from_value(said).ok()).unwrap_or_default()
}

fn setup_fault(problem: String) -> Stop {
    Stop::Fault(Fault::new(FaultLayer::Setup, problem).cause(FaultCause::Invalid))
}

/// Returns a home directory that is outside the work directory, so that its files don't become part
/// of the patch.
fn home_folder(workdir: &str) -> &'static str {
    match workdir.starts_with("/tmp") {
        true => "/var/tmp/agent-home",
        false => "/tmp/agent-home",
    }
}

#[async_trait]
impl Scaffold for External {
    fn name(&self) -> &str {
        &self.manifest().name
    }

    fn factors(&self) -> Value {
        json!({
            "manifest": self.loaded_manifest.text,
            "version": self.manifest().version,
            "untested": self.manifest().untested,
            "bundle": self.bundle.as_ref().map(Self::bundle_factor),
            "prompts": { "task": self.task_template, "pointer": self.pointer_template },
        })
    }

    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        let mut settings = self.manifest().settings.clone();
        for (key, value) in arm_settings {
            let known: Vec<_> = self.manifest().settings.keys().map(String::as_str).collect();
            let Some(there) = settings.get_mut(key) else {
                let near = known.iter().min_by_key(|one| strsim::levenshtein(one, key));
                let near = near.filter(|one| strsim::levenshtein(one, key) <= 2);
                let name = self.name();
                return Err(SettingError {
                    key: key.clone(),
                    problem: format!("the scaffold `{name}` has no such setting"),
                    hint: match (near, known.is_empty()) {
                        (Some(near), _) => format!("did you mean `{near}`?"),
                        (None, true) => "it has no settings; remove the key".into(),
                        (None, false) => format!("known: {}", known.join(", ")),
                    },
                });
            };
            if json_type(there) != json_type(value) {
                return Err(SettingError {
                    key: key.clone(),
                    problem: format!("must be a {}, not a {}", json_type(there), json_type(value)),
                    hint: format!("the default is {there}"),
                });
            }
            *there = value.clone();
        }
        Ok(settings)
    }

    fn with_prompts(&self, folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let over = PromptOverlay::read(folder, &[(PROMPT_FOLDER, vec![TASK_FILE, POINTER_FILE])])?;
        let task = over.get(PROMPT_FOLDER, TASK_FILE).unwrap_or(TASK_TEMPLATE).to_owned();
        let pointer = over.get(PROMPT_FOLDER, POINTER_FILE).unwrap_or(POINTER_TEMPLATE).to_owned();
        prompt::check_template(&task)
            .and_then(|()| prompt::render_pointer(&pointer, "/p").map(drop))
            .map_err(|what| {
                PromptFolderError::new(what, "docs/reference/prompts.md lists the variables")
            })?;
        Ok(Arc::new(Self { task_template: task, pointer_template: pointer, ..self.clone() }))
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn model_endpoint(&self, _: &Map<String, Value>) -> Option<Value> {
        serde_json::to_value(&self.manifest().requests).ok()
    }

    fn reads_repository_settings(&self) -> bool {
        true
    }

    fn mounts(&self) -> Vec<Mount> {
        let mount =
            |bundle: &Bundle| Mount { folder: bundle.folder.clone(), mount_point: MOUNT.into() };
        self.bundle.iter().map(mount).collect()
    }

    fn exit_timeout(&self) -> Option<Duration> {
        let stop = &self.manifest().stop;
        Some(Duration::from_secs_f64(stop.leave_seconds + stop.grace_seconds) + LOG_COPY_TIMEOUT)
    }

    fn unsupported_user_reason(&self, user: Option<&str>) -> Option<(String, String)> {
        let name = user.unwrap_or("root");
        let root = ["root", "0"].contains(&name.split(':').next().unwrap_or_default());
        (root && !self.manifest().root).then(|| {
            let what = format!("the scaffold `{}` does not run as root", self.name());
            (what, "give the task a non-root `user`, or choose another scaffold".into())
        })
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let home = home_folder(&session.brief().workdir);
        let filled = self.render_for_trial(session.brief(), home)?;
        let settings = repository_settings(session.brief());
        run::run(self.manifest(), filled, (home, settings), session).await
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{names, shipped_manifest};

    fn codex() -> External {
        External::new(shipped_manifest("codex").unwrap().unwrap(), None)
    }

    #[test]
    fn settings_reject_keys_not_in_the_manifest() {
        let given = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
        let settings = codex().resolve_settings(&given("reasoning_effort", json!("high"))).unwrap();
        assert_eq!(settings["reasoning_effort"], "high");
        assert_eq!(codex().resolve_settings(&Map::new()).unwrap()["reasoning_effort"], "medium");
        let typo = codex().resolve_settings(&given("reasoning_efort", json!("high"))).unwrap_err();
        assert_eq!(typo.hint, "did you mean `reasoning_effort`?");
        let wrong = codex().resolve_settings(&given("reasoning_effort", json!(3))).unwrap_err();
        assert_eq!(wrong.problem, "must be a string, not a number");
    }

    #[test]
    fn recorded_factors_restore_the_scaffold() {
        for name in names() {
            let loaded = shipped_manifest(name).unwrap().unwrap();
            let scaffold = External::new(loaded, None);
            let again = External::from_factors(&scaffold.factors()).unwrap().unwrap();
            assert_eq!(again.factors(), scaffold.factors());
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("task.md.j2"), "Do {{ statement }}").unwrap();
        let own = codex().with_prompts(folder.path()).unwrap();
        assert_eq!(own.factors()["prompts"]["task"], "Do {{ statement }}");
        let again = External::from_factors(&own.factors()).unwrap().unwrap();
        assert_eq!(again.factors(), own.factors());
        std::fs::write(folder.path().join("task.md.j2"), "Do {{ gold }}").unwrap();
        let wrong = codex().with_prompts(folder.path()).err().unwrap();
        assert!(wrong.problem.contains("external/task.md.j2"), "{wrong:?}");
        assert!(External::from_factors(&json!({"prompts": {}})).unwrap().is_none());
    }

    #[test]
    fn root_user_is_rejected_unless_allowed() {
        let mut loaded = shipped_manifest("codex").unwrap().unwrap();
        let refuses = |loaded: &LoadedManifest, user| {
            External::new(loaded.clone(), None).unsupported_user_reason(user).is_some()
        };
        assert!(!refuses(&loaded, None));
        loaded.manifest.root = false;
        assert!(refuses(&loaded, None) && refuses(&loaded, Some("0:5")));
        assert!(!refuses(&loaded, Some("1000")));
    }
}
