//! The plan of a native sandbox: what the runtime tells `agentd sandbox` before the channel's
//! hello.
//!
//! ```text
//! host  -> helper  length:u32 JSON SandboxLayout     ; big-endian, at most PLAN_LIMIT bytes
//! helper -> host   length:u32 JSON LayoutReport  ; then, if it is `ready`, the channel's grammar
//! ```

use serde::{Deserialize, Serialize};

use crate::{Defence, RawPath};

/// The longest plan or report, in bytes.
pub const PLAN_LIMIT: usize = 1 << 20;

/// Everything that the helper needs to create a native sandbox. Paths are the host's unless stated
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayout {
    /// The `cgroup.procs` files to which the helper adds itself first.
    pub cgroups: Vec<RawPath>,
    /// Lines of `uid_map` and `gid_map`.
    pub ids: IdMap,
    /// Share the host's network: only for trusted set-up.
    pub network: bool,
    /// An existing, empty directory of the host on which the new root is mounted, in the helper's
    /// own mount namespace.
    pub stage: RawPath,
    /// Read-only directories of the root, topmost first; at least one.
    pub lower: Vec<RawPath>,
    /// Where the sandbox's writes go.
    pub upper: Upper,
    /// Parts of the host that are visible, in this order.
    pub binds: Vec<Bind>,
    /// Paths of the sandbox that are covered by something empty, after the binds. Missing ones are
    /// skipped.
    pub covers: Vec<RawPath>,
    /// The host name inside.
    pub hostname: String,
    /// Bytes of `/dev/shm`.
    pub shm_bytes: u64,
    /// `RLIMIT_NPROC`, if no cgroup counts the processes.
    pub process_limit: Option<u64>,
    /// Defences that a test disables.
    #[serde(default)]
    pub without: Vec<Defence>,
}

/// How the sandbox's ids map to the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdMap {
    /// The first 65536 ids, each to itself: file owners are kept, and no capability extends beyond
    /// the sandbox. Requires root.
    Identity,
    /// Root of the sandbox is the caller; there are no other ids.
    Single {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
    },
    /// Root of the sandbox is the caller. The ids from 1 on are the ranges of `/etc/subuid` and
    /// `/etc/subgid`, mapped by `newuidmap` and `newgidmap`.
    Ranges {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
        /// From `/etc/subuid`.
        users: Range,
        /// From `/etc/subgid`.
        groups: Range,
    },
}

/// Consecutive ids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first id.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// A tree of the host that `agentd remove` removes. It reads this as JSON from standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The id map of the sandboxes that wrote the tree.
    pub ids: IdMap,
    /// Absolute, on the host.
    pub path: RawPath,
}

/// Where the sandbox's writes go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Upper {
    /// In memory, with a maximum of bytes and files (0: unlimited). They count towards the
    /// sandbox's memory limit and end with it.
    Memory {
        /// Bytes of content.
        bytes: u64,
        /// Files, directories and links.
        inodes: u64,
    },
    /// Directories of the host on one file system: for layers being built.
    Folder {
        /// Holds what the sandbox wrote.
        upper: RawPath,
        /// The kernel's own working directory for an overlay; empty.
        work: RawPath,
    },
}

/// A read-only view of a host path, with everything mounted below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub from: RawPath,
    /// In the sandbox.
    pub to: RawPath,
    /// A directory of the host that is the upper read-only directory of an overlay over `from`: its
    /// whiteouts hide entries of `from`. Nothing may be mounted below `from` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<RawPath>,
}

impl Bind {
    /// A plain view.
    pub fn new(from: RawPath, to: RawPath) -> Self {
        Self { from, to, marks: None }
    }
}

/// Host paths that a sandbox on a host base does not have: they cannot be opened and are not
/// listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Absent {
    /// Absolute. Missing ones are skipped.
    pub paths: Vec<RawPath>,
    /// Directories that are treated like those of `paths` but lose nothing. A directory that lost
    /// an entry has a different link count and change time than its neighbors; among these decoys
    /// it does not stand out.
    pub decoys: Vec<RawPath>,
}

/// The helper's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutReport {
    /// The sandbox exists; the channel's hello follows. Each note names what could not be done.
    Ready {
        /// One entry per defence or limit that is not enforced.
        notes: Vec<String>,
    },
    /// The sandbox could not be created.
    Failed {
        /// The step that failed.
        step: String,
        /// The kernel's error.
        why: String,
        /// What the operator can do, if known.
        hint: Option<String>,
    },
}
