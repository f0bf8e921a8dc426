//! Why a request to a sandbox failed.

use std::fmt;

use proctor_types::{Cause, Fault, Layer, Origin};

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
        why: String,
    },
}

impl SandboxError {
    /// Converts the error to a sandbox fault, for callers to whom a refusal is also a fault.
    pub fn to_fault(&self, doing: impl fmt::Display) -> Fault {
        Fault::new(Layer::Sandbox, format!("{doing}: {self}"))
            .cause(self.cause())
            .origin(self.origin())
    }

    fn cause(&self) -> Cause {
        match self.refusal_kind() {
            None => Cause::Gone,
            Some(RefusalKind::NoSpace) => Cause::NoSpace,
            // The kernel error may be temporary.
            Some(RefusalKind::Io | RefusalKind::Cancelled) => Cause::Other,
            Some(_) => Cause::Refused,
        }
    }

    /// Returns the origin to set in a fault that is created from this error.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Refused(refusal) if refusal.why == RefusalKind::NoSpace => Origin::FullDisk,
            Self::Refused(_) => Origin::Refusal,
            Self::Broken { why } if why == TIME_LIMIT_IGNORED => Origin::Overdue,
            Self::Broken { .. } => Origin::Gone,
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

    pub(crate) fn broken(why: impl Into<String>) -> Self {
        Self::Broken { why: why.into() }
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.what),
            Self::Broken { why } => write!(f, "the sandbox is gone: {why}"),
        }
    }
}

impl std::error::Error for SandboxError {}
