//! The plan of a native sandbox: what the runtime tells `agentd sandbox` before the channel's hello.
//!
//! ```text
//! host  -> helper  length:u32 JSON SandboxLayout     ; big-endian, at most PLAN_LIMIT bytes
//! helper -> host   length:u32 JSON LayoutReport  ; then, where it is `ready`, the channel's grammar
//! ```

use serde::{Deserialize, Serialize};

use crate::{Defence, RawPath};

/// The longest plan or report, in bytes.
pub const PLAN_LIMIT: usize = 1 << 20;

/// All that the helper needs to make a native sandbox. Paths are the host's unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayout {
    /// The `cgroup.procs` files that the helper writes itself into before anything else.
    pub cgroups: Vec<RawPath>,
    /// Lines of `uid_map` and `gid_map`.
    pub ids: IdMap,
    /// Share the host's network: for set-up on the trusted side only.
    pub network: bool,
    /// An existing, empty folder of the host that the new root is mounted on, in the helper's own
    /// mount namespace.
    pub stage: RawPath,
    /// Read-only folders of the root, topmost first; at least one.
    pub lower: Vec<RawPath>,
    /// Where the sandbox's writes go.
    pub upper: Upper,
    /// Parts of the host that are shown, in this order.
    pub binds: Vec<Bind>,
    /// Paths of the sandbox that are covered by something empty, after the binds. Missing ones are
    /// passed over.
    pub covers: Vec<RawPath>,
    /// The host name inside.
    pub hostname: String,
    /// Bytes of `/dev/shm`.
    pub shm_bytes: u64,
    /// `RLIMIT_NPROC`, where no cgroup counts the processes.
    pub process_limit: Option<u64>,
    /// Defences that a test takes down.
    #[serde(default)]
    pub without: Vec<Defence>,
}

/// How ids of the sandbox stand for ids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdMap {
    /// The first 65536 ids, each onto itself: file owners survive, and no capability reaches
    /// beyond the sandbox. Needs root.
    Identity,
    /// Root of the sandbox is the caller; no other id exists.
    Single {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
    },
    /// Root of the sandbox is the caller; the ids from 1 on are the ranges that `/etc/subuid` and
    /// `/etc/subgid` give the caller, mapped by `newuidmap` and `newgidmap`.
    Ranges {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
        /// Of `/etc/subuid`.
        users: Range,
        /// Of `/etc/subgid`.
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
    /// The map of the sandboxes that wrote the tree.
    pub ids: IdMap,
    /// Absolute, on the host.
    pub path: RawPath,
}

/// Where the sandbox's writes go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Upper {
    /// Memory, of so many bytes and files (0: any number): they count against the sandbox's memory
    /// limit, and end with it.
    Memory {
        /// Bytes of content.
        bytes: u64,
        /// Files, folders and links.
        inodes: u64,
    },
    /// Folders of the host on one file system: for layers being built.
    Folder {
        /// Holds what the sandbox wrote.
        upper: RawPath,
        /// The kernel's own working folder for an overlay; empty.
        work: RawPath,
    },
}

/// One read-only view of a path of the host, with all that is mounted below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub from: RawPath,
    /// In the sandbox.
    pub to: RawPath,
    /// A folder of the host that is laid over `from` as the upper read-only folder of an overlay: its
    /// white-outs take entries of `from` away. Nothing may be mounted below `from` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<RawPath>,
}

impl Bind {
    /// A plain view.
    pub fn new(from: RawPath, to: RawPath) -> Self {
        Self { from, to, marks: None }
    }
}

/// Paths of the host that a sandbox on a host base does not have: they cannot be opened, and no
/// listing names them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Absent {
    /// Absolute. One that does not exist is passed over.
    pub paths: Vec<RawPath>,
    /// Folders that are treated like the folders of `paths`, and lose nothing. A folder that lost
    /// something has another number of links and time of change than its neighbours; among these it
    /// cannot be told.
    pub decoys: Vec<RawPath>,
}

/// What the helper answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutReport {
    /// The sandbox is made; the channel's hello follows. Each note names what could not be done.
    Ready {
        /// One entry for each defence or limit that does not hold.
        notes: Vec<String>,
    },
    /// The sandbox could not be made.
    Failed {
        /// The step that failed.
        step: String,
        /// The kernel's words.
        why: String,
        /// What the operator can do, where that is known.
        hint: Option<String>,
    },
}
