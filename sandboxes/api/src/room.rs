//! The host's end of the channel to one room agent.

use std::{fmt, sync::Arc};

use proctor_types::{Fault, Layer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Command, Completed,
    wire::{DirEntry, Match, RawPath, Refusal, SearchRequest, SnapshotReply, SnapshotRequest},
};

/// Why a request to a room failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomError {
    /// The room is well and says no.
    Refused(Refusal),
    /// The room is gone or left the grammar; every later request fails the same way.
    Broken { why: String },
}

/// The host's end of one channel. Shared by everything that acts in the room; requests run
/// concurrently. Dropping the last handle closes the channel, which ends the room.
pub struct Room {}

/// A connection that somebody in the room made to a forwarded listener.
pub struct Incoming {
    pub port: u16,
}

impl Room {
    /// Shakes hands over a byte stream whose other end is an agent.
    pub async fn connect(
        _reader: impl AsyncRead + Send + Unpin + 'static,
        _writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Arc<Self>, RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// Runs a command to its end. A command that fails, or is not found (exit 127), is a result.
    /// Dropping the future cancels the command.
    pub async fn run(&self, _command: Command) -> Result<Completed, RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// The whole file; refused as too large past `limit` bytes.
    pub async fn read(&self, _path: &RawPath, _limit: u64) -> Result<Vec<u8>, RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// Writes a whole file (parents made, mode kept where the file exists and `mode` is absent).
    pub async fn write(
        &self,
        _path: &RawPath,
        _bytes: &[u8],
        _mode: Option<u32>,
    ) -> Result<(), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// As [`Room::write`], refused unless `path` resolves below `root` without leaving it by a link.
    pub async fn write_beneath(
        &self,
        _root: &RawPath,
        _path: &RawPath,
        _bytes: &[u8],
        _mode: Option<u32>,
    ) -> Result<(), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    pub async fn symlink_beneath(
        &self,
        _root: &RawPath,
        _path: &RawPath,
        _target: &RawPath,
    ) -> Result<(), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// Removes a file, a link or a tree. Nothing there is not an error.
    pub async fn remove(&self, _path: &RawPath) -> Result<(), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    pub async fn list(&self, _path: &RawPath) -> Result<Vec<DirEntry>, RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    pub async fn stat(&self, _path: &RawPath) -> Result<Option<DirEntry>, RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    pub async fn search(&self, _request: SearchRequest) -> Result<(Vec<Match>, bool), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// The reply, and the content of each hash that this channel had not sent before (hex hash,
    /// bytes).
    pub async fn snapshot(
        &self,
        _request: SnapshotRequest,
    ) -> Result<(SnapshotReply, Vec<(String, Vec<u8>)>), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// Processes in the room, the agent left out, and the agent's resident kilobytes.
    pub async fn ping(&self) -> Result<(u64, u64), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }

    /// Asks the agent to kill everything and leave.
    pub async fn shutdown(&self) -> Result<(), RoomError> {
        Err(RoomError::Broken { why: "not built yet".into() })
    }
}

impl RoomError {
    /// As a fault of the sandbox, for callers to whom a refusal too is one.
    pub fn fault(&self, doing: impl fmt::Display) -> Fault {
        Fault::new(Layer::Sandbox, format!("{doing}: {self}"))
    }
}

impl fmt::Display for RoomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.what),
            Self::Broken { why } => write!(f, "the room is gone: {why}"),
        }
    }
}

impl std::error::Error for RoomError {}
