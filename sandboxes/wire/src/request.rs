//! What the host asks and what the agent answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RawPath, ScanReply, ScanRequest};

/// What the host asks, the body of an open frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Output arrives as data on the channels; the reply is [`Reply::Exited`].
    Run(RunRequest),
    /// The bytes from `offset` on arrive on `STDOUT`; the reply is [`Reply::File`]. Refused as too
    /// large where they are more than `limit`.
    Read {
        /// Absolute, or relative to `/`.
        path: RawPath,
        /// The first byte that is sent, counted from 0.
        offset: u64,
        /// The most bytes that may be left from `offset` on.
        limit: u64,
    },
    /// The bytes are sent on `STDIN`, ended by an end frame; the reply is [`Reply::Done`].
    Write(WriteRequest),
    /// Makes a folder where there is none, and gives it its permission bits either way; the reply is
    /// [`Reply::Done`].
    Folder(FolderRequest),
    /// Entries of one folder, sorted.
    List {
        /// The folder.
        path: RawPath,
    },
    /// One entry, links not followed; the reply is [`Reply::Stat`].
    Stat {
        /// The entry.
        path: RawPath,
    },
    /// Removes a file, a link, or a folder with all below it; never follows a link.
    Remove {
        /// What to remove. Nothing there is no error.
        path: RawPath,
        /// Refuse the request unless the path stays below this folder.
        beneath: Option<RawPath>,
    },
    /// Lines that match, or files; the reply is [`Reply::Matches`].
    Search(SearchRequest),
    /// Changes since the last snapshot of `root`; the blobs arrive on `STDOUT` as
    /// `length:u64, bytes` each, once per content and connection. Their hashes are in the manifest.
    Snapshot(SnapshotRequest),
    /// Lists what changed below `root` after a moment; answered as a snapshot without content.
    Changes(ChangesRequest),
    /// Takes what changed outside the work directory since the agent started; the reply is
    /// [`Reply::Layer`]. Contents arrive on `STDOUT` as those of a snapshot do, and a [`Layer`] arrives on
    /// `RESULTS` as JSON unless the reply says that it is the same as before.
    Layer(LayerRequest),
    /// Looks for hidden content; the [`crate::Secrets`] are sent on `STDIN` as JSON, ended by an
    /// end frame.
    Scan(ScanRequest),
    /// Listens on 127.0.0.1:`port` (0: any); each connection comes out as an accepted stream.
    /// Answered by [`Reply::Listening`]; the listener lives as long as the channel.
    Listen {
        /// The port inside.
        port: u16,
    },
    /// Whether the agent answers; the reply is [`Reply::Pong`].
    Ping,
    /// Kills everything in the sandbox and exits.
    Shutdown,
}

/// One command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Arguments as bytes; a shell line is `["/bin/sh", "-c", line]`.
    pub argv: Vec<RawPath>,
    /// The folder that it starts in.
    pub cwd: RawPath,
    /// The whole environment of the command: nothing is inherited from the agent.
    pub env: BTreeMap<String, RawPath>,
    /// Without it, standard input is empty.
    pub stdin: bool,
    /// Opens the results pipe as descriptor 3 of the command.
    pub results: bool,
    /// Milliseconds. At the limit the whole process group is killed.
    pub time_limit_ms: Option<u64>,
    /// Numeric, `uid` or `uid:gid`, or a name of the sandbox's `/etc/passwd`.
    pub user: Option<String>,
    /// Kill every process that the command left behind in the sandbox when it exits, not only its
    /// process group: for grading.
    pub reap_all: bool,
}

/// One file or link to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// Where.
    pub path: RawPath,
    /// Permission bits. Absent: a file that exists keeps its own, a new one gets 0644.
    pub mode: Option<u32>,
    /// Make missing parent folders.
    pub parents: bool,
    /// The path must resolve below this folder without following any link that leads out of it.
    pub beneath: Option<RawPath>,
    /// Make a symbolic link whose target is the bytes sent, instead of a file.
    pub symlink: bool,
    /// Add the bytes to the end of the file instead of replacing it.
    pub append: bool,
    /// Whose a file or link is that was not there before, and the folders that are made for it: as
    /// [`RunRequest::user`]. Absent: the sandbox's root's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// One folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderRequest {
    /// Where. Missing folders above it are made.
    pub path: RawPath,
    /// Permission bits.
    pub mode: u32,
    /// As [`WriteRequest::beneath`].
    pub beneath: Option<RawPath>,
    /// As [`WriteRequest::owner`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A search through files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// The folder, or the one file, that is searched.
    pub root: RawPath,
    /// A regular expression over lines; absent: list the files that match `glob`.
    pub pattern: Option<String>,
    /// Only files whose path below `root` matches this.
    pub glob: Option<String>,
    /// Match letters of either case.
    pub ignore_case: bool,
    /// Honour `.gitignore` and `.ignore`.
    pub honour_ignore: bool,
    /// At most so many matches.
    pub limit: u32,
}

/// Asks for the content of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    /// The folder.
    pub root: RawPath,
    /// Forget what was sent before and send a whole manifest.
    pub fresh: bool,
    /// Names of folders that are never walked into (such as `.git`).
    pub skip: Vec<RawPath>,
    /// Files larger than this are listed with their size and no content.
    pub file_limit: u64,
    /// Walk no further past so many entries; one folder may hold half of them.
    pub entry_limit: u64,
    /// Past so many bytes of content only small files are sent, and past twice as many none; the others
    /// are listed without content. 0 is no limit.
    pub content_limit: u64,
}

