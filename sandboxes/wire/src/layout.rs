//! The layout of a native sandbox, which the runtime sends to `agentd sandbox` before the channel's
//! hello.
//!
//! ```text
//! host  -> helper  length:u32 JSON SandboxLayout     ; big-endian, at most MAX_LAYOUT_BYTES
//! helper -> host   length:u32 JSON LayoutReport  ; then, if it is `ready`, the channel's grammar
//! ```

use serde::{Deserialize, Serialize};

use crate::{Defence, RawPath};

/// Maximum length of a layout or report, in bytes.
pub const MAX_LAYOUT_BYTES: usize = 1 << 20;

/// Everything that the helper needs to create a native sandbox. Paths are on the host unless stated
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayout {
    /// The `cgroup.procs` files of the groups that the helper joins first.
    pub cgroups: Vec<RawPath>,
    /// Lines of `uid_map` and `gid_map`.
    pub ids: IdMap,
    /// Shares the host's network; for trusted set-up only.
    pub network: bool,
    /// An existing, empty host directory where the new root is mounted, in the helper's own mount
    /// namespace.
    pub stage: RawPath,
    /// Read-only directories of the root, topmost first; at least one.
    pub lower: Vec<RawPath>,
    /// Where writes in the sandbox go.
    pub upper: UpperLayer,
    /// Parts of the host to bind-mount, in this order.
    pub binds: Vec<BindMount>,
    /// Paths in the sandbox to cover with something empty after the binds. Missing ones are
    /// skipped.
    pub covers: Vec<RawPath>,
    /// The host name in the sandbox.
    pub hostname: String,
    /// Size of `/dev/shm` in bytes.
    pub shm_bytes: u64,
    /// `RLIMIT_NPROC`, used if no cgroup limits the number of processes.
    pub process_limit: Option<u64>,
    /// Defences that a test has disabled.
    #[serde(default)]
    pub without: Vec<Defence>,
}

/// How the sandbox's ids map to the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdMap {
    /// Maps the first 65536 ids to themselves: file owners are preserved, and no capability extends
    /// beyond the sandbox. Requires root.
    Identity,
    /// Maps the sandbox's root to the caller. No other ids exist.
    Single {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
    },
    /// Maps the sandbox's root to the caller, and ids from 1 on to the ranges in `/etc/subuid` and
    /// `/etc/subgid`, with `newuidmap` and `newgidmap`.
    Ranges {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
        /// From `/etc/subuid`.
        users: IdRange,
        /// From `/etc/subgid`.
        groups: IdRange,
    },
}

/// A range of host ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    /// The first id.
    pub first: u32,
    /// Number of ids.
    pub count: u32,
}

/// A host tree for `agentd remove` to delete, sent as JSON on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The id map of the sandboxes that wrote to the tree.
    pub ids: IdMap,
    /// Absolute host path.
    pub path: RawPath,
}

/// Where writes in the sandbox go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpperLayer {
    /// In memory, with a limit of bytes and files (0: unlimited). Writes count towards the
    /// sandbox's memory limit and are lost when it ends.
    Memory {
        /// Bytes of content.
        bytes: u64,
        /// Files, directories and links.
        inodes: u64,
    },
    /// In host directories on one file system. Used to build layers.
    Folder {
        /// Receives what the sandbox writes.
        upper: RawPath,
        /// Work directory of the overlay file system; must be empty.
        work: RawPath,
    },
}

/// A read-only bind mount of a host path, including everything mounted below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindMount {
    /// Path on the host.
    pub from: RawPath,
    /// Path in the sandbox.
    pub to: RawPath,
    /// A host directory that is overlaid read-only on `from`. Its whiteouts hide entries of `from`.
    /// Nothing may be mounted below `from` in this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<RawPath>,
}

impl BindMount {
    /// Creates a bind without whiteouts.
    pub fn new(from: RawPath, to: RawPath) -> Self {
        Self { from, to, marks: None }
    }
}

/// Host paths to hide in a sandbox with a host base. They cannot be opened and are not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HiddenPaths {
    /// Absolute host paths. Missing ones are skipped.
    pub paths: Vec<RawPath>,
    /// Directories that are remounted like the parents of `paths` but lose no entry. A directory
    /// that lost an entry has a different link count and change time than its neighbors. The decoys
    /// keep it from standing out.
    pub decoys: Vec<RawPath>,
}

/// The helper's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutReport {
    /// The sandbox exists; the channel's hello follows.
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
        /// What the operator can do about it, if known.
        hint: Option<String>,
    },
}
