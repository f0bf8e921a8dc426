//! Writes a try's record. All writes to the journal, blobs and snapshots go through the recorder,
//! under one lock.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use proctor_gateway::{Meter, WaitNotice};
use proctor_record::{BlobWriter, Blobs, Journal, RecordError, Tree};
use proctor_sandbox_api::{
    BlobSink, LayerState, SandboxHandle, SnapshotError,
    wire::{RawPath, SnapshotEntry, SnapshotReply},
};
use proctor_types::{
    Event, Fault, FaultLayer, Message, OutsideState, RequestChanges, RequestWaits, Responders,
};
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    OutsideLimits,
    error::record_fault,
    outside::{self, OutsideRequest, OutsideScan},
    progress::TrialActivity,
    restore::restore_workdir,
    resume_point::ResumePoint,
    start_tree::RecordedTree,
};

/// A trial's current activity, for display.
pub(crate) enum ActivityUpdate {
    /// A request started waiting.
    WaitStarted(WaitNotice),
    /// The wait ended after this many seconds.
    WaitEnded(f64),
    ActivityChanged(TrialActivity),
}

/// Writes a try's record. The session, the gateway's sink and the egress ledger share one recorder,
/// because they write to the same journal.
pub(crate) struct Recorder {
    /// The trial's blobs.
    blobs: Blobs,
    on_activity: Box<dyn Fn(ActivityUpdate) + Send + Sync>,
    meter: OnceLock<Arc<Meter>>,
    state: Mutex<OpenRecord>,
}

struct OpenRecord {
    /// `None` once the try has ended.
    journal: Option<Journal>,
    tree: Arc<Tree>,
    /// Digest of `tree`.
    digest: String,
    tool_calls: u64,
    responders: Responders,
    request_changes: RequestChanges,
    /// Tool outputs since the last request, as pairs of a call's ID and the output's hash.
    tool_outputs: Vec<(String, String)>,
    /// Entries of the work directory that the scaffold hid from its client.
    hidden_entries: BTreeMap<RawPath, SnapshotEntry>,
    /// Limits for the state outside the work directory. `None` if the trial cannot be resumed, so
    /// that this state is not recorded.
    outside_limits: Option<OutsideLimits>,
    /// State outside the work directory, as last reported by the sandbox.
    reported_outside: Option<OutsideState>,
    /// Whether to record the complete state outside the work directory, no matter how long that
    /// takes.
    records_everything: bool,
    /// Whether the next snapshot is the last one. The last snapshot is graded, and no try resumes
    /// from it.
    is_ending: bool,
    /// Whether the last attempt to record the state outside the work directory failed.
    is_outside_unrecorded: bool,
}

