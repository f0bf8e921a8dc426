//! The defenses of a sandbox, each of which a test can disable.

use serde::{Deserialize, Serialize};

/// A defense. All defenses are active unless a test disables some to show that an attack then
/// succeeds. The sandbox lists disabled defenses as not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defense {
    /// The agent has its own user, and nothing in the sandbox can become that user.
    AgentIdentity,
    /// The agent's memory and descriptors are inaccessible to all users.
    NotDumpable,
    /// Executing a program never gains privileges.
    NoNewPrivileges,
    /// Commands cannot signal other users' processes.
    KillCapability,
    /// The denylist of system calls and the allowlist of socket families.
    SystemCalls,
    /// Files in `/proc` that reveal information about the machine are hidden.
    CoveredProc,
    /// The number of files is limited.
    Inodes,
    /// Shared memory and message queues do not outlive their processes.
    SharedMemory,
    /// inotify watches and terminals are limited, because the whole machine shares them.
    Rations,
    /// Core dumps are disabled.
    CoreDumps,
    /// If a sandbox's processes leave the agent no resources, it kills the leftover processes of
    /// finished commands.
    Eviction,
}

impl Defense {
    /// Every defense, in declaration order.
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

    /// Returns the defense's name for the command line and the run record.
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

    /// Parses a defense's name, as given on the agent's command line.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|defense| defense.name() == name)
    }
}
