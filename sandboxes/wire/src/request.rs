//! The host's requests and the agent's replies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RawPath, ScanReply, ScanRequest};

/// A host request, sent as the body of an open frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Runs a command. Output arrives as data on the channels; the reply is [`Reply::Exited`].
    Run(RunRequest),
    /// Reads a file. The bytes from `offset` on arrive on `STDOUT`; the reply is [`Reply::File`].
    /// Rejected as too large if more than `limit` bytes remain.
    Read {
        /// Absolute, or relative to `/`.
        path: RawPath,
        /// The first byte to send, counted from 0.
        offset: u64,
        /// The maximum number of bytes from `offset` on.
        limit: u64,
    },
    /// Writes a file. The bytes arrive on `STDIN`, ended by an end frame; the reply is
    /// [`Reply::Done`].
    Write(WriteRequest),
    /// Creates a directory if it does not exist. Sets its permission bits in either case. The reply
    /// is [`Reply::Done`].
    Folder(CreateDirRequest),
    /// Lists the entries of a directory, sorted.
    List {
        /// The directory.
        path: RawPath,
    },
    /// Describes one entry without following links; the reply is [`Reply::Stat`].
    Stat {
        /// The entry.
        path: RawPath,
    },
    /// Removes a file, a link or a directory tree. Never follows a link.
    Remove {
        /// The path to remove. A missing path is not an error.
        path: RawPath,
        /// Rejects the request unless the path stays below this directory.
        beneath: Option<RawPath>,
    },
    /// Finds matching lines or files; the reply is [`Reply::Matches`].
    Search(SearchRequest),
    /// Captures the changes since the last snapshot of `root`. The blobs arrive on `STDOUT` as
    /// `length:u64, bytes`, once per content and connection. Their hashes are in the manifest.
    Snapshot(SnapshotRequest),
    /// Lists what changed below `root` after a given time; the reply is a snapshot without content.
    Changes(ChangesRequest),
    /// Captures what changed outside the work directory since the agent started; the reply is
    /// [`Reply::Layer`]. Contents arrive on `STDOUT` like those of a snapshot. A [`LayerDiff`] arrives
    /// on `RESULTS` as JSON, unless the reply says that it is unchanged.
    Layer(LayerRequest),
    /// Scans for hidden content. The [`crate::Secrets`] arrive on `STDIN` as JSON, ended by an end
    /// frame.
    Scan(ScanRequest),
    /// Listens on 127.0.0.1:`port` (0: any); each connection becomes an accepted stream. The reply
    /// is [`Reply::Listening`]; the listener lives as long as the channel.
    Listen {
        /// The port in the sandbox.
        port: u16,
    },
    /// Checks that the agent responds; the reply is [`Reply::Pong`].
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
    /// The command's complete environment. It inherits nothing from the agent.
    pub env: BTreeMap<String, RawPath>,
    /// Whether data for standard input follows. Otherwise standard input is empty.
    pub stdin: bool,
    /// Opens the results pipe as descriptor 3 of the command.
    pub results: bool,
    /// The time limit in milliseconds. When it is reached, the agent kills every process of the
    /// command, even one that left the process group.
    pub time_limit_ms: Option<u64>,
    /// A numeric `uid` or `uid:gid`, or a name in the sandbox's `/etc/passwd`.
    pub user: Option<String>,
    /// Kills every process left in the sandbox when the command exits, not only its process group.
    /// Used for grading.
    pub reap_all: bool,
    /// Program to run if the first argument does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<RawPath>,
    /// Uses a single pipe for both outputs. With two pipes the order of writes is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

/// A file or link to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// The path.
    pub path: RawPath,
    /// Permission bits. If absent, an existing file keeps its mode and a new file gets 0644.
    pub mode: Option<u32>,
    /// Creates missing parent directories.
    pub parents: bool,
    /// Rejects the request unless the path resolves below this directory without following a link
    /// out of it.
    pub beneath: Option<RawPath>,
    /// Creates a symbolic link whose target is the bytes sent, instead of a file.
    pub symlink: bool,
    /// Appends the bytes instead of replacing the file.
    pub append: bool,
    /// The owner of a new file or link and of directories created for it, in the form of
    /// [`RunRequest::user`]. Defaults to the sandbox's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A directory to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateDirRequest {
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
    /// A regular expression for lines. If absent, files that match `glob` are listed.
    pub pattern: Option<String>,
    /// Searches only files whose path below `root` matches this pattern.
    pub glob: Option<String>,
    /// Ignores case.
    pub ignore_case: bool,
    /// Applies `.gitignore` and `.ignore`.
    pub honour_ignore: bool,
    /// Maximum number of matches.
    pub limit: u32,
}

/// A request for the content of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    /// The directory.
    pub root: RawPath,
    /// Ignores earlier snapshots and sends a complete manifest.
    pub fresh: bool,
    /// Names of directories that are never walked (such as `.git`).
    pub skip: Vec<RawPath>,
    /// Larger files are listed with their size but without content.
    pub file_limit: u64,
    /// Stops walking after this many entries. A single directory may use at most half of them.
    pub entry_limit: u64,
    /// After this many bytes of content, only small files are sent. After twice as many, no content
    /// is sent. Other files are listed without content. 0 means no limit.
    pub content_limit: u64,
}

/// A request for every entry whose change time (`ctime`) is later than `since`. A program can set a
/// file's other times, but not this one. File contents are not read, and snapshots are not
/// affected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangesRequest {
    /// The directory.
    pub root: RawPath,
    /// Time in the form of [`DirEntry::changed`].
    pub since: ChangeTime,
    /// Names of directories that are never walked.
    pub skip: Vec<RawPath>,
    /// Rejects the request above this number of entries.
    pub entry_limit: u64,
}

