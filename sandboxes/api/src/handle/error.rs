//! Why a request to a sandbox failed.

use std::fmt;

use proctor_types::{Cause, Fault, Layer, Origin};

use crate::wire::{Refusal, RefusalKind};

/// Why a channel is closed whose agent let a command exceed its time limit.
pub(super) const OVERDUE: &str = "the sandbox agent did not end a command at its time limit";

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxError {
    /// The sandbox works and rejects the request.
    Refused(Refusal),
    /// The sandbox is gone or violated the protocol; every later request fails the same way.
    Broken {
        /// What ended the channel.
        why: String,
    },
}

impl SandboxError {
    /// As a sandbox fault, for callers that treat refusals as faults, too.
    pub fn fault(&self, doing: impl fmt::Display) -> Fault {
        Fault::new(Layer::Sandbox, format!("{doing}: {self}"))
            .cause(self.cause())
            .origin(self.origin())
    }

    fn cause(&self) -> Cause {
        match self.refusal() {
            None => Cause::Gone,
            Some(RefusalKind::NoSpace) => Cause::NoSpace,
            // A temporary error of the kernel.
            Some(RefusalKind::Io | RefusalKind::Cancelled) => Cause::Other,
            Some(_) => Cause::Refused,
        }
    }

    /// The origin of a fault that is made from it.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Refused(refusal) if refusal.why == RefusalKind::NoSpace => Origin::FullDisk,
            Self::Refused(_) => Origin::Refusal,
            Self::Broken { why } if why == OVERDUE => Origin::Overdue,
            Self::Broken { .. } => Origin::Gone,
        }
    }

    /// Whether the sandbox is gone. A refusal leaves it intact.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    /// The kind of refusal, if it is one.
    pub fn refusal(&self) -> Option<RefusalKind> {
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
