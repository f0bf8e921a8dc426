//! Decides whether a failure was caused by the sandbox's own content or by the machine.

use std::sync::Arc;

use async_trait::async_trait;
use proctor_types::{Fault, FaultOrigin};

use super::SandboxHandle;

/// What a back end knows about a sandbox that rejects requests or does not respond.
#[async_trait]
pub trait FailureDiagnostics: Send + Sync {
    /// Returns the reason if the kernel killed the sandbox because it exceeded one of its own
    /// limits.
    async fn kill_reason(&self) -> Option<String>;

    /// Returns whether the sandbox filled its disk. Returns `false` if the sandbox shares the
    /// machine's disk and was within its own limit.
    async fn has_filled_disk(&self) -> bool;
}

/// How a sandbox's own content made a request fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhaustion {
    /// The sandbox is alive but cannot fulfill the request: it has no space or no inodes left, or a
    /// path is too long.
    Refused,
    /// The kernel killed the sandbox because it ran out of memory.
    Killed,
    /// The sandbox did not end a command at its time limit.
    Overdue,
}

impl SandboxHandle {
    /// Sets the back end's diagnostics for this sandbox. Only the first call has an effect.
    pub fn set_diagnostics(&self, diagnostics: Arc<dyn FailureDiagnostics>) {
        let _ = self.diagnostics.set(diagnostics);
    }

    /// If the sandbox's own content caused this fault, returns how. Call this method only once
    /// untrusted content is in the sandbox: before that, a refusal is an ordinary fault.
    ///
    /// Returns `None` for an infrastructure fault: the sandbox is gone and the kernel reports no
    /// reason, or the machine's disk is full.
    pub async fn diagnose_exhaustion(&self, fault: &Fault) -> Option<(Exhaustion, String)> {
        let witness = self.diagnostics.get();
        match fault.origin {
            FaultOrigin::OutsideSandbox => None,
            FaultOrigin::SandboxRejection => Some((Exhaustion::Refused, fault.what.clone())),
            FaultOrigin::SandboxDiskFull => match witness {
                Some(witness) if !witness.has_filled_disk().await => None,
                _ => Some((Exhaustion::Refused, fault.what.clone())),
            },
            FaultOrigin::CommandTimeout => Some((Exhaustion::Overdue, fault.what.clone())),
            FaultOrigin::SandboxGone => {
                let why = witness?.kill_reason().await?;
                Some((Exhaustion::Killed, format!("{}: {why}", fault.what)))
            }
        }
    }
}
