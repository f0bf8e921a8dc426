//! The tools of the scaffold `tools`, for agent loops in other crates.

use proctor_scaffold_api::{Scaffold, Session, Stop};
use proctor_types::{ToolCall, ToolSpec};
use serde_json::Value;

use crate::{
    PromptError,
    tools::{ToolCallResult, Toolbox, Tools},
};

/// The tools of the scaffold `tools`, with the same descriptions and implementations.
#[derive(Debug)]
pub struct ToolSet(Tools);

/// The tools of one trial.
pub struct TrialTools(Toolbox);

impl ToolSet {
    /// # Errors
    /// Fails if the built-in prompts are invalid. A test makes sure that they aren't.
    pub fn load() -> Result<Self, PromptError> {
        Tools::load(None).map(Self)
    }

    /// Returns each tool's name, description and schema for the model.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.specs()
    }

    /// Returns everything about the tools that affects what the model sees.
    pub fn factors(&self) -> Value {
        self.0.factors()
    }

    /// Creates the tools for one trial. Their state exists as long as the returned value.
    pub fn open(&self, session: &dyn Session) -> TrialTools {
        TrialTools(self.0.toolbox(session))
    }
}

impl TrialTools {
    /// Records the call, runs it, and records the result.
    ///
    /// # Errors
    /// Fails if the trial is over. A failed call is a normal result.
    pub async fn call(
        &mut self,
        session: &mut dyn Session,
        call: &ToolCall,
    ) -> Result<ToolCallResult, Stop> {
        self.0.call(session, call).await
    }
}
