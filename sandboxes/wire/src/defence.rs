//! The defences of a sandbox, each of which a test can disable.

use serde::{Deserialize, Serialize};

/// A defence. All of them are always active. A test disables one to show that its attack succeeds
/// without it; the sandbox's enforcement then lists it as not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defence {
    /// The agent has its own user, which nothing in the sandbox can become.
    AgentIdentity,
    /// The agent's memory and descriptors are inaccessible to all users.
    NotDumpable,
    /// Starting a program never gains privileges.
    NoNewPrivileges,
    /// Commands cannot signal processes that are not theirs.
    KillCapability,
    /// The list of denied system calls and the list of socket families.
    SystemCalls,
    /// Information about the machine in `/proc` is hidden.
    CoveredProc,
    /// The number of files is limited.
    Inodes,
    /// Shared memory and message queues do not outlive their processes.
    SharedMemory,
    /// Watches and terminals, which the whole machine shares, are limited.
    Rations,
    /// No core dumps.
    CoreDumps,
    /// If a sandbox's processes leave no room for the agent, leftovers of finished commands are
    /// killed.
    Eviction,
}

impl Defence {
    /// Every defence, in declaration order.
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

    /// The defence with this name, for the agent's command line.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|defence| defence.name() == name)
    }
}
