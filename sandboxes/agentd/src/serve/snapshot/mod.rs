//! Captures what changed below a directory since the last snapshot.

mod difference;
mod layer;
mod lookahead;
mod root;
mod state;
mod table;
mod walk;

use std::{collections::HashSet, sync::PoisonError, time::Instant};

use proctor_wire::{
    BODY_LIMIT, ChangesRequest, RawPath, Refusal, RefusalKind, Reply, SnapshotReply,
    SnapshotRequest, channel,
};
use serde::Serialize;

use difference::{Difference, differences};
pub use layer::{capture_layer, remember_upper};
use lookahead::Lookahead;
pub use state::SnapshotState;
use table::Table;
use walk::Walk;

use super::{refusal::new_refusal, server::Server, stream::Stream};

/// Bytes of the reply's frame that are reserved for everything except the manifest.
const REPLY_MARGIN_BYTES: usize = 1024;

/// Maximum number of changes in the reply itself. Also, they must fit in its frame.
const MAX_INLINE_CHANGES: usize = 4096;

/// Buffered manifest lines are sent once they exceed this many bytes.
const PAGE_BYTES: usize = 256 << 10;

/// Walks the root, sends content that was not yet sent over this connection, and replies with the
/// difference from the last snapshot. If the snapshot is rejected or cancelled, its state is
/// discarded, and the next one sends the same content again.
///
/// A snapshot never fails because of the tree's content: the trial would then lose all its work.
/// The reply lists entries that cannot be walked or read, and the rest is captured.
pub fn snapshot(
    server: &Server,
    stream: &Stream,
    request: &SnapshotRequest,
) -> Result<Reply, Refusal> {
    let started = Instant::now();
    // Take one snapshot at a time, because each replaces the table of the last one.
    let mut sent = server.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
    let first = if request.fresh { None } else { sent.roots.get(&request.root) };
    let first = first.map(root::file_id).transpose()?;
    let known = sent.tables.get(&request.root).map(|table| table.listing(b""));
    let root = root::open_root(&request.root, first, known.unwrap_or_default())?;
    let before = match request.fresh {
        true => None,
        false => sent.tables.remove(&request.root),
    };
    let before = before.unwrap_or_default();
    let (forgotten, ahead) = (HashSet::new(), Lookahead::default());
    let hashes = if request.fresh { &forgotten } else { &sent.hashes };
    let mut walk = Walk::new(server, stream, request, (&before, &ahead), hashes);
    let walked = ahead.walk_with_lookahead(root.as_ref(), &before, || match &root {
        Some(root) => walk.walk_tree(root),
        None => Ok(()),
    });
    let Walk { current: mut seen, entry_count: entries, unwalked, new_hashes, .. } = walk;
    let done = walked.and_then(|()| {
        for folder in &unwalked {
            seen.keep_previous_entries(&before, folder);
        }
        let unwalked = unwalked.into_iter().map(RawPath::new).collect();
        stream.send_end(&server.outbox, channel::STDOUT);
        let mut reply = SnapshotReply { unwalked, entries, ..SnapshotReply::default() };
        send_difference(server, stream, (&before, &seen), &mut reply)?;
        reply.took_us = started.elapsed().as_micros() as u64;
        Ok(reply)
    });
    match done {
        Ok(reply) => {
            if request.fresh {
                sent.hashes.clear();
            }
            sent.hashes.extend(new_hashes);
            sent.tables.insert(request.root.clone(), seen);
            if let (None, Some(root)) = (first, root) {
                sent.roots.insert(request.root.clone(), root);
            }
            Ok(Reply::Snapshot(reply))
        }
        Err(refusal) => {
            if !request.fresh {
                sent.tables.insert(request.root.clone(), before);
            }
            Err(refusal)
        }
    }
}

/// Walks the root and replies with what changed after a given time. Reads no file contents and does
/// not affect the tables of the snapshots. If the root is missing, there are no changes.
pub fn list_changes(
    server: &Server,
    stream: &Stream,
    request: &ChangesRequest,
) -> Result<Reply, Refusal> {
    let started = Instant::now();
    let root = match root::open_root(&request.root, None, &[]) {
        Ok(root) => root,
        Err(refusal) if refusal.why == RefusalKind::NotFound => None,
        Err(refusal) => return Err(refusal),
    };
    let (empty, forgotten, ahead) = (Table::default(), HashSet::new(), Lookahead::default());
    let as_snapshot = SnapshotRequest {
        root: request.root.clone(),
        fresh: true,
        skip: request.skip.clone(),
        file_limit: 0,
        content_limit: 0,
        entry_limit: request.entry_limit,
    };
    let mut walk = Walk::new(server, stream, &as_snapshot, (&empty, &ahead), &forgotten);
    walk.reads_content = false;
    if let Some(root) = &root {
        walk.walk_tree(root)?;
    }
    let Walk { current: mut seen, entry_count: entries, unwalked, .. } = walk;
    seen.keep_changed_after(request.since);
    let unwalked = unwalked.into_iter().map(RawPath::new).collect();
    stream.send_end(&server.outbox, channel::STDOUT);
    let mut reply = SnapshotReply { unwalked, entries, ..SnapshotReply::default() };
    send_difference(server, stream, (&empty, &seen), &mut reply)?;
    reply.took_us = started.elapsed().as_micros() as u64;
    Ok(Reply::Snapshot(reply))
}

/// Puts the difference into the reply. If it may not fit in a frame, sends it on `RESULTS` as JSON
/// lines: an object is a changed entry, and a string is a removed path. Entries are written one at
/// a time, because a list of all entries in addition to the tables would need memory that a full
/// sandbox does not have.
fn send_difference(
    server: &Server,
    stream: &Stream,
    (previous, current): (&Table, &Table),
    reply: &mut SnapshotReply,
) -> Result<(), Refusal> {
    let mut few: Vec<_> = differences(previous, current).take(MAX_INLINE_CHANGES + 1).collect();
    if few.len() <= MAX_INLINE_CHANGES {
        few.sort_by(|one, other| one.path().cmp(other.path()));
        let mut whole = reply.clone();
        for one in few {
            match one {
                Difference::Changed(path, entry) => whole.changed.push(entry.to_entry(path)),
                Difference::Removed(path) => whole.removed.push(RawPath(path)),
            }
        }
        if to_json_line(&whole)?.len() <= BODY_LIMIT - REPLY_MARGIN_BYTES {
            *reply = whole;
            return Ok(());
        }
    }
    let mut lines = Vec::new();
    for one in differences(previous, current) {
        lines.extend(match one {
            Difference::Changed(path, entry) => to_json_line(&entry.to_entry(path))?,
            Difference::Removed(path) => to_json_line(&RawPath(path))?,
        });
        flush_lines(server, stream, &mut lines, PAGE_BYTES)?;
    }
    flush_lines(server, stream, &mut lines, 0)?;
    stream.send_end(&server.outbox, channel::RESULTS);
    Ok(())
}

fn to_json_line(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    let wrong =
        |error: serde_json::Error| new_refusal(RefusalKind::Io, format!("manifest: {error}"));
    let mut line = serde_json::to_vec(value).map_err(wrong)?;
    line.push(b'\n');
    Ok(line)
}

fn flush_lines(
    server: &Server,
    stream: &Stream,
    lines: &mut Vec<u8>,
    threshold: usize,
) -> Result<(), Refusal> {
    if lines.len() > threshold {
        stream.send_all(&server.outbox, channel::RESULTS, lines)?;
        lines.clear();
    }
    Ok(())
}
