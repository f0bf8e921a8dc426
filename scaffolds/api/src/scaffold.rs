use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::Mount;
use proctor_types::{ExitCause, SandboxSpec};
use serde_json::{Map, Value};

use crate::{Session, Stop, WrongPrompts};

/// How a scaffold ended its loop by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The work directory is its submission.
    Submitted,
    /// It gave up or ended naturally without a submission.
    Exited {
        /// The category in reports.
        cause: ExitCause,
        /// For the record and the report.
        why: String,
    },
}

impl Finish {
    /// It ended by itself without a submission.
    pub fn exited(why: impl Into<String>) -> Self {
        Self::Exited { cause: ExitCause::Finished, why: why.into() }
    }
}

/// The environment of a user's program: a native sandbox on the host base, without a network.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSandbox {
    /// Host directories that it is lent, read-only.
    pub mounts: Vec<Mount>,
    /// Identifies the content of the mounts.
    pub digest: String,
    /// Its resources.
    pub limits: SandboxSpec,
    /// The program's working directory.
    pub workdir: String,
}

/// An invalid key of `[arms.settings]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongSetting {
    /// The key.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to change.
    pub hint: String,
}

impl WrongSetting {
    /// An error about a key, with its fix.
    pub fn new(key: &str, what: String, hint: &str) -> Self {
        Self { key: key.to_owned(), what, hint: hint.to_owned() }
    }
}

/// The scaffold's sampling defaults, if the model's own settings do not set them. Absent: the
/// endpoint decides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// As in `[models]`.
    pub temperature: Option<f64>,
    /// As in `[models]`.
    pub top_p: Option<f64>,
}

/// The loop. Stateless between trials: all state of a trial is in its session.
#[async_trait]
pub trait Scaffold: Send + Sync {
    /// Its name in configurations.
    fn name(&self) -> &str;

    /// Every prompt text and setting that affects what the model sees: a factor of the arm.
    fn factors(&self) -> Value;

    /// The settings of an arm: `[arms.settings]` over the defaults. A factor of the arm.
    ///
    /// # Errors
    /// An unknown key, or a value of the wrong type.
    fn settings(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, WrongSetting> {
        match given.keys().next() {
            None => Ok(Map::new()),
            Some(key) => Err(WrongSetting {
                key: key.clone(),
                what: format!("the scaffold `{}` has no settings", self.name()),
                hint: "remove the key".into(),
            }),
        }
    }

    /// The same scaffold with the texts of a folder instead of its own (`docs/prompts.md`).
    ///
    /// # Errors
    /// It uses no texts, or the folder cannot be used.
    fn prompted(&self, _folder: &Path) -> Result<Arc<dyn Scaffold>, WrongPrompts> {
        let what = format!("the scaffold `{}` has no prompts", self.name());
        Err(WrongPrompts::new(what, "remove the key"))
    }

    /// Whether an arm with this scaffold names a model.
    fn needs_model(&self) -> bool;

    /// Whether its requests offer tools through function calling, which some models do not support.
    fn needs_tools(&self) -> bool {
        false
    }

    /// Defaults under the model's own settings; they become factors as well.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// For a scaffold whose client runs in a sandbox and calls the model over HTTP: the rules that
    /// distinguish its main conversation from side requests (docs/gateway.md, in the form used in
    /// manifests). Without them there is no model endpoint. It listens in [`Scaffold::own_sandbox`]
    /// if there is one, else in the task's sandbox. `settings` are the arm's, as returned by
    /// [`Scaffold::settings`].
    fn model_endpoint(&self, _settings: &Map<String, Value>) -> Option<Value> {
        None
    }

    /// Host directories that its sandbox is lent, read-only.
    fn mounts(&self) -> Vec<Mount> {
        Vec::new()
    }

    /// For a scaffold whose loop is a user's program: that program's sandbox, separate from the
    /// task's. `settings` are the arm's, as returned by [`Scaffold::settings`].
    ///
    /// # Errors
    /// Why it is unavailable, with a hint.
    fn own_sandbox(
        &self,
        _settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        Ok(None)
    }

    /// How long its client in the sandbox may take to end after [`Session::ending`] resolves.
    /// Without it the loop is dropped immediately.
    fn leave_time(&self) -> Option<Duration> {
        None
    }

    /// Whether its trials can be resumed from their record: its loop is on the host, and repeats
    /// its actions when it receives the recorded responses and the results of
    /// [`Session::recalled`].
    fn goes_on(&self) -> bool {
        false
    }

    /// Why it cannot act as this user of the sandbox (absent: the sandbox's own), with a hint.
    fn refuses_user(&self, _user: Option<&str>) -> Option<(String, String)> {
        None
    }

    /// Whether its client reads its own settings in the task's repository, so that an arm's
    /// `repository_settings` has an effect.
    fn reads_repository_settings(&self) -> bool {
        false
    }

    /// Runs until submission, exit, or a [`Stop`] of the session, which is passed on with `?`.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop>;
}
