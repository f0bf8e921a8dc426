//! Why a request to a sandbox failed.

use std::fmt;

use proctor_types::{Fault, FaultCause, FaultLayer, FaultOrigin};

use crate::wire::{Refusal, RefusalKind};

/// The reason why the channel closes if the agent lets a command exceed its time limit.
pub(super) const TIME_LIMIT_IGNORED: &str =
    "the sandbox agent did not end a command at its time limit";

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxError {
    /// The sandbox works but rejected the request.
    Refused(Refusal),
    /// The sandbox is gone or violated the protocol. Every later request fails with the same error.
    Broken {
        /// What closed the channel.
        reason: String,
    },
}

impl SandboxError {
    /// Converts the error to a sandbox fault, for callers that treat a refusal as a fault.
    pub fn to_fault(&self, operation: impl fmt::Display) -> Fault {
        Fault::new(FaultLayer::Sandbox, format!("{operation}: {self}"))
            .cause(self.cause())
            .origin(self.origin())
    }

    fn cause(&self) -> FaultCause {
        match self.refusal_kind() {
            None => FaultCause::Gone,
            Some(RefusalKind::NoSpace) => FaultCause::NoSpace,
            // The kernel error may be temporary.
            Some(RefusalKind::Io | RefusalKind::Cancelled) => FaultCause::Other,
            Some(_) => FaultCause::Refused,
        }
    }

    /// Returns the origin to set in a fault that is created from this error.
    pub fn origin(&self) -> FaultOrigin {
        match self {
            Self::Refused(refusal) if refusal.why == RefusalKind::NoSpace => {
                FaultOrigin::SandboxDiskFull
            }
            Self::Refused(_) => FaultOrigin::SandboxRejection,
            Self::Broken { reason: why } if why == TIME_LIMIT_IGNORED => {
                FaultOrigin::CommandTimeout
            }
            Self::Broken { .. } => FaultOrigin::SandboxGone,
        }
    }

    /// Returns whether the sandbox is gone. After a refusal, the sandbox still works.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    /// Returns the kind of refusal; `None` if the error is not a refusal.
    pub fn refusal_kind(&self) -> Option<RefusalKind> {
        match self {
            Self::Refused(refusal) => Some(refusal.why),
            Self::Broken { .. } => None,
        }
    }

    pub(crate) fn from_reason(reason: impl Into<String>) -> Self {
        Self::Broken { reason: reason.into() }
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.what),
            Self::Broken { reason: why } => write!(f, "the sandbox is gone: {why}"),
        }
    }
}

impl std::error::Error for SandboxError {}
