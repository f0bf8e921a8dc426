use proctor_sandbox_api::SandboxError;
use proctor_scaffold_api::Stop;
use proctor_types::{Fault, Layer};

/// How a tool fails. Failures that the model sees and failures that end the trial have different
/// types, and the second cannot be converted to the first.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The model receives the message and continues.
    Tell(String),
    /// The call itself could not be parsed: the model receives the message, and the call counts as
    /// malformed.
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
