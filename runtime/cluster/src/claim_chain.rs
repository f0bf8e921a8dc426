//! The chain of files that records who owns a key.
//!
//! Each key has a chain of files `claims/<2 digits>/<key>.<generation>`. The newest file names the
//! key's owner or marks the key as free. A worker creates the next file of a chain with `link`,
//! which succeeds for only one worker. The files of a chain are kept while any worker is alive, so
//! an old state cannot be mistaken for a new one.
//!
//! `claims/ended/<digit>/<key>` marks a key as finished. Workers list this directory instead of
//! reading the chains of all finished keys.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{disk, files};

/// The subdirectory of [`CLAIMS_DIR`](crate::CLAIMS_DIR) that contains the marks of finished keys.
pub(crate) const FINISHED_KEYS_DIR: &str = "ended";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Held,
    Free,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimFile {
    pub(crate) worker: String,
    pub(crate) status: Status,
}

#[derive(Debug)]
pub(crate) struct ChainHead {
    pub(crate) generation: u32,
    pub(crate) file: ClaimFile,
    pub(crate) modified: SystemTime,
}

/// The part of a claim that the heartbeat thread checks.
#[derive(Debug)]
pub(crate) struct HeldClaim {
    pub(crate) chain: ClaimChain,
    pub(crate) generation: u32,
    pub(crate) worker: String,
    pub(crate) lost_sender: watch::Sender<bool>,
}

impl HeldClaim {
    /// Returns whether the newest file of the chain still belongs to this claim. If the chain
    /// cannot be read, returns `true`, because a read error does not mean that the claim was lost.
    pub(crate) fn is_still_owned(&self) -> bool {
        let own =
            |top: ChainHead| top.generation == self.generation && top.file.worker == self.worker;
        match self.chain.head_after(self.generation) {
            Ok(top) => top.is_some_and(own),
            Err(_) => true,
        }
    }

    pub(crate) fn mark_lost(&self) {
        self.lost_sender.send_replace(true);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ClaimChain {
    folder: PathBuf,
    key: String,
}

impl ClaimChain {
    pub(crate) fn new(claims: &Path, key: &str) -> Self {
        // Spread the keys over two-digit subdirectories, because file servers are slow if a
        // directory has ten thousand entries.
        Self { folder: claims.join(key.get(..2).unwrap_or("_")), key: key.to_owned() }
    }

    /// Creates the next file of the chain. Returns `false` if another worker was faster.
    pub(crate) fn append(&self, generation: u32, file: &ClaimFile) -> io::Result<bool> {
        create_folder_and_retry(&self.folder, || files::create_file(&self.path(generation), file))
    }

    /// Marks the key as finished with a hard link to a file of its chain.
    pub(crate) fn mark_finished(&self, file: &Path) -> io::Result<()> {
        let folder =
            self.folder.with_file_name(FINISHED_KEYS_DIR).join(self.key.get(..1).unwrap_or("_"));
        create_folder_and_retry(&folder, || disk::link(file, &folder.join(&self.key)))
    }

    pub(crate) fn path(&self, generation: u32) -> PathBuf {
        self.folder.join(format!("{}.{generation}", self.key))
    }

    pub(crate) fn head(&self) -> io::Result<Option<ChainHead>> {
        self.head_after(1)
    }

    /// Returns the newest file of the chain. Searches upward from generation `start`.
    fn head_after(&self, start: u32) -> io::Result<Option<ChainHead>> {
        let mut top = None;
        for generation in start.. {
            let path = self.path(generation);
            let (token, written) = match files::read::<ClaimFile>(&path) {
                Ok(None) => break,
                Ok(Some((token, file))) => (token, disk::modified(&file)?),
                // The file has no valid content because of a power failure at the file server, so
                // treat the key as free.
                Err(error) if is_json_syntax_error(error.kind()) => {
                    let worker = String::new();
                    (ClaimFile { worker, status: Status::Free }, SystemTime::UNIX_EPOCH)
                }
                Err(error) => return Err(error),
            };
            top = Some(ChainHead { generation, file: token, modified: written });
        }
        Ok(top)
    }
}

/// Runs `write`, which writes into `folder`. If that fails because the directory is missing,
/// creates the directory and runs `write` again.
fn create_folder_and_retry<T>(folder: &Path, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match write() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            disk::create_folder(folder).map_err(|error| files::add_path(folder, error))?;
            write()
        }
        written => written,
    }
}

/// Returns whether the error kind means that JSON is truncated or invalid.
fn is_json_syntax_error(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}
