use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::Mount;
use proctor_types::{ExitCause, SandboxSpec};
use serde_json::{Map, Value};

use crate::{Session, Stop, WrongPrompts};

/// How a scaffold left its loop by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The work directory is its answer.
    Submitted,
    /// It gave up or came to its natural end without a submission.
    Exited {
        /// What reports count by.
        cause: ExitCause,
        /// For the record and the report.
        why: String,
    },
}

impl Finish {
    /// It came to an end of its own that is no submission.
    pub fn exited(why: impl Into<String>) -> Self {
        Self::Exited { cause: ExitCause::Finished, why: why.into() }
    }
}

/// What a program of a user's runs in: a native sandbox on the host's base, without a network.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSandbox {
    /// Folders of the host that it is lent, read-only.
    pub mounts: Vec<Mount>,
    /// Names what the mounts hold.
    pub digest: String,
    /// The resources that it gets.
    pub limits: SandboxSpec,
    /// The folder in which the program starts.
    pub workdir: String,
}

/// A key of `[arms.settings]` that cannot stand there.
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
    /// Names what is wrong with a key, and what to change.
    pub fn new(key: &str, what: String, hint: &str) -> Self {
        Self { key: key.to_owned(), what, hint: hint.to_owned() }
    }
}

/// What a scaffold samples with where the model's own settings do not say it. Absent: the endpoint decides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// As in `[models]`.
    pub temperature: Option<f64>,
    /// As in `[models]`.
    pub top_p: Option<f64>,
}

/// The loop. Stateless between trials: everything of a trial lives in its session.
#[async_trait]
pub trait Scaffold: Send + Sync {
    /// The name that configurations use.
    fn name(&self) -> &str;

    /// Every prompt text and setting that shapes what the model sees: a factor of the arm.
    fn factors(&self) -> Value;

    /// The settings of an arm, `[arms.settings]` with defaults laid under it: a factor of the arm.
    ///
    /// # Errors
    /// A key that the scaffold does not take, or a value of the wrong type.
    fn settings(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, WrongSetting> {
        match given.keys().next() {
            None => Ok(Map::new()),
            Some(key) => Err(WrongSetting {
                key: key.clone(),
                what: format!("the scaffold `{}` takes no settings", self.name()),
                hint: "take the key away".into(),
            }),
        }
    }

    /// The same with the texts of a folder in the place of its own (`docs/prompts.md`).
    ///
    /// # Errors
    /// It shows no texts, or the folder cannot be used.
    fn prompted(&self, _folder: &Path) -> Result<Arc<dyn Scaffold>, WrongPrompts> {
        let what = format!("the scaffold `{}` has no prompts", self.name());
        Err(WrongPrompts::new(what, "take the key away"))
    }

    /// Whether an arm of this scaffold names a model.
    fn needs_model(&self) -> bool;

    /// Whether its requests offer tools by function calling, which some models do not take.
    fn needs_tools(&self) -> bool {
        false
    }

    /// What is laid under the model's own settings: from there on a factor like them.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// For a scaffold whose client runs in a sandbox and speaks to the model over HTTP: the rules by
    /// which its main conversation is told from side requests (docs/gateway.md, in the form that
    /// manifests have). Without them there is no such proxy. It listens in [`Scaffold::own_sandbox`], where
    /// there is one, else in the task's. `settings` are the arm's, as [`Scaffold::settings`] gave them.
    fn model_endpoint(&self, _settings: &Map<String, Value>) -> Option<Value> {
        None
    }

    /// Folders of the host that its sandbox is lent, read-only.
    fn mounts(&self) -> Vec<Mount> {
        Vec::new()
    }

    /// For a scaffold whose loop is a program of a user's: the sandbox in which that program runs, apart from the
    /// task's. `settings` are the arm's, as [`Scaffold::settings`] gave them.
    ///
    /// # Errors
    /// Why it cannot be had, with a hint.
    fn own_sandbox(
        &self,
        _settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        Ok(None)
    }

    /// How long its client inside the sandbox may take to end once [`Session::ending`] has come. Without
    /// it the loop is dropped where it stands.
    fn leave_time(&self) -> Option<Duration> {
        None
    }

    /// Whether a trial of it can go on from its record: its loop is on the host, and does the same again when it is
    /// given the recorded answers and what [`Session::recalled`] says.
    fn goes_on(&self) -> bool {
        false
    }

    /// Why it cannot act as this user of the sandbox (absent: the sandbox's own), with a hint.
    fn refuses_user(&self, _user: Option<&str>) -> Option<(String, String)> {
        None
    }

    /// Whether it drives a client that reads settings of its own in the task's repository, so that
    /// `repository_settings` of an arm has an effect.
    fn reads_repository_settings(&self) -> bool {
        false
    }

    /// Runs until submission, exit, or a [`Stop`] of the session, which is passed on with `?`.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop>;
}
