//! The defences of a sandbox that a test can take down, one by one.

use serde::{Deserialize, Serialize};

/// A defence. All of them are up, always: a test names one that is left out, to show that the attack
/// it stops succeeds without it, and the sandbox's enforcement lists it as not enforced then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defence {
    /// The agent has a user of its own, whom nobody in the sandbox can become.
    AgentIdentity,
    /// The agent's memory and descriptors are closed to everybody.
    NotDumpable,
    /// No program gains a privilege by being started.
    NoNewPrivileges,
    /// Commands cannot signal what is not theirs.
    KillCapability,
    /// The list of denied system calls and the list of socket families.
    SystemCalls,
    /// What `/proc` tells about the machine is covered.
    CoveredProc,
    /// The number of files is limited.
    Inodes,
    /// Shared memory and message queues do not outlive their processes.
    SharedMemory,
    /// Watches and terminals, which the whole machine shares, are rationed.
    Rations,
    /// No core dumps.
    CoreDumps,
    /// A sandbox whose processes leave the agent no place is freed of what finished commands left.
    Eviction,
}

impl Defence {
    /// Every defence, in the order of the type.
    pub const ALL: [Self; 11] = [
        Self::AgentIdentity,
        Self::NotDumpable,
        Self::NoNewPrivileges,
        Self::KillCapability,
        Self::SystemCalls,
        Self::CoveredProc,
        Self::Inodes,
        Self::SharedMemory,
        Self::Rations,
        Self::CoreDumps,
        Self::Eviction,
    ];

    /// Its name on a command line and in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentIdentity => "agent_identity",
            Self::NotDumpable => "not_dumpable",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::KillCapability => "kill_capability",
            Self::SystemCalls => "system_calls",
            Self::CoveredProc => "covered_proc",
            Self::Inodes => "inodes",
            Self::SharedMemory => "shared_memory",
            Self::Rations => "rations",
            Self::CoreDumps => "core_dumps",
            Self::Eviction => "eviction",
        }
    }

    /// The defence of a name, for the agent's command line.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|defence| defence.name() == name)
    }
}
