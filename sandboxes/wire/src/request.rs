//! The host's requests and the agent's replies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RawPath, ScanReply, ScanRequest};

/// A request of the host, the body of an open frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Output arrives as data on the channels; the reply is [`Reply::Exited`].
    Run(RunRequest),
    /// The bytes from `offset` on arrive on `STDOUT`; the reply is [`Reply::File`]. Rejected as too
    /// large if there are more than `limit`.
    Read {
        /// Absolute, or relative to `/`.
        path: RawPath,
        /// The first byte to send, counted from 0.
        offset: u64,
        /// The maximum number of bytes from `offset` on.
        limit: u64,
    },
    /// The bytes arrive on `STDIN`, ended by an end frame; the reply is [`Reply::Done`].
    Write(WriteRequest),
    /// Creates a directory if it does not exist, and sets its permission bits in either case; the
    /// reply is [`Reply::Done`].
    Folder(FolderRequest),
    /// Entries of a directory, sorted.
    List {
        /// The directory.
        path: RawPath,
    },
    /// One entry, without following links; the reply is [`Reply::Stat`].
    Stat {
        /// The entry.
        path: RawPath,
    },
    /// Removes a file, a link, or a directory tree; never follows a link.
    Remove {
        /// The path to remove. A missing path is not an error.
        path: RawPath,
        /// Reject the request unless the path stays below this directory.
        beneath: Option<RawPath>,
    },
    /// Lines that match, or files; the reply is [`Reply::Matches`].
    Search(SearchRequest),
    /// Changes since the last snapshot of `root`. The blobs arrive on `STDOUT` as
    /// `length:u64, bytes` each, once per content and connection. Their hashes are in the manifest.
    Snapshot(SnapshotRequest),
    /// Lists what changed below `root` after a moment; the reply is a snapshot without content.
    Changes(ChangesRequest),
    /// Captures what changed outside the work directory since the agent started; the reply is
    /// [`Reply::Layer`]. Contents arrive on `STDOUT` like those of a snapshot. A [`Layer`] arrives
    /// on `RESULTS` as JSON, unless the reply says that it is unchanged.
    Layer(LayerRequest),
    /// Scans for hidden content. The [`crate::Secrets`] arrive on `STDIN` as JSON, ended by an end
    /// frame.
    Scan(ScanRequest),
    /// Listens on 127.0.0.1:`port` (0: any); each connection becomes an accepted stream. The reply
    /// is [`Reply::Listening`]; the listener lives as long as the channel.
    Listen {
        /// The port inside.
        port: u16,
    },
    /// Whether the agent responds; the reply is [`Reply::Pong`].
    Ping,
    /// Kills everything in the sandbox and exits.
    Shutdown,
}

/// One command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Arguments as bytes; a shell line is `["/bin/sh", "-c", line]`.
    pub argv: Vec<RawPath>,
    /// The working directory.
    pub cwd: RawPath,
    /// The complete environment of the command: nothing is inherited from the agent.
    pub env: BTreeMap<String, RawPath>,
    /// Without it, standard input is empty.
    pub stdin: bool,
    /// Opens the results pipe as descriptor 3 of the command.
    pub results: bool,
    /// In milliseconds. When it is reached the whole process group is killed.
    pub time_limit_ms: Option<u64>,
    /// Numeric, `uid` or `uid:gid`, or a name of the sandbox's `/etc/passwd`.
    pub user: Option<String>,
    /// Kill every process that the command left in the sandbox when it exits, not only its process
    /// group: for grading.
    pub reap_all: bool,
    /// The program to run in place of the first argument if that does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<RawPath>,
    /// Give the command one pipe for both outputs. Two pipes lose the order of writes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

