//! The layout of a native sandbox. The runtime sends it to `agentd sandbox` before the hellos.
//!
//! ```text
//! host  -> helper  length:u32 JSON SandboxLayout     ; big-endian, at most MAX_LAYOUT_BYTES
//! helper -> host   length:u32 JSON LayoutReport  ; then, if it is `ready`, the channel's grammar
//! ```

use serde::{Deserialize, Serialize};

use crate::{Defense, RawPath};

/// Maximum length of a layout or report, in bytes.
pub const MAX_LAYOUT_BYTES: usize = 1 << 20;

/// What the helper needs to create a native sandbox. Paths are host paths unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayout {
    /// The `cgroup.procs` files of the cgroups that the helper joins first.
    pub cgroups: Vec<RawPath>,
    /// How the sandbox's ids map to the host's.
    pub ids: IdMap,
    /// Whether the sandbox shares the host's network. For trusted setup commands only.
    pub network: bool,
    /// An existing, empty directory on the host. The helper mounts the new root there, in its own
    /// mount namespace.
    pub stage: RawPath,
    /// The read-only directories that make up the root, topmost first. There is at least one.
    pub lower: Vec<RawPath>,
    /// Where to store what the sandbox writes.
    pub upper: UpperLayer,
    /// Host paths to bind-mount, in this order.
    pub binds: Vec<BindMount>,
    /// Paths in the sandbox to cover with an empty file or directory, after the bind mounts.
    /// Missing paths are skipped.
    pub covers: Vec<RawPath>,
    /// The host name that programs in the sandbox see.
    pub hostname: String,
    /// Size of `/dev/shm` in bytes.
    pub shm_bytes: u64,
    /// The value of `RLIMIT_NPROC`. Set only if no cgroup limits the number of processes.
    pub process_limit: Option<u64>,
    /// Defenses that a test has disabled.
    #[serde(default)]
    pub without: Vec<Defense>,
}

/// How the sandbox's ids map to the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdMap {
    /// Maps the first 65536 ids to themselves. Files keep their owners, and no capability has an
    /// effect outside the sandbox. Requires root.
    Identity,
    /// Maps the sandbox's root to the caller. No other ids exist.
    Single {
        /// The caller's user id.
        uid: u32,
        /// The caller's group id.
        gid: u32,
    },
    /// Maps the sandbox's root to the caller, and ids from 1 on to the caller's ranges in
    /// `/etc/subuid` and `/etc/subgid`. Requires `newuidmap` and `newgidmap`.
    Ranges {
        /// The caller's user id.
        uid: u32,
        /// The caller's group id.
        gid: u32,
        /// The caller's range in `/etc/subuid`.
        users: IdRange,
        /// The caller's range in `/etc/subgid`.
        groups: IdRange,
    },
}

/// A range of ids on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    /// The first id.
    pub first: u32,
    /// Number of ids.
    pub count: u32,
}

/// A directory tree on the host that `agentd remove` is to delete. Sent as JSON on the agent's
/// standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The id map of the sandboxes that wrote to the tree.
    pub ids: IdMap,
    /// Absolute path on the host.
    pub path: RawPath,
}

/// Where to store what the sandbox writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpperLayer {
    /// In memory, with limits on bytes and files (0 means no limit). Writes count toward the
    /// sandbox's memory limit and are lost when the sandbox ends.
    Memory {
        /// Maximum total size of file contents in bytes.
        bytes: u64,
        /// Maximum number of files, directories and links.
        inodes: u64,
    },
    /// In directories on the host, which must be on the same file system. Used to build layers.
    Folder {
        /// The directory for what the sandbox writes.
        upper: RawPath,
        /// The overlay's work directory, which must be empty.
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
    /// A host directory with whiteouts, which hide entries of `from`. It is overlaid on `from`, and
    /// the result is read-only. In this case, nothing may be mounted below `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<RawPath>,
}

impl BindMount {
    /// Creates a bind mount without whiteouts.
    pub fn new(source: RawPath, target: RawPath) -> Self {
        Self { from: source, to: target, marks: None }
    }
}

/// Host paths to hide in sandboxes with a host base. In the sandbox, they cannot be opened and are
/// not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HiddenPaths {
    /// Absolute host paths. Missing ones are skipped.
    pub paths: Vec<RawPath>,
    /// Directories that are also remounted, although none of their entries is hidden. Hiding an
    /// entry changes a directory's link count and change time. Because of the decoys, such a
    /// directory does not stand out from its neighbors.
    pub decoys: Vec<RawPath>,
}

/// The helper's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutReport {
    /// The sandbox exists. The agent's hello follows.
    Ready {
        /// One entry for each defense or limit that is not enforced.
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