/// Changes a snapshot reply so that entries that the scaffold hid appear unchanged, unless the
/// agent has replaced them. `tree` is the tree before the snapshot.
fn preserve_hidden_entries(
    hidden_entries: &BTreeMap<RawPath, SnapshotEntry>,
    tree: &Tree,
    reply: &mut SnapshotReply,
) {
    if hidden_entries.is_empty() {
        return;
    }
    let removed = std::mem::take(&mut reply.removed);
    let (back, gone): (Vec<_>, Vec<_>) =
        removed.into_iter().partition(|path| hidden_entries.contains_key(path));
    reply.removed = gone;
    for path in back {
        let Some(entry) = hidden_entries.get(&path) else { continue };
        if tree.entries.get(&path) != Some(entry) {
            reply.changed.push(entry.clone());
        }
    }
    reply.changed.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Whether `path` equals `folder` or lies below it.
fn is_within(path: &RawPath, folder: &RawPath) -> bool {
    let rest = path.as_bytes().strip_prefix(folder.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

impl Recorder {
    pub(crate) fn new(
        journal: Journal,
        blobs: Blobs,
        on_activity: Box<dyn Fn(ActivityUpdate) + Send + Sync>,
    ) -> Arc<Self> {
        let (tree, digest, shown) = (Arc::default(), String::new(), Vec::new());
        let (responders, changes) = (Responders::default(), RequestChanges::default());
        let (hidden, journal) = (BTreeMap::new(), Some(journal));
        let state = OpenRecord {
            journal,
            tree,
            digest,
            tool_calls: 0,
            responders,
            request_changes: changes,
            tool_outputs: shown,
            hidden_entries: hidden,
            outside_limits: None,
            reported_outside: None,
            records_everything: false,
            is_ending: false,
            is_outside_unrecorded: false,
        };
        Arc::new(Self { blobs, on_activity, meter: OnceLock::new(), state: Mutex::new(state) })
    }

    /// Appends one event to the current step.
    pub(crate) async fn append(&self, event: Event) -> Result<(), Fault> {
        self.append_at(self.step(), event).await
    }

    /// Appends an event to the given step, which may already be over, and flushes the journal.
    /// Responses and endings are also fsynced, so that a crash never causes a second payment for a
    /// response. Tool outputs have their own events, so they are removed from recorded requests
    /// that repeat them.
    pub(crate) async fn append_at(&self, step: u64, mut event: Event) -> Result<(), Fault> {
        let durable = matches!(
            event,
            Event::ModelAnswered { .. } | Event::GraceAnswered { .. } | Event::TrialEnded { .. }
        );
        let mut state = self.state.lock().await;
        match &mut event {
            Event::ToolCalled { .. } => state.tool_calls += 1,
            Event::ModelAttempted { responder, repairs, error: None, .. } => {
                responder.iter().for_each(|responder| state.responders.add(responder));
                state.request_changes.add_repairs(repairs);
            }
            Event::RequestServed { losses, .. } => state.request_changes.add_losses(losses),
            Event::ToolReturned { call_id, shown, .. } => {
                let shown = Blobs::hash(shown.as_bytes());
                state.tool_outputs.push((call_id.clone(), shown));
            }
            Event::ModelAsked { ask } => {
                let shown = std::mem::take(&mut state.tool_outputs);
                ask.as_returned = omit_tool_outputs(&mut ask.new.messages, &shown);
            }
            _ => {}
        }
        if let Some(doing) = TrialActivity::from_event(&event) {
            self.report_activity(ActivityUpdate::ActivityChanged(doing));
        }
        let Some(journal) = &mut state.journal else {
            return Err(Fault::new(
                FaultLayer::Record,
                "the journal is closed because the try has ended",
            ));
        };
        if let Event::TrialEnded { packed, .. } = &mut event {
            // Sync the blobs first: every blob that the journal references must be on disk before
            // the journal is complete.
            self.blobs.sync().map_err(record_fault)?;
            *packed = self.blobs.pack_size();
        }
        let appended = match durable {
            true => journal.append_durable(step, event),
            false => journal.append(step, event),
        };
        appended.map(drop).map_err(record_fault)
    }

    /// Closes the journal, even if other owners still hold the recorder.
    pub(crate) async fn close(&self) {
        self.state.lock().await.journal = None;
    }

    /// Returns the number of tool calls, including calls by the scaffold itself and by its client.
    pub(crate) async fn tool_call_count(&self) -> u64 {
        self.state.lock().await.tool_calls
    }

    /// Returns the models and endpoints that sent the try's responses.
    pub(crate) async fn responders(&self) -> Responders {
        self.state.lock().await.responders.clone()
    }

    /// Returns the changes that Proctor made to the try's requests.
    pub(crate) async fn request_changes(&self) -> RequestChanges {
        self.state.lock().await.request_changes.clone()
    }

    /// Adds the responder and change counts of an interrupted try.
    pub(crate) async fn add_resumed_counts(
        &self,
        responders: &Responders,
        request_changes: &RequestChanges,
    ) {
        let mut state = self.state.lock().await;
        state.responders.merge(responders);
        state.request_changes.merge(request_changes);
    }

    /// Returns the number of steps that the trial's meter has settled.
    pub(crate) fn step(&self) -> u64 {
        self.meter.get().map_or(0, |meter| meter.steps())
    }

    /// Starts the agent's clock. From then on, the meter determines the current step.
    pub(crate) fn set_meter(&self, meter: Arc<Meter>) {
        // `set` fails only if a meter is already set, and a try sets its meter only once.
        let _ = self.meter.set(meter);
    }

    /// Returns how long the trial's requests waited, by cause; `None` before the agent's clock
    /// starts.
    pub(crate) fn request_waits(&self) -> Option<RequestWaits> {
        self.meter.get().map(|meter| meter.wait_totals())
    }

    pub(crate) fn report_activity(&self, update: ActivityUpdate) {
        (self.on_activity)(update);
    }

    pub(crate) fn store_blob(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.blobs.put(bytes).map_err(record_fault)
    }

    /// Stores the exact bytes of a request or response of this trial and returns their hash.
    pub(crate) fn store_body(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.blobs.put_body(bytes).map_err(record_fault)
    }

    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Includes the state outside the work directory in every later snapshot.
    pub(crate) async fn include_outside(&self, limits: OutsideLimits) {
        self.state.lock().await.outside_limits = Some(limits);
    }

    /// Like `include_outside`, but waits for the complete state no matter how long that takes,
    /// because grading uses everything that the agent changed.
    pub(crate) async fn include_all_outside(&self, limits: OutsideLimits) {
        let mut state = self.state.lock().await;
        (state.outside_limits, state.records_everything) = (Some(limits), true);
    }

    /// Marks the next snapshot as the last one. Returns whether that snapshot is needed even if the
    /// work directory's final tree is known. This is the case if the state outside the work
    /// directory could not be recorded after the last step, because the final attempt may succeed.
    pub(crate) async fn mark_last_snapshot(&self) -> bool {
        let mut state = self.state.lock().await;
        state.is_ending = true;
        state.records_everything && state.is_outside_unrecorded
    }

    /// Returns the request for the state outside the work directory, or `None` if that state is not
    /// recorded.
    async fn outside_request(&self, workdir: &RawPath, is_fresh: bool) -> Option<OutsideRequest> {
        let state = self.state.lock().await;
        let mut layer = state.outside_limits?.request(workdir, &state.tree, is_fresh);
        layer.files_alone = state.records_everything && state.is_ending;
        Some(OutsideRequest { layer, must_be_complete: state.records_everything })
    }

    /// Captures the state outside the work directory. A fresh scan sets the baseline that the
    /// agent starts with.
    async fn scan_outside(
        &self,
        handle: &SandboxHandle,
        request: OutsideRequest,
    ) -> Result<OutsideScan, Fault> {
        let fresh = request.layer.fresh;
        let mut contents =
            SnapshotSink { blobs: &self.blobs, is_shared: false, writer: None, byte_count: 0 };
        let looked = match request.must_be_complete {
            true => handle.capture_layer_without_limit(request.layer, &mut contents).await,
            false => handle.capture_layer(request.layer, &mut contents).await,
        };
        let looked = match looked {
            Ok(looked) => looked,
            Err(SnapshotError::Sink(error)) => return Err(record_fault(error)),
            Err(SnapshotError::Sandbox(error)) if error.refusal_kind().is_some() => {
                LayerState::Unrestorable(error.to_string())
            }
            Err(SnapshotError::Sandbox(error)) => {
                return Err(error.to_fault("inspecting files outside the work directory"));
            }
        };
        let mut state = self.state.lock().await;
        let outside = match looked {
            _ if fresh => {
                state.reported_outside = None;
                None
            }
            // Not a fault: a state that could not be recorded matters only if the trial is
            // interrupted.
            LayerState::Unrestorable(why) => Some(OutsideState::Unkept(why)),
            LayerState::Unchanged => state.reported_outside.clone(),
            LayerState::Changed(layer) => {
                let is_empty = layer.changed.is_empty() && layer.removed.is_empty();
                let json = serde_json::to_vec(&layer).map_err(|error| {
                    let what = format!("cannot serialize the sandbox state: {error}");
                    Fault::new(FaultLayer::Record, what)
                })?;
                state.reported_outside = match is_empty {
                    true => None,
                    false => Some(OutsideState::Kept(self.store_blob(&json)?)),
                };
                state.reported_outside.clone()
            }
        };
        state.is_outside_unrecorded = matches!(outside, Some(OutsideState::Unkept(_)));
        Ok(OutsideScan { state: outside, bytes: contents.byte_count })
    }

    /// Takes and records a snapshot of the work directory. Returns its tree.
    pub(crate) async fn snapshot(
        &self,
        handle: &SandboxHandle,
        workdir: &RawPath,
        is_fresh: bool,
    ) -> Result<Arc<Tree>, Fault> {
        let begun = Instant::now();
        let mut request = proctor_setup::snapshot_request(workdir, is_fresh);
        {
            let state = self.state.lock().await;
            if let Some(limits) = state.outside_limits.filter(|_| state.records_everything) {
                request.file_limit = request.file_limit.max(limits.file_bytes);
                request.content_limit = 0;
            }
        }
        let mut contents =
            SnapshotSink { blobs: &self.blobs, is_shared: is_fresh, writer: None, byte_count: 0 };
        // Scan both concurrently: the engine needs as long to list changes outside the work
        // directory as the sandbox agent needs to walk a repository. A fresh scan outside the work
        // directory sets the baseline for later scans, so it has to come last.
        let asked = match is_fresh {
            true => None,
            false => self.outside_request(workdir, is_fresh).await,
        };
        let look = async {
            match asked.clone() {
                Some(asked) => self.scan_outside(handle, asked).await.map(Some),
                None => Ok(None),
            }
        };
        let (replied, looked) = tokio::join!(handle.snapshot_to(request, &mut contents), look);
        let mut reply = match replied {
            Ok(reply) => reply,
            Err(SnapshotError::Sink(error)) => return Err(record_fault(error)),
            // If the agent made its work unreadable, use the last readable tree. With a fault
            // instead, an agent could avoid being scored.
            Err(SnapshotError::Sandbox(error)) if !is_fresh && error.refusal_kind().is_some() => {
                let note = json!({ "snapshot_refused": error.to_string() });
                self.append(Event::Noted { note: note.as_object().cloned().unwrap_or_default() })
                    .await?;
                return Ok(self.last_tree().await);
            }
            Err(SnapshotError::Sandbox(error)) => return Err(error.to_fault("taking a snapshot")),
        };
        let mut bytes = contents.byte_count;
        let (tree, snapshot, changed, removed) = {
            let mut state = self.state.lock().await;
            if is_fresh {
                state.tree = Arc::default();
            }
            preserve_hidden_entries(&state.hidden_entries, &state.tree, &mut reply);
            let (changed, removed) = (reply.changed.len() as u64, reply.removed.len() as u64);
            if is_fresh || changed + removed > 0 || state.tree.unwalked_dirs != reply.unwalked {
                Arc::make_mut(&mut state.tree).apply_snapshot(&reply);
                let saved = match is_fresh {
                    true => state.tree.save(&self.blobs),
                    false => state.tree.save_as_diff(&self.blobs, &state.digest, &reply),
                };
                state.digest = saved.map_err(record_fault)?;
            }
            (Arc::clone(&state.tree), state.digest.clone(), changed, removed)
        };
        let mut outside = looked?.unwrap_or_default();
        bytes += outside.bytes;
        // A fresh scan outside the work directory was deferred until now. Otherwise, repeat the
        // scan if the snapshot found repositories that the earlier request did not include.
        if is_fresh || changed + removed > 0 {
            let now = self.outside_request(workdir, is_fresh).await;
            if let Some(now) = now.filter(|now| asked.as_ref() != Some(now)) {
                outside = self.scan_outside(handle, now).await?;
                bytes += outside.bytes;
            }
        }
        let outside = outside.state;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        let taken = Event::SnapshotTaken { snapshot, changed, removed, bytes, ms, outside };
        self.append(taken).await?;
        Ok(tree)
    }

    /// Makes every later snapshot report the given paths, and everything below them, in the state
    /// of the last snapshot.
    pub(crate) async fn hide(&self, paths: &[RawPath]) {
        let mut state = self.state.lock().await;
        let is_hidden = |path: &RawPath| paths.iter().any(|hidden| is_within(path, hidden));
        let entries = state.tree.entries.iter().filter(|(path, _)| is_hidden(path));
        let hidden = entries.map(|(path, entry)| (path.clone(), entry.clone())).collect();
        state.hidden_entries = hidden;
    }

    /// Restores the recorded state in the sandbox. Later changes are recorded relative to this
    /// state.
    pub(crate) async fn restore(
        &self,
        handle: &SandboxHandle,
        workdir: &RawPath,
        resume_point: &ResumePoint,
        owner: Option<&str>,
    ) -> Result<(), Fault> {
        let tree = Arc::new(Tree::load(&self.blobs, &resume_point.tree).map_err(record_fault)?);
        {
            let mut state = self.state.lock().await;
            (state.tree, state.tool_calls) = (Arc::clone(&tree), resume_point.tool_calls);
            resume_point.tree.clone_into(&mut state.digest);
        }
        if let Some(asked) = self.outside_request(workdir, true).await {
            self.scan_outside(handle, asked).await?;
        }
        restore_workdir(handle, workdir, &self.blobs, &tree, owner).await?;
        let Some(digest) = &resume_point.outside_state else { return Ok(()) };
        let recorded = outside::load_layer(&self.blobs, digest).map_err(outside::restore_fault)?;
        outside::restore_layer(handle, &self.blobs, &recorded).await?;
        let Some(asked) = self.outside_request(workdir, false).await else { return Ok(()) };
        match self.scan_outside(handle, asked).await?.state {
            Some(OutsideState::Kept(digest)) => {
                let found = outside::load_layer(&self.blobs, &digest).map_err(record_fault)?;
                outside::verify_restored(&recorded, &found)
            }
            Some(OutsideState::Unkept(why)) => Err(outside::restore_fault(why)),
            None => outside::verify_restored(&recorded, &Default::default()),
        }
    }

    /// Returns the tree of the last snapshot with its digest and blobs.
    pub(crate) async fn start_tree(&self) -> RecordedTree {
        let state = self.state.lock().await;
        let (tree, digest) = (Arc::clone(&state.tree), state.digest.clone());
        RecordedTree { digest, tree, blobs: self.blobs.clone() }
    }

    /// Returns the tree of the last snapshot.
    pub(crate) async fn last_tree(&self) -> Arc<Tree> {
        Arc::clone(&self.state.lock().await.tree)
    }
}

/// Stores a snapshot's contents as blobs while they arrive.
struct SnapshotSink<'a> {
    blobs: &'a Blobs,
    /// Whether to share the blobs with other trials of the task. Only the files that the agent
    /// starts with are shared.
    is_shared: bool,
    writer: Option<BlobWriter>,
    byte_count: u64,
}

impl BlobSink for SnapshotSink<'_> {
    type Error = RecordError;

    fn begin(&mut self, length: u64) -> Result<(), RecordError> {
        self.byte_count += length;
        self.writer = Some(self.blobs.writer(self.is_shared));
        Ok(())
    }

    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.writer.as_mut().map_or(Ok(()), |new| new.write(bytes))
    }

    fn end(&mut self) -> Result<(), RecordError> {
        self.writer.take().map_or(Ok(()), |new| new.finish().map(drop))
    }
}