/// A file or link to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// The path.
    pub path: RawPath,
    /// Permission bits. Absent: an existing file keeps its own, a new one gets 0644.
    pub mode: Option<u32>,
    /// Create missing parent directories.
    pub parents: bool,
    /// The path must resolve below this directory without following any link that leads out of it.
    pub beneath: Option<RawPath>,
    /// Create a symbolic link whose target is the bytes sent, instead of a file.
    pub symlink: bool,
    /// Append the bytes instead of replacing the file.
    pub append: bool,
    /// The owner of a new file or link and of directories created for it, like
    /// [`RunRequest::user`]. Absent: the sandbox's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A directory to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderRequest {
    /// The path. Missing parents are created.
    pub path: RawPath,
    /// Permission bits.
    pub mode: u32,
    /// Like [`WriteRequest::beneath`].
    pub beneath: Option<RawPath>,
    /// Like [`WriteRequest::owner`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A search through files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// The directory, or the single file, to search.
    pub root: RawPath,
    /// A regular expression over lines; absent: list the files that match `glob`.
    pub pattern: Option<String>,
    /// Only files whose path below `root` matches this.
    pub glob: Option<String>,
    /// Match letters of either case.
    pub ignore_case: bool,
    /// Apply `.gitignore` and `.ignore`.
    pub honour_ignore: bool,
    /// Maximum number of matches.
    pub limit: u32,
}

/// Requests the content of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    /// The directory.
    pub root: RawPath,
    /// Forget what was sent before and send a complete manifest.
    pub fresh: bool,
    /// Names of directories that are never walked (such as `.git`).
    pub skip: Vec<RawPath>,
    /// Larger files are listed with their size and without content.
    pub file_limit: u64,
    /// Stop walking after this many entries; one directory may contain half of them.
    pub entry_limit: u64,
    /// After this many bytes of content only small files are sent, and after twice as many none;
    /// the others are listed without content. 0 means no limit.
    pub content_limit: u64,
}

/// Requests every entry whose change time (`ctime`) is later than `since`. A program can reset a
/// file's other times, but not this one. Nothing is read, and no snapshot is affected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangesRequest {
    /// The directory.
    pub root: RawPath,
    /// In the form of [`DirEntry::changed`].
    pub since: ChangeTime,
    /// Names of directories that are never walked.
    pub skip: Vec<RawPath>,
    /// Reject the request above this many entries.
    pub entry_limit: u64,
}

/// Requests the state of a sandbox outside its work directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRequest {
    /// The agent is about to start: remember the present state, and report no changes.
    pub fresh: bool,
    /// The work directory. Its own snapshots cover it, except for `repositories`.
    pub workdir: RawPath,
    /// Directories in the work directory that its snapshots do not walk: every `.git`. Absolute.
    pub repositories: Vec<RawPath>,
    /// The host sends a [`Written`] as JSON on `STDIN`, ended by an end frame. Otherwise the agent
    /// lists the writable layer itself.
    pub listed: bool,
    /// The state cannot be kept if a file is larger, in bytes.
    pub file_limit: u64,
    /// The state cannot be kept with more content, in bytes.
    pub content_limit: u64,
    /// The state cannot be kept with more entries.
    pub entry_limit: u64,
    /// Only files count: for a result that is graded and not continued. Otherwise, live processes,
    /// mounts, pipes and sockets prevent a state from being kept. With this they are ignored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files_alone: bool,
}

/// What a container wrote since it was created, according to its engine. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Entries that were added or changed.
    pub paths: Vec<RawPath>,
    /// Entries of the image that were deleted. A directory that exists again was replaced.
    pub gone: Vec<RawPath>,
}

/// The differences outside a sandbox's work directory since its agent started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Entries that are new or changed, sorted by path.
    pub changed: Vec<LayerEntry>,
    /// Entries that were removed, sorted by path. A directory that is also in `changed` was
    /// replaced: none of its old content is in it.
    pub removed: Vec<RawPath>,
}

/// One entry of a [`Layer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEntry {
    /// The entry. Its path is relative to `/`.
    pub entry: SnapEntry,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Seconds and nanoseconds since the epoch, by the sandbox's clock.
pub type ChangeTime = (i64, u64);

