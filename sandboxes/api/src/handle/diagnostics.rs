//! Decides whether a sandbox's own content caused its failure or the machine did.

use std::sync::Arc;

use async_trait::async_trait;
use proctor_types::{Fault, Origin};

use super::SandboxHandle;

/// A back end's knowledge about a sandbox that rejects requests or does not respond.
#[async_trait]
pub trait FailureDiagnostics: Send + Sync {
    /// Returns why the kernel killed the sandbox, if the sandbox exceeded one of its own limits.
    async fn kill_reason(&self) -> Option<String>;

    /// Returns whether the sandbox filled its disk. `false` if the sandbox shares the machine's
    /// disk and was within its own limit.
    async fn has_filled_disk(&self) -> bool;
}

/// How a sandbox's content made it fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhaustion {
    /// The sandbox is alive but cannot fulfill the request: no space, no inodes, or a path that is
    /// too long.
    Refused,
    /// The kernel killed it because it ran out of memory.
    Killed,
    /// It did not end a command at its time limit.
    Overdue,
}

impl SandboxHandle {
    /// Sets the diagnostics to consult when the sandbox fails. Only the first call has an effect.
    pub fn set_diagnostics(&self, witness: Arc<dyn FailureDiagnostics>) {
        let _ = self.witness.set(witness);
    }

    /// Returns how the sandbox's content caused this fault, if it did. Call it only once untrusted
    /// content is in the sandbox: before that, a refusal is an ordinary fault.
    ///
    /// `None` means an infrastructure fault: the sandbox is gone and the kernel gives no reason, or
    /// the machine's disk is full.
    pub async fn diagnose_exhaustion(&self, fault: &Fault) -> Option<(Exhaustion, String)> {
        let witness = self.witness.get();
        match fault.origin {
            Origin::Elsewhere => None,
            Origin::Refusal => Some((Exhaustion::Refused, fault.what.clone())),
            Origin::FullDisk => match witness {
                Some(witness) if !witness.has_filled_disk().await => None,
                _ => Some((Exhaustion::Refused, fault.what.clone())),
            },
            Origin::Overdue => Some((Exhaustion::Overdue, fault.what.clone())),
            Origin::Gone => {
                let why = witness?.kill_reason().await?;
                Some((Exhaustion::Killed, format!("{}: {why}", fault.what)))
            }
        }
    }
}
