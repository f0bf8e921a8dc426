//! Creates tar streams while sending them.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    pin::Pin,
};

use bollard::query_parameters::UploadToContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::{Stream, stream};
use proctor_embedded_agent as embedded;
use proctor_host::host_base;
use tar::{Builder, EntryType, Header, HeaderMode};
use tokio::sync::mpsc;

/// Size of one chunk in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// Path of the agent in a sandbox, relative to the root.
pub const AGENT_PATH: &str = ".proctor/agentd";

/// A request body. This alias is needed because the client's own type is private.
pub type Body = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Creates a body from bytes in memory.
pub fn body_from_bytes(bytes: Vec<u8>) -> Body {
    Box::pin(stream::iter([Ok(Bytes::from(bytes))]))
}

/// Runs `write` in its own thread and streams its output. If `write` fails, the request also fails.
pub fn stream_writer<F>(write: F) -> Body
where
    F: FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(4);
    tokio::task::spawn_blocking(move || {
        let mut pieces = ChunkWriter { sender: sender.clone(), chunk: Vec::new() };
        let written = write(&mut pieces).and_then(|()| pieces.flush());
        if let Err(error) = written {
            let _ = sender.blocking_send(Err(error));
        }
    });
    Box::pin(stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    }))
}

struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = Bytes::from(std::mem::take(&mut self.chunk));
        if piece.is_empty() {
            return Ok(());
        }
        self.sender
            .blocking_send(Ok(piece))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the engine closed the request"))
    }
}

/// Streams a directory as an archive. `destination` is the directory's path in the container,
/// without a leading slash. Entries keep their owners if `keep_owners` is set, otherwise root owns
/// them. The engine creates missing parent directories.
pub fn stream_folder(source: PathBuf, destination: PathBuf, keep_owners: bool) -> Body {
    stream_writer(move |out| {
        let mut builder = Builder::new(out);
        builder.follow_symlinks(false);
        let mode = if keep_owners { HeaderMode::Complete } else { HeaderMode::Deterministic };
        builder.mode(mode);
        let at = if destination.as_os_str().is_empty() { Path::new(".") } else { &destination };
        append(&mut builder, &source, at)?;
        builder.finish()
    })
}

/// Like `append_dir_all`, but skips sockets and pipes, which archives cannot contain.
fn append(
    builder: &mut Builder<&mut dyn Write>,
    source: &Path,
    destination: &Path,
) -> io::Result<()> {
    builder.append_dir(destination, source)?;
    let mut entries: Vec<_> = std::fs::read_dir(source)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), destination.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            append(builder, &path, &name)?;
        } else if kind.is_file() || kind.is_symlink() {
            builder.append_path_with_name(&path, &name)?;
        }
    }
    Ok(())
}

pub fn stream_file(source: PathBuf) -> Body {
    stream_writer(move |out| {
        let mut file = std::fs::File::open(source)?;
        let mut piece = vec![0; CHUNK_BYTES];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                read => out.write_all(&piece[..read])?,
            }
        }
    })
}

/// Returns an archive with the skeleton of a host base: everything that is not bind-mounted.
pub fn skeleton_archive() -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for piece in host_base::skeleton()? {
        match piece.kind {
            host_base::SkeletonEntryKind::Dir(mode) => {
                append_entry(&mut builder, EntryType::Directory, mode, &piece.path, &[])?;
            }
            host_base::SkeletonEntryKind::File(mode, bytes) => {
                append_entry(&mut builder, EntryType::Regular, mode, &piece.path, &bytes)?;
            }
            host_base::SkeletonEntryKind::Link(target) => {
                let mut header = entry_header(EntryType::Symlink, 0o777, 0);
                builder.append_link(&mut header, &piece.path, target)?;
            }
        }
    }
    builder.into_inner()
}

/// Returns the agent as an archive that the engine unpacks in a container. Only root can access its
/// directory.
pub fn agent_archive() -> io::Result<Body> {
    let mut builder = Builder::new(Vec::new());
    let path = Path::new(AGENT_PATH);
    let folder = path.parent().unwrap_or(path);
    append_entry(&mut builder, EntryType::Directory, 0o700, folder, &[])?;
    append_entry(&mut builder, EntryType::Regular, 0o500, path, embedded::agent())?;
    Ok(body_from_bytes(builder.into_inner()?))
}

pub fn upload_options() -> bollard::query_parameters::UploadToContainerOptions {
    UploadToContainerOptionsBuilder::new().path("/").build()
}

fn entry_header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    // Use a constant time. With the current time, every build would be different.
    header.set_mtime(1);
    header
}

fn append_entry(
    builder: &mut Builder<Vec<u8>>,
    kind: EntryType,
    mode: u32,
    path: &Path,
    bytes: &[u8],
) -> io::Result<()> {
    builder.append_data(&mut entry_header(kind, mode, bytes.len()), path, bytes)
}
