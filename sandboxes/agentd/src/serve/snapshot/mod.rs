//! What changed below a folder since the last look.

mod root;
mod table;
mod walk;

use std::{
    collections::{BTreeMap, HashSet},
    sync::PoisonError,
    time::Instant,
};

use proctor_wire::{
    BODY_LIMIT, ChangesRequest, RawPath, Refusal, RefusalKind, Reply, SnapshotReply,
    SnapshotRequest, channel,
};
use rustix::io::Errno;

pub use table::Sent;
use walk::Walk;

use super::{dispatch::Server, refusal::refuse, stream::Stream};

/// Sandbox in the reply's frame for what is not the manifest, in bytes.
const MARGIN: usize = 1024;

/// Walks the root, sends the content of what the connection has not sent, and answers with the
/// difference to the table of the last snapshot. Nothing is remembered of a snapshot that was
/// refused or cancelled: the next one sends it all again.
pub fn snapshot(
    server: &Server,
    stream: &Stream,
    request: &SnapshotRequest,
) -> Result<Reply, Refusal> {
    let started = Instant::now();
    // One snapshot at a time: two would race for the table.
    let mut sent = server.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
    let first = if request.fresh { None } else { sent.roots.get(&request.root).copied() };
    let root = root::open(&request.root, first)?;
    let identity = root.as_ref().map(root::identity).transpose()?;
    let empty = BTreeMap::new();
    let before = match request.fresh {
        true => &empty,
        false => sent.tables.get(&request.root).unwrap_or(&empty),
    };
    let forgotten = HashSet::new();
    let mut walk = Walk {
        server,
        stream,
        request,
        before,
        hashes: if request.fresh { &forgotten } else { &sent.hashes },
        seen: BTreeMap::new(),
        changed: Vec::new(),
        new_hashes: HashSet::new(),
        path_bytes: 0,
        since: None,
    };
    if let Some(root) = root {
        walk.tree(root)?;
    }
    let Walk { seen, mut changed, new_hashes, .. } = walk;
    changed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let gone = before.keys().filter(|path| !seen.contains_key(*path));
    let removed = gone.map(|path| RawPath::new(path.clone())).collect();
    let took_us = started.elapsed().as_micros() as u64;
    let mut reply = SnapshotReply { changed, removed, entries: seen.len() as u64, took_us };
    stream.send_end(&server.outbox, channel::STDOUT);
    page(server, stream, &mut reply)?;
    if request.fresh {
        sent.hashes.clear();
    }
    sent.hashes.extend(new_hashes);
    sent.tables.insert(request.root.clone(), seen);
    if let Some(identity) = first.or(identity) {
        sent.roots.insert(request.root.clone(), identity);
    }
    Ok(Reply::Snapshot(reply))
}

/// Walks the root and answers with what changed after a moment. No file is read, and the tables of
/// snapshots stay what they are. A root that is not there has no changes.
pub fn changes(
    server: &Server,
    stream: &Stream,
    request: &ChangesRequest,
) -> Result<Reply, Refusal> {
    let started = Instant::now();
    let root = match root::open(&request.root, None) {
        Ok(root) => root,
        Err(refusal) if refusal.why == RefusalKind::NotFound => None,
        Err(refusal) => return Err(refusal),
    };
    let (empty, forgotten) = (BTreeMap::new(), HashSet::new());
    let as_snapshot = SnapshotRequest {
        root: request.root.clone(),
        fresh: true,
        skip: request.skip.clone(),
        file_limit: 0,
        entry_limit: request.entry_limit,
    };
    let mut walk = Walk {
        server,
        stream,
        request: &as_snapshot,
        before: &empty,
        hashes: &forgotten,
        seen: BTreeMap::new(),
        changed: Vec::new(),
        new_hashes: HashSet::new(),
        path_bytes: 0,
        since: Some(request.since),
    };
    if let Some(root) = root {
        walk.tree(root)?;
    }
    let Walk { seen, mut changed, .. } = walk;
    changed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let took_us = started.elapsed().as_micros() as u64;
    let entries = seen.len() as u64;
    let mut reply = SnapshotReply { changed, removed: Vec::new(), entries, took_us };
    stream.send_end(&server.outbox, channel::STDOUT);
    page(server, stream, &mut reply)?;
    Ok(Reply::Snapshot(reply))
}

/// A manifest that does not fit a frame goes over `RESULTS` as JSON lines: an object is a changed
/// entry, a string is a removed path.
fn page(server: &Server, stream: &Stream, reply: &mut SnapshotReply) -> Result<(), Refusal> {
    let wrong = |error: serde_json::Error| refuse(RefusalKind::Io, format!("manifest: {error}"));
    let whole = serde_json::to_vec(&*reply).map_err(wrong)?.len();
    if whole <= BODY_LIMIT - MARGIN {
        return Ok(());
    }
    let mut lines = Vec::new();
    for entry in std::mem::take(&mut reply.changed) {
        serde_json::to_writer(&mut lines, &entry).map_err(wrong)?;
        lines.push(b'\n');
        flush(server, stream, &mut lines, BODY_LIMIT / 4)?;
    }
    let removed = serde_json::to_vec(&reply.removed).map_err(wrong)?.len();
    if removed > BODY_LIMIT - MARGIN {
        for path in std::mem::take(&mut reply.removed) {
            serde_json::to_writer(&mut lines, &path).map_err(wrong)?;
            lines.push(b'\n');
            flush(server, stream, &mut lines, BODY_LIMIT / 4)?;
        }
    }
    flush(server, stream, &mut lines, 0)?;
    stream.send_end(&server.outbox, channel::RESULTS);
    Ok(())
}

fn flush(
    server: &Server,
    stream: &Stream,
    lines: &mut Vec<u8>,
    past: usize,
) -> Result<(), Refusal> {
    if lines.len() > past {
        stream.send_all(&server.outbox, channel::RESULTS, lines)?;
        lines.clear();
    }
    Ok(())
}

/// What vanished since it was listed is simply not there; everything else is a failure.
fn unless_gone<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}
