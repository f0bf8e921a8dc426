//! The choice of a sandbox back end.

use clap::ValueEnum;
use proctor_types::SandboxKind;

/// A sandbox back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SandboxArg {
    /// Linux namespaces on this machine. Does not need Docker.
    Native,
    /// A Docker engine.
    Docker,
}

impl From<SandboxArg> for SandboxKind {
    fn from(kind: SandboxArg) -> Self {
        match kind {
            SandboxArg::Native => Self::Native,
            SandboxArg::Docker => Self::Docker,
        }
    }
}
