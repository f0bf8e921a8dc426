//! File operations: read and write files, create links, and remove entries.

use super::{
    SandboxError, SandboxHandle,
    call::{Call, Input},
    inbox::Event,
};
use crate::wire::{CreateDirRequest, RawPath, Reply, Request, WriteRequest, channel};

impl SandboxHandle {
    /// Reads a whole file. Rejects files larger than `limit` bytes.
    pub async fn read(&self, path: &RawPath, limit: u64) -> Result<Vec<u8>, SandboxError> {
        self.read_from_offset(path, 0, limit).await
    }

    /// Reads a file from `offset` to its end. Rejects the request if more than `limit` bytes
    /// remain.
    pub async fn read_from_offset(
        &self,
        path: &RawPath,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<u8>, SandboxError> {
        let mut call =
            Call::open(&self.link, &Request::Read { path: path.clone(), offset, limit })?;
        let mut content = Vec::new();
        loop {
            match call.next_event(&mut Input::empty()).await? {
                Event::Data(channel::STDOUT, bytes) => content.extend_from_slice(&bytes),
                Event::Data(..) => {
                    return Err(call.close_with_protocol_error("file content on the wrong channel"));
                }
                Event::End => {}
                Event::Reply(Ok(Reply::File { .. })) => return Ok(content),
                Event::Reply(Ok(_)) => {
                    return Err(call.close_with_protocol_error("expected the reply to a read"));
                }
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
            }
            if content.len() as u64 > limit {
                return Err(call.close_with_protocol_error("more bytes than requested"));
            }
        }
    }

    /// Writes a whole file and creates missing parent directories. If `mode` is `None`, an existing
    /// file keeps its mode.
    pub async fn write(
        &self,
        path: &RawPath,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> Result<(), SandboxError> {
        self.send_write(write_request(path, mode, None), bytes).await
    }

    /// Like [`SandboxHandle::write`], but sets the owner of the file and its directories if they
    /// are new.
    pub async fn write_as(
        &self,
        path: &RawPath,
        bytes: &[u8],
        mode: Option<u32>,
        owner: Option<&str>,
    ) -> Result<(), SandboxError> {
        let owner = owner.map(str::to_owned);
        self.send_write(WriteRequest { owner, ..write_request(path, mode, None) }, bytes).await
    }

    /// Appends to a file. Creates the file if it is missing.
    pub async fn append(&self, path: &RawPath, bytes: &[u8]) -> Result<(), SandboxError> {
        self.send_write(WriteRequest { append: true, ..write_request(path, None, None) }, bytes)
            .await
    }

    /// Like [`SandboxHandle::write`], but rejects the request if `path` is not below `root` or
    /// leads out of it through a link.
    pub async fn write_beneath(
        &self,
        root: &RawPath,
        path: &RawPath,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> Result<(), SandboxError> {
        self.send_write(write_request(path, mode, Some(root)), bytes).await
    }

    /// Creates a symbolic link. Rejects the same paths as [`SandboxHandle::write_beneath`]. The
    /// target may be any path, because the host never follows it.
    pub async fn symlink_beneath(
        &self,
        root: &RawPath,
        path: &RawPath,
        target: &RawPath,
    ) -> Result<(), SandboxError> {
        let link = WriteRequest { symlink: true, ..write_request(path, None, Some(root)) };
        self.send_write(link, target.as_bytes()).await
    }

    /// Creates a file or a link, like [`SandboxHandle::write_beneath`] and
    /// [`SandboxHandle::symlink_beneath`], and sets the owner of a new entry. `mode` is the file's
    /// mode, or `None` for a link.
    pub async fn write_entry_beneath(
        &self,
        root: &RawPath,
        path: &RawPath,
        bytes: &[u8],
        mode: Option<u32>,
        owner: Option<&str>,
    ) -> Result<(), SandboxError> {
        let owner = owner.map(str::to_owned);
        let symlink = mode.is_none();
        self.send_write(
            WriteRequest { symlink, owner, ..write_request(path, mode, Some(root)) },
            bytes,
        )
        .await
    }

    /// Creates a directory if it does not exist. Also sets the permission bits of an existing
    /// directory.
    pub async fn create_folder_beneath(
        &self,
        root: &RawPath,
        path: &RawPath,
        mode: u32,
        owner: Option<&str>,
    ) -> Result<(), SandboxError> {
        let (path, beneath) = (path.clone(), Some(root.clone()));
        let owner = owner.map(str::to_owned);
        self.expect_done(Request::Folder(CreateDirRequest { path, mode, beneath, owner })).await
    }

    async fn send_write(&self, request: WriteRequest, bytes: &[u8]) -> Result<(), SandboxError> {
        let mut call = Call::open(&self.link, &Request::Write(request))?;
        let mut input = Input::from_bytes(bytes);
        loop {
            match call.next_event(&mut input).await? {
                Event::Reply(Ok(Reply::Done)) => return Ok(()),
                Event::Reply(Err(refusal)) => return Err(SandboxError::Refused(refusal)),
                Event::End => {}
                Event::Data(..) | Event::Reply(_) => {
                    return Err(call.close_with_protocol_error("expected the reply to a write"));
                }
            }
        }
    }

    /// Removes a file, a link or a directory tree. A missing path is not an error.
    pub async fn remove(&self, path: &RawPath) -> Result<(), SandboxError> {
        self.expect_done(Request::Remove { path: path.clone(), beneath: None }).await
    }

    /// Like [`SandboxHandle::remove`], but rejects the request if the path leads outside `root`.
    pub async fn remove_beneath(&self, root: &RawPath, path: &RawPath) -> Result<(), SandboxError> {
        self.expect_done(Request::Remove { path: path.clone(), beneath: Some(root.clone()) }).await
    }

    async fn expect_done(&self, request: Request) -> Result<(), SandboxError> {
        match self.ask(request).await? {
            Reply::Done => Ok(()),
            _ => Err(self.close_with_wrong_reply_error()),
        }
    }
}

fn write_request(path: &RawPath, mode: Option<u32>, boundary: Option<&RawPath>) -> WriteRequest {
    WriteRequest {
        path: path.clone(),
        mode,
        parents: true,
        beneath: boundary.cloned(),
        symlink: false,
        append: false,
        owner: None,
    }
}