/// Asks for every entry whose change time (`ctime`) is later than `since`. A program can set a file's
/// other times back, not this one. Nothing is read, and no snapshot is affected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangesRequest {
    /// The folder.
    pub root: RawPath,
    /// As [`DirEntry::changed`] gives it.
    pub since: ChangeTime,
    /// Names of folders that are never walked into.
    pub skip: Vec<RawPath>,
    /// Refuse the request past so many entries.
    pub entry_limit: u64,
}

/// Asks for the state of a sandbox outside its work directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRequest {
    /// The agent is about to start: remember what is there now, and report no changes.
    pub fresh: bool,
    /// The work directory. Its own snapshots cover it, except for `repositories`.
    pub workdir: RawPath,
    /// Folders in the work directory that its snapshots do not walk: every `.git`. Absolute.
    pub repositories: Vec<RawPath>,
    /// The host sends a [`Written`] as JSON on `STDIN`, ended by an end frame. Otherwise the agent
    /// lists the writable layer itself.
    pub listed: bool,
    /// A larger file cannot be kept, in bytes.
    pub file_limit: u64,
    /// More content cannot be kept, in bytes.
    pub content_limit: u64,
    /// More entries cannot be kept.
    pub entry_limit: u64,
    /// Files alone count: for a result that is judged and not continued. Without it, living processes, mounts, pipes and
    /// sockets keep a state from being kept. With it they are passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files_alone: bool,
}

/// What a container wrote since it was created, as its engine lists it. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Entries that were added or changed.
    pub paths: Vec<RawPath>,
    /// Entries of the image that were deleted. A folder that is there again was replaced.
    pub gone: Vec<RawPath>,
}

/// How a sandbox differs, outside its work directory, from what it was when its agent started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Entries that are new or changed, sorted by path.
    pub changed: Vec<LayerEntry>,
    /// Entries that were removed, sorted by path. A folder that is also in `changed` was replaced: nothing
    /// that it held before is in it.
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

/// What the agent answers, the body of a reply frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reply {
    /// A command ended.
    Exited(Exited),
    /// A file was sent whole.
    File {
        /// Bytes of the whole file.
        size: u64,
        /// Permission bits.
        mode: u32,
    },
    /// It is done.
    Done,
    /// The entries of a folder, sorted by name.
    Entries {
        /// Without `.` and `..`.
        entries: Vec<DirEntry>,
    },
    /// The entry, or nothing where there is none.
    Stat {
        /// The entry itself, links not followed.
        found: Option<DirEntry>,
    },
    /// The matches, and whether there are more past the limit.
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
    /// What a search for hidden content found.
    Scan(ScanReply),
    /// The port that is listened on.
    Listening {
        /// The port inside, chosen by the kernel where the request said 0.
        port: u16,
    },
    /// The agent answers.
    Pong {
        /// Processes in the sandbox, the agent left out.
        processes: u64,
        /// The agent's resident memory in KiB.
        agent_rss_kb: u64,
    },
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The exit code, where the command exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It was killed at its time limit.
    pub timed_out: bool,
    /// It was killed because the host gave the request up.
    pub cancelled: bool,
    /// Microseconds.
    pub took_us: u64,
    /// Processes left behind in the command's group or, with `reap_all`, in the sandbox.
    pub left_behind: u32,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Its name, without a folder.
    pub name: RawPath,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// The target of a symbolic link, as it is written.
    pub link: Option<RawPath>,
    /// When the entry itself last changed in any way.
    #[serde(default)]
    pub changed: ChangeTime,
}

/// What an entry is. Links are never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
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
    /// Counted from 1; 0 where only the file matched.
    pub line: u64,
    /// The line, without its end.
    pub text: String,
}

/// How a tree differs from the last snapshot of the same root on this channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReply {
    /// Sorted by path. A change too large for the reply comes on `RESULTS` as JSON lines, folder by folder, and
    /// `changed` is then empty; `removed`, where it is too large as well, follows as lines that are
    /// JSON strings.
    pub changed: Vec<SnapEntry>,
    /// Paths that are gone.
    pub removed: Vec<RawPath>,
    /// Folders that were not walked, or not to the end. What the last snapshot found below them stays as it
    /// was, neither changed nor removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwalked: Vec<RawPath>,
    /// Entries walked.
    pub entries: u64,
    /// Microseconds.
    pub took_us: u64,
}

/// The reply to a [`LayerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerReply {
    /// The layer is the same as in the reply before, and is not sent again.
    pub same: bool,
    /// Why another sandbox could not be given the same state. The layer is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<String>,
}

/// One path of a tree: relative to the root, sorted by bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapEntry {
    /// Relative to the root.
    pub path: RawPath,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// BLAKE3 of the content, hex; of the target for a link; absent past the file limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The target of a symbolic link, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RawPath>,
}

/// The body of an accepted frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The port of the listener that was connected to.
    pub port: u16,
}

/// Why a request was refused. The sandbox is well; a broken sandbox is the end of the stream instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One of a closed set, for programs.
    pub why: RefusalKind,
    /// A sentence that names the path or the limit, for people.
    pub what: String,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// There is no such path.
    NotFound,
    /// The agent or the task's user may not.
    Permission,
    /// A file was asked for, and it is a folder.
    IsADirectory,
    /// A folder was asked for, and it is none.
    NotADirectory,
    /// A path that leads out of the folder it must stay below.
    Outside,
    /// Over a limit of the request or of the wire.
    TooLarge,
    /// The disk, or its inodes, are used up.
    NoSpace,
    /// The request makes no sense: a pattern that is none, a user that is not there.
    BadRequest,
    /// The host gave the request up.
    Cancelled,
    /// Any other error of the kernel.
    Io,
}
