use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::Mount;
use proctor_types::{ExitCause, SandboxSpec};
use serde_json::{Map, Value};

use crate::{PromptFolderError, Session, Stop};

/// How a scaffold ended its loop on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The work directory is the submission.
    Submitted,
    /// The scaffold gave up or ended normally without a submission.
    Exited {
        /// The category used in reports.
        cause: ExitCause,
        /// The reason, for the record and the report.
        why: String,
    },
}

impl Finish {
    /// Creates an exit without a submission.
    pub fn exited(why: impl Into<String>) -> Self {
        Self::Exited { cause: ExitCause::Finished, why: why.into() }
    }
}

/// The environment of a user's program: a native sandbox on the host base without network access.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSandbox {
    /// Host directories mounted read-only.
    pub mounts: Vec<Mount>,
    /// A digest of the mounts' content.
    pub digest: String,
    /// Resource limits.
    pub limits: SandboxSpec,
    /// The program's working directory.
    pub workdir: String,
}

/// An invalid key of `[arms.settings]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// The key.
    pub key: String,
    /// What is wrong with the value.
    pub what: String,
    /// How to fix it.
    pub hint: String,
}

impl SettingError {
    /// Creates an error about a key, with its fix.
    pub fn new(key: &str, what: String, hint: &str) -> Self {
        Self { key: key.to_owned(), what, hint: hint.to_owned() }
    }
}

/// A scaffold's sampling defaults, used unless the model's own settings override them. If a value
/// is absent, the endpoint decides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// Same as in `[models]`.
    pub temperature: Option<f64>,
    /// Same as in `[models]`.
    pub top_p: Option<f64>,
}

/// The agent loop. Stateless between trials: all state of a trial is in its session.
#[async_trait]
pub trait Scaffold: Send + Sync {
    /// Returns the name used in configurations.
    fn name(&self) -> &str;

    /// Returns every prompt text and setting that affects what the model sees. These are factors of
    /// the arm.
    fn factors(&self) -> Value;

    /// Merges `[arms.settings]` with the defaults. The result is a factor of the arm.
    ///
    /// # Errors
    /// Returns an error for an unknown key or a value of the wrong type.
    fn resolve_settings(
        &self,
        given: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        match given.keys().next() {
            None => Ok(Map::new()),
            Some(key) => Err(SettingError {
                key: key.clone(),
                what: format!("the scaffold `{}` has no settings", self.name()),
                hint: "remove the key".into(),
            }),
        }
    }

    /// Returns the same scaffold with texts from a folder instead of the built-in ones
    /// (`docs/prompts.md`).
    ///
    /// # Errors
    /// Returns an error if the scaffold has no prompts or the folder cannot be used.
    fn with_prompts(&self, _folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let what = format!("the scaffold `{}` has no prompts", self.name());
        Err(PromptFolderError::new(what, "remove the key"))
    }

    /// Returns whether an arm with this scaffold must name a model.
    fn needs_model(&self) -> bool;

    /// Returns whether its requests offer tools through function calling, which some models do not
    /// support.
    fn needs_tools(&self) -> bool {
        false
    }

    /// Returns sampling defaults that the model's own settings override. They become factors as
    /// well.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// Returns the rules that distinguish the client's main conversation from side requests, in the
    /// form used in manifests (docs/gateway.md). Only for a scaffold whose client runs in a sandbox
    /// and calls the model over HTTP.
    ///
    /// If this returns no rules, no model endpoint is started. Otherwise the endpoint listens in
    /// [`Scaffold::own_sandbox`] if there is one, or else in the task's sandbox. `settings` are the
    /// arm's, as returned by [`Scaffold::resolve_settings`].
    fn model_endpoint(&self, _settings: &Map<String, Value>) -> Option<Value> {
        None
    }

    /// Returns the host directories mounted read-only in the task's sandbox.
    fn mounts(&self) -> Vec<Mount> {
        Vec::new()
    }

    /// Returns the sandbox of a user's program that implements the loop. It is separate from the
    /// task's. `settings` are the arm's, as returned by [`Scaffold::resolve_settings`].
    ///
    /// # Errors
    /// Returns why the sandbox is unavailable, with a hint.
    fn own_sandbox(
        &self,
        _settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        Ok(None)
    }

    /// Returns how long the client in the sandbox may take to exit after [`Session::wait_for_end`]
    /// resolves. If `None`, the loop is dropped immediately.
    fn exit_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether trials can be resumed from their record. This requires a loop on the host
    /// that repeats its actions when it receives the recorded responses and the results of
    /// [`Session::recorded_result`].
    fn is_resumable(&self) -> bool {
        false
    }

    /// Returns the reason and a hint if the scaffold cannot act as this sandbox user. `None` as the
    /// user means the sandbox's default.
    fn unsupported_user_reason(&self, _user: Option<&str>) -> Option<(String, String)> {
        None
    }

    /// Returns whether the client reads its own settings from the task's repository, so that an
    /// arm's `repository_settings` has an effect.
    fn reads_repository_settings(&self) -> bool {
        false
    }

    /// Runs until submission, exit, or a [`Stop`] from the session, which is propagated with `?`.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop>;
}
