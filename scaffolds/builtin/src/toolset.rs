//! The tools of the scaffold `tools`, for a loop that is none of this crate's.

use proctor_scaffold_api::{Scaffold, Session, Stop};
use proctor_types::{ToolCall, ToolSpec};
use serde_json::Value;

use crate::{
    PromptError,
    tools::{Called, Toolbox, Tools},
};

/// What a model is told of the tools, and what they answer: the same as in the scaffold `tools`.
#[derive(Debug)]
pub struct ToolSet(Tools);

/// The tools of one trial.
pub struct OpenTools(Toolbox);

impl ToolSet {
    /// # Errors
    /// The prompts that Proctor was built with do not load, which a test rules out.
    pub fn load() -> Result<Self, PromptError> {
        Tools::load(None).map(Self)
    }

    /// As the model is told of them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.specs()
    }

    /// All that shapes what the model sees of them.
    pub fn factors(&self) -> Value {
        self.0.factors()
    }

    /// The tools of a trial. What they remember lives as long as this value.
    pub fn open(&self, session: &dyn Session) -> OpenTools {
        OpenTools(self.0.toolbox(session))
    }
}

impl OpenTools {
    /// Records the call, runs it, records what came of it.
    ///
    /// # Errors
    /// The trial is over. A call that fails is a result.
    pub async fn call(
        &mut self,
        session: &mut dyn Session,
        call: &ToolCall,
    ) -> Result<Called, Stop> {
        self.0.call(session, call).await
    }
}
