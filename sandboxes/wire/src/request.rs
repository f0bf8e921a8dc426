//! What the host asks and what the agent answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RawPath, ScanReply, ScanRequest};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Output arrives as data on the channels; the reply is [`Reply::Exited`].
    Run(RunRequest),
    /// The bytes from `offset` on arrive on `STDOUT`; the reply is [`Reply::File`]. Refused as too
    /// large where they are more than `limit`.
    Read {
        path: RawPath,
        offset: u64,
        limit: u64,
    },
    /// The bytes are sent on `STDIN`, ended by an end frame; the reply is [`Reply::Done`].
    Write(WriteRequest),
    /// Entries of one folder, sorted.
    List {
        path: RawPath,
    },
    Stat {
        path: RawPath,
    },
    /// Removes a file, a link, or a folder with all below it; never follows a link.
    Remove {
        path: RawPath,
        beneath: Option<RawPath>,
    },
    Search(SearchRequest),
    /// Changes since the last snapshot of `root`; the blobs arrive on `STDOUT` as
    /// `length:u64, bytes` each, once per content and connection. Their hashes are in the manifest.
    Snapshot(SnapshotRequest),
    /// Lists what changed below `root` after a moment; answered as a snapshot without content.
    Changes(ChangesRequest),
    /// Looks for hidden content; the [`crate::Secrets`] are sent on `STDIN` as JSON, ended by an
    /// end frame.
    Scan(ScanRequest),
    /// Listens on 127.0.0.1:`port` (0: any); each connection comes out as an accepted stream.
    /// Answered by [`Reply::Listening`]; the listener lives as long as the channel.
    Listen {
        port: u16,
    },
    Ping,
    /// Kills everything in the sandbox and exits.
    Shutdown,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Arguments as bytes; a shell line is `["/bin/sh", "-c", line]`.
    pub argv: Vec<RawPath>,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    pub path: RawPath,
    pub mode: Option<u32>,
    /// Make missing parent folders.
    pub parents: bool,
    /// The path must resolve below this folder without following any link that leads out of it.
    pub beneath: Option<RawPath>,
    /// Make a symbolic link whose target is the bytes sent, instead of a file.
    pub symlink: bool,
    pub append: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    pub root: RawPath,
    /// A regular expression over lines; absent: list the files that match `glob`.
    pub pattern: Option<String>,
    pub glob: Option<String>,
    pub ignore_case: bool,
    /// Honour `.gitignore` and `.ignore`.
    pub honour_ignore: bool,
    /// At most so many matches.
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequest {
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
    pub root: RawPath,
    /// As [`DirEntry::changed`] gives it.
    pub since: ChangeTime,
    /// Names of folders that are never walked into.
    pub skip: Vec<RawPath>,
    /// Refuse the request past so many entries.
    pub entry_limit: u64,
}

/// Seconds and nanoseconds since the epoch, by the sandbox's clock.
pub type ChangeTime = (i64, u64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reply {
    Exited(Exited),
    File { size: u64, mode: u32 },
    Done,
    Entries { entries: Vec<DirEntry> },
    Stat { found: Option<DirEntry> },
    Matches { matches: Vec<Match>, more: bool },
    Snapshot(SnapshotReply),
    Scan(ScanReply),
    Listening { port: u16 },
    Pong { processes: u64, agent_rss_kb: u64 },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The exit code, where the command exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub cancelled: bool,
    /// Microseconds.
    pub took_us: u64,
    /// Processes left behind in the command's group or, with `reap_all`, in the sandbox.
    pub left_behind: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    pub name: RawPath,
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    pub link: Option<RawPath>,
    /// When the entry itself last changed in any way.
    #[serde(default)]
    pub changed: ChangeTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Dir,
    Link,
    /// Sockets, pipes, devices: listed, never read.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub path: RawPath,
    /// Counted from 1; 0 where only the file matched.
    pub line: u64,
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReply {
    /// Sorted by path. A change too large for the reply comes on `RESULTS` as JSON lines, and
    /// `changed` is then empty; `removed`, where it is too large as well, follows as lines that are
    /// JSON strings.
    pub changed: Vec<SnapEntry>,
    pub removed: Vec<RawPath>,
    /// Folders that were not walked, or not to the end. What the last snapshot found below them stays as it
    /// was, neither changed nor removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwalked: Vec<RawPath>,
    /// Entries walked.
    pub entries: u64,
    pub took_us: u64,
}

/// One path of a tree: relative to the root, sorted by bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapEntry {
    pub path: RawPath,
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
    /// BLAKE3 of the content, hex; of the target for a link; absent past the file limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RawPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub port: u16,
}

/// Why a request was refused. The sandbox is well; a broken sandbox is the end of the stream instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub why: RefusalKind,
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    NotFound,
    Permission,
    IsADirectory,
    NotADirectory,
    /// A path that leads out of the folder it must stay below.
    Outside,
    TooLarge,
    NoSpace,
    BadRequest,
    Cancelled,
    Io,
}
