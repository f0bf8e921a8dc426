use async_trait::async_trait;
use serde_json::Value;

use crate::{Session, Stop};

/// How a scaffold left its loop by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The work directory is its answer.
    Submitted,
    /// It gave up or came to its natural end without a submission.
    Exited {
        /// For the record and the report.
        why: String,
    },
}

/// The loop. Stateless between trials: everything of a trial lives in its session.
#[async_trait]
pub trait Scaffold: Send + Sync {
    /// The name that configurations use.
    fn name(&self) -> &'static str;

    /// Every prompt text and setting that shapes what the model sees: a factor of the arm.
    fn factors(&self) -> Value;

    /// Whether an arm of this scaffold names a model.
    fn needs_model(&self) -> bool;

    /// Whether its requests offer tools by function calling, which some models do not take.
    fn needs_tools(&self) -> bool {
        false
    }

    /// For a scaffold whose client runs in the sandbox and speaks to the model over HTTP: the rules by
    /// which its main conversation is told from side requests (docs/gateway.md, in the form that
    /// manifests have). Without them there is no such proxy.
    fn model_endpoint(&self) -> Option<Value> {
        None
    }

    /// Runs until submission, exit, or a [`Stop`] of the session, which is passed on with `?`.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop>;
}
