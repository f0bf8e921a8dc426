//! Snapshots, which consist of a reply, pages of the manifest, and blobs.

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Input},
    inbox::Event,
};
use crate::wire::{ChangesRequest, Reply, Request, SnapshotReply, SnapshotRequest, channel};

/// Length in bytes of a blob's header, which contains the length of the blob.
const HEADER_BYTES: usize = 8;

/// Maximum length of a line in a manifest page, in bytes. A line contains an escaped path, a link's
/// target and metadata.
const LINE_LIMIT: usize = 1 << 20;

/// Receives the file contents of a snapshot, one after another and in chunks, because a tree may be
/// larger than the host's memory.
pub trait BlobSink: Send {
    /// Why the sink failed.
    type Error: Send;

    /// Starts a file's content, which has this length in bytes.
    fn begin(&mut self, length: u64) -> Result<(), Self::Error>;

    /// Receives the next bytes of the current content.
    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Ends the current content.
    fn end(&mut self) -> Result<(), Self::Error>;
}

/// Why a snapshot failed.
#[derive(Debug)]
pub enum SnapshotError<E> {
    /// The sandbox rejected the snapshot or is gone.
    Sandbox(SandboxError),
    /// The sink failed.
    Sink(E),
}

impl<E> From<SandboxError> for SnapshotError<E> {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

impl SandboxHandle {
    /// Returns the reply and the file contents that this channel had not sent before (hex hash,
    /// bytes). For small trees only; see [`SandboxHandle::snapshot_to`].
    pub async fn snapshot(
        &self,
        request: SnapshotRequest,
    ) -> Result<(SnapshotReply, Vec<(String, Vec<u8>)>), SandboxError> {
        let mut blobs = MemorySink::default();
        match self.snapshot_to(request, &mut blobs).await {
            Ok(reply) => Ok((reply, blobs.0)),
            Err(SnapshotError::Sandbox(error)) => Err(error),
            Err(SnapshotError::Sink(never)) => match never {},
        }
    }

    /// Returns the reply, and writes file contents that this channel had not sent before to `sink`.
    ///
    /// # Errors
    /// If the sink fails, the snapshot is cancelled, and the sink's error is returned.
    pub async fn snapshot_to<S: BlobSink>(
        &self,
        request: SnapshotRequest,
        sink: &mut S,
    ) -> Result<SnapshotReply, SnapshotError<S::Error>> {
        let file_limit = request.file_limit;
        self.request_manifest(&Request::Snapshot(request), file_limit, sink).await
    }

    /// Returns what changed after a given time, without content; see [`ChangesRequest`].
    pub async fn list_changes(
        &self,
        request: ChangesRequest,
    ) -> Result<SnapshotReply, SandboxError> {
        let mut nothing = MemorySink::default();
        match self.request_manifest(&Request::Changes(request), 0, &mut nothing).await {
            Ok(reply) => Ok(reply),
            Err(SnapshotError::Sandbox(error)) => Err(error),
            Err(SnapshotError::Sink(never)) => match never {},
        }
    }

    async fn request_manifest<S: BlobSink>(
        &self,
        request: &Request,
        file_limit: u64,
        sink: &mut S,
    ) -> Result<SnapshotReply, SnapshotError<S::Error>> {
        let mut call = Call::open(&self.link, request)?;
        let mut contents = BlobParser::default();
        let mut pages = ManifestParser::default();
        loop {
            match call.next_event(&mut Input::empty()).await? {
                Event::Data(channel::STDOUT, more) => {
                    let taken = contents.feed(&more, file_limit, sink);
                    taken.map_err(SnapshotError::Sink)?;
                    if contents.is_too_long {
                        let why = "a blob of the snapshot exceeds the file size limit";
                        return Err(call.close_with_protocol_error(why).into());
                    }
                }
                Event::Data(channel::RESULTS, more) => {
                    let wrong =
                        |why| call.close_with_protocol_error(&format!("a snapshot's page: {why}"));
                    pages.feed(&more).map_err(wrong)?;
                }
                Event::Data(..) => {
                    return Err(call
                        .close_with_protocol_error("snapshot data on the wrong channel")
                        .into());
                }
                Event::End => {}
                Event::Reply(Ok(Reply::Snapshot(mut reply))) => {
                    if !contents.is_done() {
                        return Err(call
                            .close_with_protocol_error("truncated blob of a snapshot")
                            .into());
                    }
                    if !pages.partial_line.is_empty() {
                        return Err(call
                            .close_with_protocol_error("truncated page of a snapshot")
                            .into());
                    }
                    reply.changed.append(&mut pages.reply.changed);
                    reply.removed.append(&mut pages.reply.removed);
                    return Ok(reply);
                }
                Event::Reply(Ok(_)) => {
                    return Err(call
                        .close_with_protocol_error("expected the reply to a snapshot")
                        .into());
                }
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal).into()),
            }
        }
    }
}

