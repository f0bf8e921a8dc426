//! The host's requests and the agent's replies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RawPath, ScanReply, ScanRequest};

/// A request from the host, sent as the body of an open frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Runs a command. Its output arrives as data on the channels; the reply is [`Reply::Exited`].
    Run(RunRequest),
    /// Reads a file. The bytes starting at `offset` arrive on `STDOUT`; the reply is
    /// [`Reply::File`]. The agent rejects the request as too large if more than `limit` bytes
    /// remain.
    Read {
        /// An absolute path, or one that is relative to `/`.
        path: RawPath,
        /// The first byte to send, counted from 0.
        offset: u64,
        /// The maximum number of bytes to send.
        limit: u64,
    },
    /// Writes a file. The host sends the bytes on `STDIN`, followed by an end frame; the reply is
    /// [`Reply::Done`].
    Write(WriteRequest),
    /// Creates a directory if it does not exist. Also sets the permission bits of an existing
    /// directory. The reply is [`Reply::Done`].
    Folder(CreateDirRequest),
    /// Lists the entries of a directory, sorted by name; the reply is [`Reply::Entries`].
    List {
        /// The directory.
        path: RawPath,
    },
    /// Describes one entry without following links; the reply is [`Reply::Stat`].
    Stat {
        /// The path of the entry.
        path: RawPath,
    },
    /// Removes a file, a link or a directory tree, without following links; the reply is
    /// [`Reply::Done`].
    Remove {
        /// The path to remove. A missing path is not an error.
        path: RawPath,
        /// If set, the agent rejects the request unless the path is below this directory.
        beneath: Option<RawPath>,
    },
    /// Finds matching lines or files; the reply is [`Reply::Matches`].
    Search(SearchRequest),
    /// Captures the changes since the last snapshot of `root`; the reply is [`Reply::Snapshot`].
    /// Contents that were not yet sent over this connection arrive on `STDOUT` as `length:u64,
    /// bytes`. Their hashes are in the manifest.
    Snapshot(SnapshotRequest),
    /// Lists what changed below `root` after a given time; the reply is a snapshot without content.
    Changes(ChangesRequest),
    /// Captures what changed outside the work directory since the agent started; the reply is
    /// [`Reply::Layer`]. Contents arrive on `STDOUT`, like those of a snapshot. A [`LayerDiff`]
    /// arrives on `RESULTS` as JSON, unless the reply says that nothing has changed.
    Layer(LayerRequest),
    /// Scans for hidden content; the reply is [`Reply::Scan`]. The host sends the
    /// [`crate::Secrets`] on `STDIN` as JSON, followed by an end frame.
    Scan(ScanRequest),
    /// Listens on 127.0.0.1:`port`; the reply is [`Reply::Listening`]. The agent opens a stream for
    /// each connection with an accepted frame. The listener exists until the channel closes.
    Listen {
        /// The port in the sandbox; 0 means any free port.
        port: u16,
    },
    /// Checks that the agent responds; the reply is [`Reply::Pong`].
    Ping,
    /// Kills everything in the sandbox and exits.
    Shutdown,
}

/// A command to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The program and its arguments as bytes. A shell command is `["/bin/sh", "-c", command]`.
    pub argv: Vec<RawPath>,
    /// The working directory.
    pub cwd: RawPath,
    /// The command's complete environment. It inherits no variables from the agent.
    pub env: BTreeMap<String, RawPath>,
    /// Whether the host sends data for standard input. Otherwise, standard input is empty.
    pub stdin: bool,
    /// Whether to open the results pipe as the command's descriptor 3.
    pub results: bool,
    /// The time limit in milliseconds. When it is reached, the agent kills every process of the
    /// command, including those that left the process group.
    pub time_limit_ms: Option<u64>,
    /// The user who runs the command: a numeric `uid` or `uid:gid`, or a name from the sandbox's
    /// `/etc/passwd`.
    pub user: Option<String>,
    /// Whether to kill every process left in the sandbox when the command exits, instead of only
    /// its process group. Used for grading.
    pub reap_all: bool,
    /// The program to run if the first argument does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<RawPath>,
    /// Whether to use a single pipe for both output streams. With two pipes, the order of writes is
    /// lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

