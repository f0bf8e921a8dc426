//! Whose doing it is that a sandbox failed: its content's, within its limits, or the machine's.

use std::sync::Arc;

use async_trait::async_trait;
use proctor_types::{Fault, Origin};

use super::SandboxHandle;

/// What a back end can tell of a sandbox that refuses, or answers nothing any more.
#[async_trait]
pub trait Witness: Send + Sync {
    /// Why the kernel ended the sandbox, where it did so to hold one of the sandbox's own limits.
    async fn killed(&self) -> Option<String>;

    /// Whether a disk that is full was filled by the sandbox. Where it shares the machine's disk, the
    /// machine may have run out of space while the sandbox was within its limit.
    async fn filled_its_disk(&self) -> bool;
}

/// What the content of a sandbox did to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The sandbox is alive and cannot do what was asked: no space, no inode, a path too long.
    Refused,
    /// The kernel ended it because it ran out of memory.
    Killed,
    /// It did not end a command that had reached its time limit.
    Overdue,
}

impl SandboxHandle {
    /// Says who can tell why the sandbox ended. The first one stays.
    pub fn set_witness(&self, witness: Arc<dyn Witness>) {
        let _ = self.witness.set(witness);
    }

    /// Whether the content of the sandbox caused this fault, and how. Only to be asked once untrusted
    /// content is in the sandbox: before that a refusal is a fault like any other.
    ///
    /// `None` is an infrastructure fault: the sandbox is gone and the kernel gives no reason, or the
    /// machine's disk is full.
    pub async fn exhausted(&self, fault: &Fault) -> Option<(Exhausted, String)> {
        let witness = self.witness.get();
        match fault.origin {
            Origin::Elsewhere => None,
            Origin::Refusal => Some((Exhausted::Refused, fault.what.clone())),
            Origin::FullDisk => match witness {
                Some(witness) if !witness.filled_its_disk().await => None,
                _ => Some((Exhausted::Refused, fault.what.clone())),
            },
            Origin::Overdue => Some((Exhausted::Overdue, fault.what.clone())),
            Origin::Gone => {
                let why = witness?.killed().await?;
                Some((Exhausted::Killed, format!("{}: {why}", fault.what)))
            }
        }
    }
}
