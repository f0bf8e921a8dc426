//! The tools of the scaffold `tools`, for agent loops outside this crate.

use proctor_scaffold_api::{Scaffold, Session, Stop};
use proctor_types::{ToolCall, ToolSpec};
use serde_json::Value;

use crate::{
    PromptError,
    tools::{ToolCallResult, Toolbox, Tools},
};

/// The descriptions and implementations of the tools, the same as in the scaffold `tools`.
#[derive(Debug)]
pub struct ToolSet(Tools);

/// The tools of one trial.
pub struct OpenTools(Toolbox);

impl ToolSet {
    /// # Errors
    /// Returns an error if the built-in prompts are invalid, which a test rules out.
    pub fn load() -> Result<Self, PromptError> {
        Tools::load(None).map(Self)
    }

    /// Returns the tools' descriptions for the model.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.specs()
    }

    /// Returns everything about the tools that affects what the model sees.
    pub fn factors(&self) -> Value {
        self.0.factors()
    }

    /// Creates the tools of one trial. Their state lives as long as the returned value.
    pub fn open(&self, session: &dyn Session) -> OpenTools {
        OpenTools(self.0.toolbox(session))
    }
}

impl OpenTools {
    /// Records the call, runs it, and records its result.
    ///
    /// # Errors
    /// Returns an error if the trial is over. A failed call is a normal result.
    pub async fn call(
        &mut self,
        session: &mut dyn Session,
        call: &ToolCall,
    ) -> Result<ToolCallResult, Stop> {
        self.0.call(session, call).await
    }
}