/// A file or link to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// The path of the file or link.
    pub path: RawPath,
    /// The permission bits. If absent, an existing file keeps its mode, and a new file gets 0644.
    pub mode: Option<u32>,
    /// Whether to create missing parent directories.
    pub parents: bool,
    /// If set, the agent rejects the request unless the path is below this directory and no link on
    /// the way leads out of it.
    pub beneath: Option<RawPath>,
    /// Whether to create a symbolic link instead of a file. The bytes sent are the link's target.
    pub symlink: bool,
    /// Whether to append the bytes instead of replacing the file.
    pub append: bool,
    /// The owner of a new file or link, and of directories created for it, in the same form as
    /// [`RunRequest::user`]. Defaults to the sandbox's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A directory to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateDirRequest {
    /// The path of the directory. Missing parents are created.
    pub path: RawPath,
    /// Permission bits.
    pub mode: u32,
    /// Like [`WriteRequest::beneath`].
    pub beneath: Option<RawPath>,
    /// Like [`WriteRequest::owner`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A search for files, or for lines in files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// The directory, or single file, to search.
    pub root: RawPath,
    /// A regular expression that lines must match. If absent, the reply lists the files that match
    /// `glob`.
    pub pattern: Option<String>,
    /// A glob pattern for the files to search. It must match their path below `root`.
    pub glob: Option<String>,
    /// Whether to ignore case.
    pub ignore_case: bool,
    /// Whether to skip files that `.gitignore` and `.ignore` exclude.
    pub honour_ignore: bool,
    /// Maximum number of matches.
    pub limit: u32,
}

/// A request to capture the content of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    /// The directory to capture.
    pub root: RawPath,
    /// Whether to ignore earlier snapshots and send a complete manifest.
    pub fresh: bool,
    /// Names of directories that are never walked, such as `.git`.
    pub skip: Vec<RawPath>,
    /// Maximum size of a captured file in bytes. Larger files are listed with their size but
    /// without content.
    pub file_limit: u64,
    /// Maximum number of entries, after which the walk stops. A single directory may use at most
    /// half of them.
    pub entry_limit: u64,
    /// After this many bytes of content, the agent only sends small files. After twice as many, it
    /// sends no content. Other files are listed without content. 0 means no limit.
    pub content_limit: u64,
}

/// A request for every entry whose change time (`ctime`) is later than `since`. A program can set a
/// file's other times, but not its change time. The agent reads no file contents, and snapshots are
/// not affected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangesRequest {
    /// The directory to check.
    pub root: RawPath,
    /// The time, in the same form as [`DirEntry::changed`].
    pub since: ChangeTime,
    /// Names of directories that are never walked.
    pub skip: Vec<RawPath>,
    /// Maximum number of entries. The agent rejects the request if there are more.
    pub entry_limit: u64,
}

/// A request to capture a sandbox's state outside its work directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRequest {
    /// Whether to set the current state as the baseline and report no changes. Sent just before the
    /// agent under test starts.
    pub fresh: bool,
    /// The work directory. Snapshots cover it, except for the `repositories` in it.
    pub workdir: RawPath,
    /// Directories in the work directory that its snapshots do not walk: every `.git`, as an
    /// absolute path.
    pub repositories: Vec<RawPath>,
    /// Whether the host sends a [`ContainerDiff`] as JSON on `STDIN`, followed by an end frame. If
    /// not, the agent itself lists what was written.
    pub listed: bool,
    /// Maximum size of a file in bytes. A layer with a larger file cannot be captured.
    pub file_limit: u64,
    /// Maximum total size of contents in bytes. A larger layer cannot be captured.
    pub content_limit: u64,
    /// Maximum number of entries. A layer with more entries cannot be captured.
    pub entry_limit: u64,
    /// Whether to capture only files, for a result that is graded but not continued. If not, live
    /// processes, changed mounts, pipes and sockets make a capture impossible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files_alone: bool,
}

/// What was written in a container since it was created, according to the container engine. Paths
/// are absolute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerDiff {
    /// Entries that were added or changed.
    pub paths: Vec<RawPath>,
    /// Entries of the image that were deleted. If a directory in this list exists, it was replaced.
    pub gone: Vec<RawPath>,
}

/// What changed outside a sandbox's work directory since the agent started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerDiff {
    /// Entries that were added or changed, sorted by path.
    pub changed: Vec<LayerEntry>,
    /// Entries that were removed, sorted by path. A directory that is also in `changed` was
    /// replaced, and none of its old content remains.
    pub removed: Vec<RawPath>,
}