#[derive(Default)]
struct MemorySink(Vec<(String, Vec<u8>)>);

impl BlobSink for MemorySink {
    type Error = std::convert::Infallible;

    fn begin(&mut self, length: u64) -> Result<(), Self::Error> {
        let room = usize::try_from(length).unwrap_or(0);
        self.0.push((String::new(), Vec::with_capacity(room)));
        Ok(())
    }

    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        if let Some((_, content)) = self.0.last_mut() {
            content.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Self::Error> {
        if let Some((hash, content)) = self.0.last_mut() {
            *hash = blake3::hash(content).to_hex().to_string();
        }
        Ok(())
    }
}

/// Parses the stream of file contents.
#[derive(Default)]
pub(super) struct BlobParser {
    header: Vec<u8>,
    /// Number of bytes that are left of the current content.
    bytes_left: Option<u64>,
    pub(super) is_too_long: bool,
}

impl BlobParser {
    /// Parses more bytes. Rejects a length above the file limit before the content arrives.
    pub(super) fn feed<S: BlobSink>(
        &mut self,
        mut bytes: &[u8],
        file_limit: u64,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        while !bytes.is_empty() {
            let left = match self.bytes_left {
                Some(left) => left,
                None => {
                    let (head, rest) =
                        bytes.split_at(bytes.len().min(HEADER_BYTES - self.header.len()));
                    self.header.extend_from_slice(head);
                    bytes = rest;
                    if self.header.len() < HEADER_BYTES {
                        return Ok(());
                    }
                    let length =
                        self.header.drain(..).fold(0, |sum, byte| sum << 8 | u64::from(byte));
                    if length > file_limit {
                        self.is_too_long = true;
                        return Ok(());
                    }
                    sink.begin(length)?;
                    length
                }
            };
            let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (piece, rest) = bytes.split_at(here);
            if !piece.is_empty() {
                sink.write_chunk(piece)?;
            }
            bytes = rest;
            self.bytes_left = Some(left - here as u64).filter(|left| *left > 0);
            if self.bytes_left.is_none() {
                sink.end()?;
            }
        }
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.bytes_left.is_none() && self.header.is_empty()
    }
}

/// Parses the lines of a manifest that did not fit in the reply.
#[derive(Default)]
struct ManifestParser {
    partial_line: Vec<u8>,
    reply: SnapshotReply,
}

impl ManifestParser {
    /// Parses more bytes. A line with an object is a changed entry; a line with a string is a
    /// removed path.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial_line.extend_from_slice(line);
            if self.partial_line.len() > LINE_LIMIT {
                return Err("a line is too long".to_owned());
            }
            if self.partial_line.last() != Some(&b'\n') {
                break;
            }
            let wrong = |error: serde_json::Error| error.to_string();
            match self.partial_line.first() {
                Some(b'"') => {
                    self.reply
                        .removed
                        .push(serde_json::from_slice(&self.partial_line).map_err(wrong)?);
                }
                _ => self
                    .reply
                    .changed
                    .push(serde_json::from_slice(&self.partial_line).map_err(wrong)?),
            }
            self.partial_line.clear();
        }
        Ok(())
    }
}
