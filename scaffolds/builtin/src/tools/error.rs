use proctor_sandbox_api::SandboxError;
use proctor_scaffold_api::Stop;
use proctor_types::{Fault, FaultLayer};

/// How a tool fails. A failure that the model sees and a failure that ends the trial are separate
/// variants. The second is never converted to the first.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The model receives the message, and the trial continues.
    Tell(String),
    /// The call could not be parsed. The model receives the message, and the call counts as
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
            SandboxError::Broken { reason: why } => {
                Self::Stop(Stop::Fault(Fault::new(FaultLayer::Sandbox, why).origin(origin)))
            }
        }
    }
}