/// One entry of a [`LayerDiff`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEntry {
    /// The entry. Its path is relative to `/`.
    pub entry: SnapshotEntry,
    /// The owner's user id.
    pub uid: u32,
    /// The owner's group id.
    pub gid: u32,
}

/// Seconds and nanoseconds since the epoch, by the sandbox's clock.
pub type ChangeTime = (i64, u64);

/// The agent's reply, sent as the body of a reply frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reply {
    /// The command ended.
    Exited(CommandExit),
    /// The file was sent completely.
    File {
        /// Size of the whole file in bytes.
        size: u64,
        /// Permission bits.
        mode: u32,
    },
    /// The request succeeded.
    Done,
    /// The entries of the directory, sorted by name.
    Entries {
        /// The entries, without `.` and `..`.
        entries: Vec<DirEntry>,
    },
    /// The entry, or `None` if it does not exist.
    Stat {
        /// The entry. If it is a link, this is the link itself.
        found: Option<DirEntry>,
    },
    /// The matches, and whether there are more beyond the limit.
    Matches {
        /// The matches, at most as many as the request allows.
        matches: Vec<Match>,
        /// Whether there are more matches than the limit.
        more: bool,
    },
    /// What changed in the tree.
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
        /// Number of processes in the sandbox, not counting the agent.
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
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Whether the command was killed at its time limit.
    pub timed_out: bool,
    /// Whether the command was killed because the host cancelled the request.
    pub cancelled: bool,
    /// How long the command ran, in microseconds.
    pub took_us: u64,
    /// Number of processes that were left, and killed, when the command exited: in the command's
    /// group, or in the whole sandbox if `reap_all` is set.
    pub left_behind: u32,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// The entry's name, without the directory.
    pub name: RawPath,
    /// The entry's type.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes, if the entry is a file.
    pub size: u64,
    /// The target as stored in the link, if the entry is a symbolic link.
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
    /// A socket, a pipe or a device. These are listed but never read.
    Other,
}

/// One match of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Path relative to the root of the search.
    pub path: RawPath,
    /// The line's number, counted from 1; 0 if the request had no pattern.
    pub line: u64,
    /// The line, without its line break.
    pub text: String,
}

/// What changed in a tree since the last snapshot of the same root over this channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReply {
    /// Entries that were added or changed, sorted by path. If the changes are too large for the
    /// reply, this list and `removed` are empty. Then all changes arrive on `RESULTS` as JSON
    /// lines, directory by directory: an object is an entry, and a string is a removed path.
    pub changed: Vec<SnapshotEntry>,
    /// Paths that were removed.
    pub removed: Vec<RawPath>,
    /// Directories that were not walked completely. What the last snapshot contains below them
    /// counts as unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwalked: Vec<RawPath>,
    /// Number of entries walked.
    pub entries: u64,
    /// How long the snapshot took, in microseconds.
    pub took_us: u64,
}

/// The reply to a [`LayerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerReply {
    /// Whether the layer is the same as in the previous reply. If so, it is not sent again.
    pub same: bool,
    /// The reason why another sandbox could not restore this state. If set, the layer is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<String>,
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// The entry's path, relative to the root.
    pub path: RawPath,
    /// The entry's type.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes, if the entry is a file.
    pub size: u64,
    /// BLAKE3 hash, in hex, of the file's content or the link's target. Absent if the content was
    /// not captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The target as stored in the link, if the entry is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RawPath>,
}

/// The body of an accepted frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedConnection {
    /// The listener's port.
    pub port: u16,
}

/// Why the agent rejected a request. The sandbox still works. If the sandbox itself is broken, the
/// channel closes instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, for programs.
    pub why: RefusalKind,
    /// The reason, for people. Names the path or the limit.
    pub what: String,
}

/// Why the agent rejected a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The path does not exist.
    NotFound,
    /// The agent or the task's user lacks a permission.
    Permission,
    /// The path is a directory, but a file was expected.
    IsADirectory,
    /// The path is not a directory, but a directory was expected.
    NotADirectory,
    /// The path leads outside the required directory.
    Outside,
    /// The request exceeds one of its own limits or a limit of the protocol.
    TooLarge,
    /// There is no space left, or there are no inodes left.
    NoSpace,
    /// The request is invalid, such as a bad pattern or an unknown user.
    BadRequest,
    /// The host cancelled the request.
    Cancelled,
    /// Any other error from the kernel.
    Io,
}
