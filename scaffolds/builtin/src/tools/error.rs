use proctor_sandbox_api::SandboxError;
use proctor_scaffold_api::Stop;
use proctor_types::{Fault, Layer};

/// How a tool fails. Failures that the model sees and failures that end the trial are separate
/// variants, and the latter are never converted to the former.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The model receives the message and the trial continues.
    Tell(String),
    /// The call itself could not be parsed. The model receives the message, and the call counts as
    /// malformed.
    Malformed(String),
    /// The trial ends. The model never sees the reason.
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