/// Removes the text of messages that repeat a tool's output. Returns their indices.
fn omit_tool_outputs(messages: &mut [Message], tool_outputs: &[(String, String)]) -> Vec<usize> {
    let mut omitted = Vec::new();
    for (index, message) in messages.iter_mut().enumerate() {
        if let Message::Tool { call_id, content } = message
            && !content.is_empty()
            && let Some((_, hash)) = tool_outputs.iter().rfind(|(call, _)| call == call_id)
            && *hash == Blobs::hash(content.as_bytes())
        {
            content.clear();
            omitted.push(index);
        }
    }
    omitted
}

#[cfg(test)]
mod tests {
    use proctor_sandbox_api::wire::EntryKind;

    use super::*;

    fn file(path: &str, content: &str) -> SnapshotEntry {
        SnapshotEntry {
            path: path.into(),
            kind: EntryKind::File,
            mode: 0o644,
            size: content.len() as u64,
            hash: Some(Blobs::hash(content.as_bytes())),
            link: None,
        }
    }

    #[test]
    fn preserve_hidden_entries_stops_when_the_agent_replaces_them() {
        let original = [file(".mcp.json", "repo"), file("a.py", "1"), file(".x/y", "repo")];
        let mut tree = Tree::default();
        tree.apply_snapshot(&SnapshotReply {
            changed: original.to_vec(),
            ..SnapshotReply::default()
        });
        let base = tree.clone();
        let is_hidden = |entry: &&SnapshotEntry| {
            ["x", ".x", ".mcp.json"].iter().any(|one| is_within(&entry.path, &RawPath::from(*one)))
        };
        let hidden: BTreeMap<_, _> = original
            .iter()
            .filter(is_hidden)
            .map(|entry| (entry.path.clone(), entry.clone()))
            .collect();
        assert_eq!(hidden.len(), 2);
        let mut step = |changed: &[SnapshotEntry], removed: &[&str]| {
            let removed = removed.iter().map(|path| RawPath::from(*path)).collect();
            let mut reply =
                SnapshotReply { changed: changed.to_vec(), removed, ..SnapshotReply::default() };
            preserve_hidden_entries(&hidden, &tree, &mut reply);
            tree.apply_snapshot(&reply);
            tree.clone()
        };
        // A hidden file counts as unchanged.
        assert_eq!(step(&[], &[".mcp.json", ".x/y"]), base);
        // The agent's changes are recorded, even at the path of a hidden file.
        let own = step(&[file(".mcp.json", "agent")], &["a.py"]);
        let path = RawPath::from(".mcp.json");
        assert_eq!(own.entries.get(&path), Some(&file(".mcp.json", "agent")));
        assert_eq!(own.entries.get(&RawPath::from("a.py")), None);
        // When the agent removes its own file, the repository's file reappears.
        assert_eq!(step(&[], &[".mcp.json"]).entries.get(&path), Some(&original[0]));
    }

