use proctor_sandbox_api::SandboxError;
use proctor_scaffold_api::Stop;
use proctor_types::{Fault, Layer};

/// How a tool fails. What the model is told and what ends the trial are different types of
/// failure, and no conversion leads from the second to the first.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The model is told and goes on.
    Tell(String),
    /// The call itself could not be read: the model is told, and the call counts as malformed.
    Malformed(String),
    /// The trial ends; the model never sees why.
    Stop(Stop),
}

impl From<Stop> for ToolError {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        let origin = error.origin();
        match error {
            SandboxError::Refused(refusal) => Self::Tell(refusal.what),
            SandboxError::Broken { why } => {
                Self::Stop(Stop::Fault(Fault::new(Layer::Sandbox, why).origin(origin)))
            }
        }
    }
}