/// A reply of the agent, the body of a reply frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reply {
    /// A command ended.
    Exited(Exited),
    /// A file was sent completely.
    File {
        /// Size of the whole file in bytes.
        size: u64,
        /// Permission bits.
        mode: u32,
    },
    /// Success.
    Done,
    /// The entries of a directory, sorted by name.
    Entries {
        /// Without `.` and `..`.
        entries: Vec<DirEntry>,
    },
    /// The entry, or `None` if there is none.
    Stat {
        /// The entry itself, without following links.
        found: Option<DirEntry>,
    },
    /// The matches, and whether there are more beyond the limit.
    Matches {
        /// At most as many as the request allows.
        matches: Vec<Match>,
        /// There are more.
        more: bool,
    },
    /// What changed in a tree.
    Snapshot(SnapshotReply),
    /// What changed outside the work directory.
    Layer(LayerReply),
    /// The result of a scan for hidden content.
    Scan(ScanReply),
    /// The port that the listener uses.
    Listening {
        /// The port inside, chosen by the kernel if the request had 0.
        port: u16,
    },
    /// The agent responds.
    Pong {
        /// Number of processes in the sandbox, without the agent.
        processes: u64,
        /// The agent's resident memory in KiB.
        agent_rss_kb: u64,
    },
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The exit code, if the command exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It was killed at its time limit.
    pub timed_out: bool,
    /// It was killed because the host cancelled the request.
    pub cancelled: bool,
    /// Microseconds.
    pub took_us: u64,
    /// Number of processes left in the command's group or, with `reap_all`, in the sandbox.
    pub left_behind: u32,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Its name, without a directory.
    pub name: RawPath,
    /// Its type.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// The target of a symbolic link, as written.
    pub link: Option<RawPath>,
    /// Its change time (`ctime`).
    #[serde(default)]
    pub changed: ChangeTime,
}

/// The type of an entry. Links are never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// Sockets, pipes, devices: listed, never read.
    Other,
}

/// One match of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Below the root of the search.
    pub path: RawPath,
    /// Counted from 1; 0 if only the file matched.
    pub line: u64,
    /// The line, without its line break.
    pub text: String,
}

/// The differences of a tree from the last snapshot of the same root on this channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReply {
    /// Sorted by path. A change that is too large for the reply arrives on `RESULTS` as JSON lines,
    /// directory by directory, and `changed` is then empty. If `removed` is too large as well, it
    /// follows as lines with JSON strings.
    pub changed: Vec<SnapEntry>,
    /// Removed paths.
    pub removed: Vec<RawPath>,
    /// Directories that were not walked completely. What the last snapshot found below them counts
    /// as unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwalked: Vec<RawPath>,
    /// Number of entries walked.
    pub entries: u64,
    /// Microseconds.
    pub took_us: u64,
}

/// The reply to a [`LayerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerReply {
    /// The layer equals the previous reply's and is not sent again.
    pub same: bool,
    /// Why the same state could not be restored in another sandbox. The layer is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<String>,
}

/// One path of a tree: relative to the root, sorted by bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapEntry {
    /// Relative to the root.
    pub path: RawPath,
    /// Its type.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// BLAKE3 of the content in hex, or of a link's target; absent above the file limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The target of a symbolic link, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RawPath>,
}

/// The body of an accepted frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The listener's port.
    pub port: u16,
}

/// Why a request was rejected. The sandbox still works; a broken sandbox ends the stream instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One of a closed set, for programs.
    pub why: RefusalKind,
    /// A sentence that names the path or the limit, for people.
    pub what: String,
}

/// Why a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// There is no such path.
    NotFound,
    /// The agent or the task's user lacks permission.
    Permission,
    /// A file was expected, but it is a directory.
    IsADirectory,
    /// A directory was expected, but it is something else.
    NotADirectory,
    /// A path leads out of its required directory.
    Outside,
    /// A limit of the request or of the protocol is exceeded.
    TooLarge,
    /// No space or no inodes are left.
    NoSpace,
    /// The request is invalid: a bad pattern, an unknown user.
    BadRequest,
    /// The host cancelled the request.
    Cancelled,
    /// Any other error of the kernel.
    Io,
}