    #[tokio::test]
    async fn closed_journal_can_be_reopened_while_the_recorder_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trajectory.jsonl");
        let journal = Journal::create(&path, 1).unwrap();
        let blobs = Blobs::new(folder.path().join("blobs"));
        let recorder = Recorder::new(journal, blobs, Box::new(|_| {}));
        let noted = || Event::Noted { note: serde_json::Map::new() };
        recorder.append(noted()).await.unwrap();
        recorder.close().await;
        let mut next = Journal::open(&path).unwrap();
        assert_eq!(next.append(0, noted()).unwrap(), 2);
        assert!(recorder.append(noted()).await.is_err(), "one writer at a time");
    }

    #[test]
    fn recorded_request_omits_only_tool_outputs() {
        let tool = |call: &str, content: &str| Message::Tool {
            call_id: call.into(),
            content: content.into(),
        };
        let shown = [("a", "one"), ("b", "two"), ("a", "again")]
            .map(|(call, text)| (call.to_owned(), Blobs::hash(text.as_bytes())));
        let mut messages = vec![
            Message::User { content: "one".into() },
            tool("a", "again"),
            tool("b", "two, shortened"),
            tool("c", "one"),
            tool("b", ""),
        ];
        let whole = messages.clone();
        assert_eq!(omit_tool_outputs(&mut messages, &shown), [1]);
        assert_eq!(messages[1], tool("a", ""));
        assert_eq!((&messages[0], &messages[2..]), (&whole[0], &whole[2..]));
    }
}