/// A request for the state of a sandbox outside its work directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRequest {
    /// Sets the current state as the baseline and reports no changes. Sent just before the agent
    /// under test starts.
    pub fresh: bool,
    /// The work directory. Snapshots cover it, except for `repositories`.
    pub workdir: RawPath,
    /// Directories in the work directory that its snapshots do not walk: every `.git`. Absolute.
    pub repositories: Vec<RawPath>,
    /// Whether the host sends a [`ContainerDiff`] as JSON on `STDIN`, ended by an end frame. Otherwise
    /// the agent lists the writable layer itself.
    pub listed: bool,
    /// Maximum size of a file in bytes. A layer with a larger file cannot be captured.
    pub file_limit: u64,
    /// Maximum bytes of content. A larger layer cannot be captured.
    pub content_limit: u64,
    /// Maximum number of entries. A layer with more entries cannot be captured.
    pub entry_limit: u64,
    /// Captures only files, for results that are graded but not continued. Otherwise, live
    /// processes, mounts, pipes and sockets make a capture impossible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files_alone: bool,
}

/// What was written in a container since its creation, according to its engine. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerDiff {
    /// Entries that were added or changed.
    pub paths: Vec<RawPath>,
    /// Deleted entries of the image. A directory that exists again was replaced.
    pub gone: Vec<RawPath>,
}

/// The differences outside a sandbox's work directory since its agent started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerDiff {
    /// Entries that are new or changed, sorted by path.
    pub changed: Vec<LayerEntry>,
    /// Entries that were removed, sorted by path. A directory that is also in `changed` was
    /// replaced; none of its old content remains.
    pub removed: Vec<RawPath>,
}

/// One entry of a [`LayerDiff`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEntry {
    /// The entry. Its path is relative to `/`.
    pub entry: SnapshotEntry,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Seconds and nanoseconds since the epoch, by the sandbox's clock.
pub type ChangeTime = (i64, u64);

/// The agent's reply, sent as the body of a reply frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reply {
    /// A command ended.
    Exited(CommandExit),
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
    /// The entry, or `None` if it does not exist.
    Stat {
        /// The entry itself, without following links.
        found: Option<DirEntry>,
    },
    /// The matches, and whether there are more beyond the limit.
    Matches {
        /// At most as many as the request allows.
        matches: Vec<Match>,
        /// Whether there are more matches than are shown.
        more: bool,
    },
    /// What changed in a tree.
    Snapshot(SnapshotReply),
    /// What changed outside the work directory.
    Layer(LayerReply),
    /// The result of a scan for hidden content.
    Scan(ScanReply),
    /// The listener's port.
    Listening {
        /// The port in the sandbox, chosen by the kernel if the request had 0.
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
pub struct CommandExit {
    /// The exit code, if the command exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was killed at its time limit.
    pub timed_out: bool,
    /// Whether it was killed because the host cancelled the request.
    pub cancelled: bool,
    /// Duration in microseconds.
    pub took_us: u64,
    /// Number of processes left in the command's group, or in the sandbox if `reap_all` is set.
    pub left_behind: u32,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Name without the directory.
    pub name: RawPath,
    /// Its type.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Size of a file in bytes.
    pub size: u64,
    /// The target of a symbolic link, as written.
    pub link: Option<RawPath>,
    /// Change time (`ctime`).
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
    /// A socket, pipe or device: listed but never read.
    Other,
}

/// One match of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Path relative to the root of the search.
    pub path: RawPath,
    /// Line number, counted from 1; 0 if only the file name matched.
    pub line: u64,
    /// The line, without its line break.
    pub text: String,
}

/// The changes in a tree since the last snapshot of the same root on this channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReply {
    /// Changed entries, sorted by path. If they are too large for the reply, they arrive on
    /// `RESULTS` as JSON lines, directory by directory, and this list is empty. If `removed` is too
    /// large as well, it follows as lines with JSON strings.
    pub changed: Vec<SnapshotEntry>,
    /// Removed paths.
    pub removed: Vec<RawPath>,
    /// Directories that were not walked completely. Entries of the last snapshot below them count
    /// as unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwalked: Vec<RawPath>,
    /// Number of entries walked.
    pub entries: u64,
    /// Duration in microseconds.
    pub took_us: u64,
}

/// The reply to a [`LayerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerReply {
    /// Whether the layer equals the previous reply's. It is then not sent again.
    pub same: bool,
    /// Why this state cannot be restored in another sandbox. The layer is then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<String>,
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Path relative to the root.
    pub path: RawPath,
    /// Its type.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Size of a file in bytes.
    pub size: u64,
    /// BLAKE3 hash of the content or the link target, in hex; absent for files above the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The target of a symbolic link, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RawPath>,
}

/// The body of an accepted frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedConnection {
    /// The listener's port.
    pub port: u16,
}

/// Why a request was rejected. The sandbox still works; a broken sandbox closes the stream instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Machine-readable kind.
    pub why: RefusalKind,
    /// Human-readable sentence that names the path or the limit.
    pub what: String,
}

/// Why a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The path does not exist.
    NotFound,
    /// The agent or the task's user lacks permission.
    Permission,
    /// The path is a directory where a file was expected.
    IsADirectory,
    /// The path is not a directory where one was expected.
    NotADirectory,
    /// The path leads out of its required directory.
    Outside,
    /// A limit of the request or the protocol is exceeded.
    TooLarge,
    /// No space or no inodes are left.
    NoSpace,
    /// The request is invalid, such as a bad pattern or an unknown user.
    BadRequest,
    /// The host cancelled the request.
    Cancelled,
    /// Any other kernel error.
    Io,
}
