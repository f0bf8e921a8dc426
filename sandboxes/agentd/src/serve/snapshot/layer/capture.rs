//! Replies with the changes outside the work directory.

use std::{
    collections::{HashMap, HashSet},
    sync::PoisonError,
};

use proctor_wire::{
    ContainerDiff, EntryKind, LayerDiff, LayerEntry, LayerReply, LayerRequest, RawPath, Refusal,
    RefusalKind, Reply, SnapshotRequest, channel,
};
use rustix::fs::{CWD, Mode, openat};

use super::{
    super::{
        lookahead::Lookahead,
        state::SnapshotState,
        table::{EntryState, Table},
        walk::Walk,
    },
    changes::{Changes, find_changes},
    list::{EntrySource, WrittenEntries, WrittenEntry, list_written},
    non_file_state::NonFileState,
    open::{FOLDER_FLAGS, PARENT_FLAGS, open, upper_folder},
    paths::{cannot_examine_message, display, split_parent},
    state::LayerState,
};
use crate::serve::{refusal::new_refusal, server::Server, stream::Stream};

/// Maximum size of the container engine's list of written paths, in bytes.
const WRITTEN_PATHS_LIMIT: usize = 64 << 20;

/// Replies with the state outside the work directory, or with the reason why it cannot be captured.
pub fn capture_layer(
    server: &Server,
    stream: &Stream,
    request: &LayerRequest,
) -> Result<Reply, Refusal> {
    let written = if request.listed { Some(receive_written_paths(server, stream)?) } else { None };
    // Handle one request at a time, and none during a snapshot, because both track which content
    // was sent.
    let mut sent = server.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
    // Check processes before listing files. A process that is running now could still write during
    // the listing.
    let beside = NonFileState::capture();
    let listed = list_written(request, written.as_ref(), &beside.mounts);
    if request.fresh {
        sent.layer =
            LayerState { baseline: listed.ok(), non_file_state: beside, ..LayerState::default() };
        send_ends(server, stream);
        return Ok(Reply::Layer(LayerReply::default()));
    }
    let SnapshotState { hashes, layer: state, .. } = &mut *sent;
    let unkept = match (&state.baseline, listed) {
        (None, _) => Err("the state at the agent's start is unknown".to_owned()),
        (_, Err(why)) => Err(why),
        (Some(base), Ok(listed)) => match beside.unrestorable_reason(&state.non_file_state) {
            Some(why) if !request.files_alone => Err(why),
            _ => find_changes(base, &listed, request).map(|changes| (listed, changes)),
        },
    };
    let mut found = LayerDiff::default();
    let unkept = match unkept {
        Err(why) => Some(why),
        Ok((listed, changes)) => {
            let mut new_hashes = HashSet::new();
            let known = (&*hashes, &state.last_read_entries);
            let read =
                read_contents(server, stream, request, &listed, &changes, known, &mut new_hashes);
            hashes.extend(new_hashes);
            match read? {
                Err(why) => Some(why),
                Ok(read) => {
                    for path in &changes.changed_paths {
                        let (Some(seen), Some(found_at)) = (read.get(path), listed.get(path))
                        else {
                            continue;
                        };
                        let (uid, gid) = found_at.owner;
                        found.changed.push(LayerEntry {
                            entry: seen.to_entry(path.clone()),
                            uid,
                            gid,
                        });
                    }
                    found.removed = changes.removed_paths.into_iter().map(RawPath::new).collect();
                    state.last_read_entries = read;
                    None
                }
            }
        }
    };
    let json = serde_json::to_vec(&found).map_err(|error| {
        new_refusal(RefusalKind::Io, format!("cannot encode the layer: {error}"))
    })?;
    let why = unkept.as_deref().unwrap_or_default();
    let digest = *blake3::Hasher::new().update(&json).update(why.as_bytes()).finalize().as_bytes();
    let same = state.last_reply_hash == Some(digest);
    if !same {
        stream.send_all(&server.outbox, channel::RESULTS, &json)?;
    }
    state.last_reply_hash = Some(digest);
    send_ends(server, stream);
    Ok(Reply::Layer(LayerReply { same, unkept }))
}

fn send_ends(server: &Server, stream: &Stream) {
    stream.send_end(&server.outbox, channel::STDOUT);
    stream.send_end(&server.outbox, channel::RESULTS);
}

fn receive_written_paths(server: &Server, stream: &Stream) -> Result<ContainerDiff, Refusal> {
    let mut text = Vec::new();
    while let Some(piece) = stream.next_input(&server.outbox)? {
        if text.len() + piece.len() > WRITTEN_PATHS_LIMIT {
            let what = format!("the list of written paths exceeds {WRITTEN_PATHS_LIMIT} bytes");
            return Err(new_refusal(RefusalKind::TooLarge, what));
        }
        text.extend_from_slice(&piece);
    }
    serde_json::from_slice(&text).map_err(|error| {
        new_refusal(RefusalKind::BadRequest, format!("invalid list of written paths: {error}"))
    })
}

/// Reads the changed entries, and sends content that was not yet sent over this connection. The
/// inner error is the reason why the state cannot be captured.
fn read_contents(
    server: &Server,
    stream: &Stream,
    request: &LayerRequest,
    written_entries: &WrittenEntries,
    changes: &Changes,
    (hashes, previous_entries): (&HashSet<[u8; 32]>, &HashMap<Vec<u8>, EntryState>),
    new_hashes: &mut HashSet<[u8; 32]>,
) -> Result<Result<HashMap<Vec<u8>, EntryState>, String>, Refusal> {
    let as_snapshot = SnapshotRequest {
        root: RawPath::from("/"),
        fresh: false,
        skip: Vec::new(),
        file_limit: request.file_limit,
        // `find_changes` has already checked the content limit.
        content_limit: 0,
        entry_limit: request.entry_limit,
    };
    let (empty, ahead) = (Table::default(), Lookahead::default());
    let mut walk = Walk::new(server, stream, &as_snapshot, (&empty, &ahead), hashes);
    let root = match openat(CWD, "/", FOLDER_FLAGS, Mode::empty()) {
        Ok(root) => root,
        Err(error) => return Ok(Err(cannot_examine_message(b"", error))),
    };
    let mut read = HashMap::with_capacity(changes.changed_paths.len());
    let mut why = None;
    for path in &changes.changed_paths {
        let Some(WrittenEntry { stat_fingerprint: Some(witness), source: place, .. }) =
            written_entries.get(path)
        else {
            continue;
        };
        let known = previous_entries
            .get(path)
            .filter(|old| old.is_still_valid(witness) && !old.lacks_content());
        let seen = match (known, witness.kind) {
            (Some(known), _) => Some(known.clone()),
            (None, EntryKind::Dir) => Some(EntryState::new(*witness, None, None)),
            (None, _) => {
                let top = match (place, upper_folder()) {
                    (EntrySource::Upper, Some(upper)) => upper,
                    _ => &root,
                };
                let (parent, name) = split_parent(path);
                match open(top, parent, PARENT_FLAGS) {
                    Ok(folder) => walk.read_entry(&folder, name, *witness)?,
                    Err(_) => None,
                }
            }
        };
        match seen.filter(|seen| !seen.lacks_content()) {
            Some(seen) => drop(read.insert(path.clone(), seen)),
            None => {
                why = Some(format!("{} cannot be read", display(path)));
                break;
            }
        }
    }
    new_hashes.extend(walk.new_hashes);
    Ok(why.map_or(Ok(read), Err))
}
