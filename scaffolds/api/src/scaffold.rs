use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::Mount;
use proctor_types::{ExitCause, SandboxSpec};
use serde_json::{Map, Value};

use crate::{PromptFolderError, Session, Stop};

/// How a scaffold's loop ended, unless the session stopped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The scaffold submitted the work directory.
    Submitted,
    /// The scaffold gave up, or it ended normally without submitting.
    Exited {
        /// The category used in reports.
        cause: ExitCause,
        /// The reason, for the record and the report.
        reason: String,
    },
}

impl Finish {
    /// Creates an exit without a submission.
    pub fn exit(reason: impl Into<String>) -> Self {
        Self::Exited { cause: ExitCause::Finished, reason: reason.into() }
    }
}

/// The environment of a user's program: a native sandbox with a host base and no network access.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSandbox {
    /// The host directories to mount read-only.
    pub mounts: Vec<Mount>,
    /// A digest of the mounted content.
    pub digest: String,
    /// The resource limits.
    pub limits: SandboxSpec,
    /// The program's working directory.
    pub workdir: String,
}

/// An invalid key of `[arms.settings]`, or of the arm itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// The key in `[arms.settings]`, or [`SettingError::SCAFFOLD`].
    pub key: String,
    /// What is wrong with the value.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

impl SettingError {
    /// The arm's key `scaffold`, for a problem with the file or function that its value names.
    pub const SCAFFOLD: &'static str = "scaffold";

    /// Creates an error for a key, with a hint on how to fix it.
    pub fn new(key: &str, problem: String, hint: &str) -> Self {
        Self { key: key.to_owned(), problem, hint: hint.to_owned() }
    }
}

/// A scaffold's default sampling parameters. The model's own settings override them. If neither
/// sets a parameter, the endpoint decides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// The temperature, as in `[models]`.
    pub temperature: Option<f64>,
    /// The nucleus sampling threshold, as in `[models]`.
    pub top_p: Option<f64>,
}

/// An agent loop. It has no state between trials: all state of a trial is in the session.
#[async_trait]
pub trait Scaffold: Send + Sync {
    /// Returns the name that configurations use.
    fn name(&self) -> &str;

    /// Returns every prompt text and setting that affects what the model sees. They are factors of
    /// the arm.
    fn factors(&self) -> Value;

    /// Merges `[arms.settings]` with the defaults. The result is a factor of the arm.
    ///
    /// # Errors
    /// Fails if a key is unknown or a value has the wrong type.
    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        match arm_settings.keys().next() {
            None => Ok(Map::new()),
            Some(key) => Err(SettingError {
                key: key.clone(),
                problem: format!("the scaffold `{}` has no settings", self.name()),
                hint: "remove the key".into(),
            }),
        }
    }

    /// Returns the same scaffold with prompts from a folder in place of the built-in ones
    /// (`docs/reference/prompts.md`).
    ///
    /// # Errors
    /// Fails if the scaffold has no prompts or the folder cannot be used.
    fn with_prompts(&self, _folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let what = format!("the scaffold `{}` has no prompts", self.name());
        Err(PromptFolderError::new(what, "remove the key"))
    }

    /// Returns whether an arm with this scaffold requires a model.
    fn needs_model(&self) -> bool;

    /// Returns whether the scaffold offers the model tools through function calling, which some
    /// models do not support.
    fn needs_tools(&self) -> bool {
        false
    }

    /// Returns the default sampling parameters. The model's own settings override them. They are
    /// also factors of the arm.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// Returns rules that distinguish a client's main conversation from its side requests, in the
    /// same form as in manifests (docs/design/gateway.md). Only for a scaffold whose client runs in a
    /// sandbox and calls the model over HTTP.
    ///
    /// If this returns `None`, no model endpoint is started. Otherwise, the endpoint listens in the
    /// sandbox from [`Scaffold::own_sandbox`], or in the task's sandbox if there is no other.
    /// `settings` are the arm's, as returned by [`Scaffold::resolve_settings`].
    fn model_endpoint(&self, _settings: &Map<String, Value>) -> Option<Value> {
        None
    }

    /// Returns the host directories to mount read-only in the task's sandbox.
    fn mounts(&self) -> Vec<Mount> {
        Vec::new()
    }

    /// Returns the specification of a separate sandbox for a user's program that implements the
    /// loop; `None` if there is no such program. `settings` are the arm's, as returned by
    /// [`Scaffold::resolve_settings`].
    ///
    /// # Errors
    /// Fails with a reason and a hint if the sandbox is unavailable.
    fn own_sandbox(
        &self,
        _settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        Ok(None)
    }

    /// Returns how long the client in the sandbox may take to exit after [`Session::wait_for_end`]
    /// has resolved. If `None`, the loop is dropped immediately.
    fn exit_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether a trial can be resumed from its record. This requires a loop on the host.
    /// Given the recorded responses and the results from [`Session::recorded_result`], the loop
    /// must repeat the same actions.
    fn is_resumable(&self) -> bool {
        false
    }

    /// If the scaffold cannot run commands as this sandbox user, returns the reason and a hint.
    /// `None` as the user means the sandbox's default user.
    fn unsupported_user_reason(&self, _user: Option<&str>) -> Option<(String, String)> {
        None
    }

    /// Returns whether the client reads settings for itself from the task's repository. If so, an
    /// arm's `repository_settings` has an effect.
    fn reads_repository_settings(&self) -> bool {
        false
    }

    /// Runs until the scaffold submits or exits, or until the session returns a [`Stop`], which the
    /// scaffold propagates with `?`.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop>;
}
