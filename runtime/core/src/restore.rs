//! Makes the work directory of a sandbox what a recorded tree says, and checks that it is.

use std::{collections::BTreeSet, convert::Infallible};

use futures_util::{StreamExt, stream};
use proctor_record::{Blobs, Tree};
use proctor_sandbox_api::{
    BlobSink, SandboxError, SandboxHandle, SnapshotError,
    wire::{EntryKind, RawPath, SnapEntry, SnapshotReply},
};
use proctor_types::{Cause, Fault, Layer};

/// Files that are written at once: each is a question and an answer, which is mostly waiting.
const AT_ONCE: usize = 16;

/// Restores `tree` below `workdir`, byte for byte: files with their modes, links, empty folders, and nothing else.
/// New entries belong to `owner`, as what an agent of that user made did. What was there before and is as it should be
/// is not touched, so a restored tree costs what changed.
///
/// Not restored, because no snapshot holds it: times and hard links. `outside.rs` restores the inside of `.git`, and
/// everything outside the work directory.
///
/// # Errors
/// A content that the record has lost; a tree that is another one afterwards, by the first path that differs.
pub(crate) async fn restore(
    handle: &SandboxHandle,
    workdir: &RawPath,
    blobs: &Blobs,
    tree: &Tree,
    owner: Option<&str>,
) -> Result<(), Fault> {
    let mut now = Tree::default();
    now.advance(&snapshot(handle, workdir, true).await?);
    let work = Workdir { handle, workdir, owner };
    work.remove(&now, tree).await?;
    work.make(&now, tree, blobs).await?;
    now.advance(&snapshot(handle, workdir, false).await?);
    match now.diff(tree).next() {
        None => Ok(()),
        Some(one) => Err(lost(format!("{} is not what was recorded", one.path))),
    }
}

fn lost(why: impl std::fmt::Display) -> Fault {
    Fault::new(Layer::Record, format!("restoring the work directory: {why}"))
        .cause(Cause::Invalid)
        .hint("`proctor report RUN --verify` names what the record has lost")
}

async fn snapshot(
    handle: &SandboxHandle,
    workdir: &RawPath,
    fresh: bool,
) -> Result<SnapshotReply, Fault> {
    let request = proctor_setup::snapshot_request(workdir, fresh);
    match handle.snapshot_to(request, &mut Nowhere).await {
        Ok(reply) => Ok(reply),
        Err(SnapshotError::Sink(never)) => match never {},
        Err(SnapshotError::Sandbox(error)) => Err(error.fault("looking at a restored tree")),
    }
}

/// Only the manifest counts: the record has the contents.
struct Nowhere;

impl BlobSink for Nowhere {
    type Error = Infallible;

    fn begin(&mut self, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn take(&mut self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

struct Workdir<'a> {
    handle: &'a SandboxHandle,
    workdir: &'a RawPath,
    owner: Option<&'a str>,
}

impl Workdir<'_> {
    /// Takes away what the tree does not have, or has as another kind. What lies below goes with its folder.
    async fn remove(&self, now: &Tree, tree: &Tree) -> Result<(), Fault> {
        let mut gone: BTreeSet<&[u8]> = BTreeSet::new();
        for (path, entry) in &now.entries {
            let bytes = path.as_bytes();
            let mut above = (0..bytes.len()).filter(|at| bytes[*at] == b'/').map(|at| &bytes[..at]);
            let stays = tree.entries.get(path).is_some_and(|wanted| wanted.kind == entry.kind);
            if stays || above.any(|folder| gone.contains(folder)) {
                continue;
            }
            self.handle
                .remove_beneath(self.workdir, &self.workdir.join(path))
                .await
                .map_err(|error| error.fault(format!("removing {path}")))?;
            gone.insert(bytes);
        }
        Ok(())
    }

    async fn make(&self, now: &Tree, tree: &Tree, blobs: &Blobs) -> Result<(), Fault> {
        let changed = tree.entries.values().filter(|one| now.entries.get(&one.path) != Some(one));
        let (folders, others): (Vec<&SnapEntry>, Vec<&SnapEntry>) =
            changed.partition(|entry| entry.kind == EntryKind::Dir);
        // Sorted, a folder comes before what lies in it. It can be written to until all is in place.
        for folder in &folders {
            self.folder(folder, folder.mode | 0o700).await?;
        }
        let mut writes = Vec::with_capacity(others.len());
        for entry in others {
            writes.push(self.entry(entry, blobs));
        }
        let mut written = stream::iter(writes).buffer_unordered(AT_ONCE);
        while let Some(one) = written.next().await {
            one?;
        }
        for folder in folders.into_iter().rev() {
            self.folder(folder, folder.mode).await?;
        }
        Ok(())
    }

    async fn folder(&self, entry: &SnapEntry, mode: u32) -> Result<(), Fault> {
        let path = self.workdir.join(&entry.path);
        let made = self.handle.folder_beneath(self.workdir, &path, mode, self.owner).await;
        made.map_err(|error| writing(&entry.path, &error))
    }

    async fn entry(&self, entry: &SnapEntry, blobs: &Blobs) -> Result<(), Fault> {
        let (content, mode) = match (entry.kind, &entry.hash, &entry.link) {
            (EntryKind::Link, _, Some(target)) => (target.as_bytes().to_vec(), None),
            (EntryKind::File, Some(hash), _) => (blobs.get(hash).map_err(lost)?, Some(entry.mode)),
            _ => return Err(lost(format!("the record does not hold {}", entry.path))),
        };
        let path = self.workdir.join(&entry.path);
        let put = self.handle.put_beneath(self.workdir, &path, &content, mode, self.owner).await;
        put.map_err(|error| writing(&entry.path, &error))
    }
}

fn writing(path: &RawPath, error: &SandboxError) -> Fault {
    error.fault(format!("restoring {path}"))
}
