//! Snapshots: the reply, its pages and its blobs.

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Event, Input},
};
use crate::wire::{ChangesRequest, Reply, Request, SnapshotReply, SnapshotRequest, channel};

/// Bytes of a blob's header: hash and length.
const HEADER: usize = 40;

impl SandboxHandle {
    /// The reply, and the content of each hash that this channel had not sent before (hex hash,
    /// bytes).
    pub async fn snapshot(
        &self,
        request: SnapshotRequest,
    ) -> Result<(SnapshotReply, Vec<(String, Vec<u8>)>), SandboxError> {
        let file_limit = request.file_limit;
        self.manifest(&Request::Snapshot(request), file_limit).await
    }

    /// What changed after a moment, without content: see [`ChangesRequest`].
    pub async fn changes(&self, request: ChangesRequest) -> Result<SnapshotReply, SandboxError> {
        self.manifest(&Request::Changes(request), 0).await.map(|(reply, _)| reply)
    }

    async fn manifest(
        &self,
        request: &Request,
        file_limit: u64,
    ) -> Result<(SnapshotReply, Vec<(String, Vec<u8>)>), SandboxError> {
        let mut call = Call::open(&self.link, request)?;
        let mut blobs = Vec::new();
        let mut bytes = Vec::new();
        let mut pages = Vec::new();
        loop {
            match call.step(&mut Input::none()).await? {
                Event::Data(channel::STDOUT, more) => {
                    bytes.extend_from_slice(&more);
                    let taken =
                        take_blobs(&bytes, file_limit, &mut blobs).map_err(|why| call.left(why))?;
                    bytes.drain(..taken);
                }
                Event::Data(channel::RESULTS, more) => pages.extend_from_slice(&more),
                Event::Data(..) => return Err(call.left("a snapshot on a wrong channel")),
                Event::End => {}
                Event::Reply(Ok(Reply::Snapshot(mut reply))) => {
                    if !bytes.is_empty() {
                        return Err(call.left("a snapshot's blob is cut short"));
                    }
                    if !pages.is_empty() {
                        read_pages(&pages, &mut reply)
                            .map_err(|why| call.left(&format!("a snapshot's page: {why}")))?;
                    }
                    return Ok((reply, blobs));
                }
                Event::Reply(Ok(_)) => return Err(call.left("not the reply of a snapshot")),
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
            }
        }
    }
}

/// Takes whole blobs off the HTTP server; returns how many bytes they were. A length past the limit of a
/// file is refused before it is waited for.
fn take_blobs(
    bytes: &[u8],
    file_limit: u64,
    blobs: &mut Vec<(String, Vec<u8>)>,
) -> Result<usize, &'static str> {
    let mut taken = 0;
    while let Some(header) = bytes[taken..].first_chunk::<HEADER>() {
        let (hash, length) = header.split_at(32);
        let length = length.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        if length > file_limit {
            return Err("a snapshot's blob is over the limit of a file");
        }
        let start = taken + HEADER;
        let Some(content) = bytes.get(start..start + length as usize) else { break };
        let hex = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        blobs.push((hex, content.to_vec()));
        taken = start + content.len();
    }
    Ok(taken)
}

/// A line that is an object is a changed entry, a string a removed path.
fn read_pages(pages: &[u8], reply: &mut SnapshotReply) -> Result<(), serde_json::Error> {
    for line in pages.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        if line[0] == b'"' {
            reply.removed.push(serde_json::from_slice(line)?);
        } else {
            reply.changed.push(serde_json::from_slice(line)?);
        }
    }
    Ok(())
}
