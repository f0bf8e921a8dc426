//! Restores a recorded tree in the work directory of a sandbox and verifies it.

use std::{collections::BTreeSet, convert::Infallible};

use futures_util::{StreamExt, stream};
use proctor_record::{Blobs, Tree};
use proctor_sandbox_api::{
    BlobSink, SandboxError, SandboxHandle, SnapshotError,
    wire::{EntryKind, RawPath, SnapshotEntry, SnapshotReply},
};
use proctor_types::{Fault, FaultCause, FaultLayer};

/// Number of concurrent file writes. Each write is a round trip to the sandbox and spends most of
/// its time waiting.
const MAX_CONCURRENT_WRITES: usize = 16;

/// Makes the directory `workdir` match `tree` exactly: file contents and modes, links and empty
/// directories. Other entries are removed. New entries belong to `owner`, as if an agent running as
/// that user had created them. Entries that are already correct are not rewritten, so the cost
/// depends on the number of changes.
///
/// Times and hard links are not restored, because snapshots do not contain them. The contents of
/// `.git` and everything outside the work directory are restored in `outside.rs`.
///
/// # Errors
/// Fails if a blob is missing from the record, or if the restored tree differs from the record. The
/// error names the first path that differs.
pub(crate) async fn restore_workdir(
    handle: &SandboxHandle,
    workdir: &RawPath,
    blobs: &Blobs,
    tree: &Tree,
    owner: Option<&str>,
) -> Result<(), Fault> {
    let mut now = Tree::default();
    now.apply_snapshot(&take_snapshot(handle, workdir, true).await?);
    let work = Workdir { handle, workdir, owner };
    work.remove_extra_entries(&now, tree).await?;
    work.write_changed_entries(&now, tree, blobs).await?;
    now.apply_snapshot(&take_snapshot(handle, workdir, false).await?);
    match now.diff(tree).next() {
        None => Ok(()),
        Some(one) => Err(restore_fault(format!("{} differs from the record", one.path))),
    }
}

fn restore_fault(reason: impl std::fmt::Display) -> Fault {
    Fault::new(FaultLayer::Record, format!("cannot restore the work directory: {reason}"))
        .cause(FaultCause::Invalid)
        .hint("`proctor report RUN --verify` lists what is missing from the record")
}

async fn take_snapshot(
    handle: &SandboxHandle,
    workdir: &RawPath,
    is_fresh: bool,
) -> Result<SnapshotReply, Fault> {
    let request = proctor_setup::snapshot_request(workdir, is_fresh);
    match handle.snapshot_to(request, &mut DiscardSink).await {
        Ok(reply) => Ok(reply),
        Err(SnapshotError::Sink(never)) => match never {},
        Err(SnapshotError::Sandbox(error)) => Err(error.to_fault("inspecting the restored tree")),
    }
}

/// Discards file contents, because only the manifest is compared.
struct DiscardSink;

impl BlobSink for DiscardSink {
    type Error = Infallible;

    fn begin(&mut self, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn write_chunk(&mut self, _: &[u8]) -> Result<(), Infallible> {
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
    /// Removes entries that the tree does not contain or that have a different kind in the tree.
    /// Removing a directory also removes its contents.
    async fn remove_extra_entries(&self, current: &Tree, tree: &Tree) -> Result<(), Fault> {
        let mut gone: BTreeSet<&[u8]> = BTreeSet::new();
        for (path, entry) in &current.entries {
            let bytes = path.as_bytes();
            let mut above = (0..bytes.len()).filter(|at| bytes[*at] == b'/').map(|at| &bytes[..at]);
            let stays = tree.entries.get(path).is_some_and(|wanted| wanted.kind == entry.kind);
            if stays || above.any(|folder| gone.contains(folder)) {
                continue;
            }
            self.handle
                .remove_beneath(self.workdir, &self.workdir.join(path))
                .await
                .map_err(|error| error.to_fault(format!("removing {path}")))?;
            gone.insert(bytes);
        }
        Ok(())
    }

    async fn write_changed_entries(
        &self,
        current: &Tree,
        tree: &Tree,
        blobs: &Blobs,
    ) -> Result<(), Fault> {
        let changed =
            tree.entries.values().filter(|one| current.entries.get(&one.path) != Some(one));
        let (folders, others): (Vec<&SnapshotEntry>, Vec<&SnapshotEntry>) =
            changed.partition(|entry| entry.kind == EntryKind::Dir);
        // The entries are sorted, so each directory precedes its contents. Keep directories
        // writable until all contents are written.
        for folder in &folders {
            self.create_folder(folder, folder.mode | 0o700).await?;
        }
        let mut writes = Vec::with_capacity(others.len());
        for entry in others {
            writes.push(self.write_entry(entry, blobs));
        }
        let mut written = stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES);
        while let Some(one) = written.next().await {
            one?;
        }
        for folder in folders.into_iter().rev() {
            self.create_folder(folder, folder.mode).await?;
        }
        Ok(())
    }

    async fn create_folder(&self, entry: &SnapshotEntry, mode: u32) -> Result<(), Fault> {
        let path = self.workdir.join(&entry.path);
        let made = self.handle.create_folder_beneath(self.workdir, &path, mode, self.owner).await;
        made.map_err(|error| write_fault(&entry.path, &error))
    }

    async fn write_entry(&self, entry: &SnapshotEntry, blobs: &Blobs) -> Result<(), Fault> {
        let (content, mode) = match (entry.kind, &entry.hash, &entry.link) {
            (EntryKind::Link, _, Some(target)) => (target.as_bytes().to_vec(), None),
            (EntryKind::File, Some(hash), _) => {
                (blobs.get(hash).map_err(restore_fault)?, Some(entry.mode))
            }
            _ => return Err(restore_fault(format!("the record does not contain {}", entry.path))),
        };
        let path = self.workdir.join(&entry.path);
        let put =
            self.handle.write_entry_beneath(self.workdir, &path, &content, mode, self.owner).await;
        put.map_err(|error| write_fault(&entry.path, &error))
    }
}

fn write_fault(path: &RawPath, error: &SandboxError) -> Fault {
    error.to_fault(format!("restoring {path}"))
}
