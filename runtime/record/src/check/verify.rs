//! Verifies a trial by reading its whole record.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use proctor_types::{Event, OutsideState};

use super::{
    checked_trial::CheckedTrial,
    corruption::{Corruption, Remedy},
    missing_blobs::MissingBlobs,
};
use crate::{
    Blobs, Tree, TrialDir,
    disk::{self, describe_read_error},
    journal_reader::read_journal,
    pack::find_corrupt_entries,
    trial_dir::{GRADING_LOG, GRADING_RESULTS, PACK_FILE, TRAJECTORY_FILE},
};

/// Blobs of a run that were read and found intact. They are remembered because many trials refer to
/// the same blobs.
pub(crate) type VerifiedBlobs = HashSet<String>;

/// Maximum number of tries that are checked per trial.
const MAX_TRIES: usize = 1000;

impl TrialDir {
    /// Finds corruption that only a full read can detect: in blobs, packs, grading files and
    /// discarded tries.
    pub(crate) fn verify(
        &self,
        blobs: &Blobs,
        verified_blobs: &mut VerifiedBlobs,
        checked_trial: &mut CheckedTrial,
    ) {
        self.verify_blobs(blobs, verified_blobs, checked_trial);
        let mut damage = Vec::new();
        self.verify_grading_files(&mut damage);
        for (_, folder) in self.discarded_try_dirs().unwrap_or_default() {
            let journal = folder.join(TRAJECTORY_FILE);
            // `missing_try_corruptions` reports a journal that is missing or unreadable.
            if let Ok(reading) = read_journal(&journal) {
                damage.extend(reading.bad_lines.into_iter().map(|bad| Corruption {
                    path: bad.path,
                    line: Some(bad.line),
                    reason: bad.reason,
                    remedy: Remedy::LostEvidence,
                }));
            }
            verify_journal_blobs(
                &journal,
                &folder.join(PACK_FILE),
                blobs,
                Remedy::LostEvidence,
                verified_blobs,
                &mut damage,
            );
        }
        merge_corruptions(damage, checked_trial);
    }

    /// Checks the blobs that the latest try's journal refers to. [`TrialDir::verify`] includes this
    /// check.
    pub(crate) fn verify_blobs(
        &self,
        blobs: &Blobs,
        verified_blobs: &mut VerifiedBlobs,
        checked_trial: &mut CheckedTrial,
    ) {
        let mut damage = Vec::new();
        verify_journal_blobs(
            &self.trajectory_path(),
            &self.pack_path(),
            blobs,
            Remedy::RestoreFromCopy,
            verified_blobs,
            &mut damage,
        );
        merge_corruptions(damage, checked_trial);
    }

    fn verify_grading_files(&self, corruptions: &mut Vec<Corruption>) {
        let mut files = Vec::new();
        // If the journal is unreadable, the trial's check reports that.
        if let Ok(Some(graded)) = self.last_grading() {
            files.push((GRADING_LOG.to_owned(), graded.log));
            files.push((GRADING_RESULTS.to_owned(), graded.results));
        }
        let journal = self.gradings_path();
        let reading = journal.is_file().then(|| read_journal(&journal));
        for envelope in reading.into_iter().flatten().flat_map(|reading| reading.events) {
            if let Event::GradingFailed { log_file: Some(name), log: Some(hash), .. } =
                envelope.event
            {
                files.push((name, hash));
            }
        }
        for (name, hash) in files {
            let path = self.grading_dir().join(name);
            let why = match disk::try_read_if_exists(&path) {
                Ok(Some(bytes)) if Blobs::hash(&bytes) == hash => continue,
                Ok(Some(_)) => "differs from the file that grading wrote".to_owned(),
                Ok(None) => "missing".to_owned(),
                Err(error) => describe_read_error(&error),
            };
            corruptions.push(Corruption::new(path, why, Remedy::LostEvidence));
        }
    }

    /// Returns the directories of discarded tries, by try number.
    fn discarded_try_dirs(&self) -> io::Result<BTreeMap<u32, PathBuf>> {
        let found = match fs::read_dir(self.tries_dir()) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let mut folders = BTreeMap::new();
        for entry in found {
            let entry = entry?;
            // Entries with other names are not tries.
            if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                folders.insert(number, entry.path());
            }
        }
        Ok(folders)
    }

    /// Returns a corruption for each try before the latest one whose journal is missing, empty or
    /// not a file. Each try starts by creating its journal, so every try number must have a
    /// journal.
    pub(crate) fn missing_try_corruptions(&self, latest_try: u32) -> Vec<Corruption> {
        let evidence = |path, why: &str| Corruption::new(path, why, Remedy::LostEvidence);
        let folders = match self.discarded_try_dirs() {
            Ok(folders) => folders,
            Err(error) => return vec![evidence(self.tries_dir(), &describe_read_error(&error))],
        };
        let last = folders.keys().next_back().copied().unwrap_or(0);
        let mut lost = Vec::new();
        // Limit the search, because a directory's name may be a huge number that no trial has
        // reached.
        for number in (1..=last.max(latest_try.saturating_sub(1))).take(MAX_TRIES) {
            let journal = self.tries_dir().join(number.to_string()).join(TRAJECTORY_FILE);
            let why = match fs::metadata(&journal) {
                Ok(found) if !found.is_file() => "not a file".to_owned(),
                Ok(found) if found.len() == 0 && self.has_other_files(number) => "empty".to_owned(),
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => "missing".to_owned(),
                Err(error) => describe_read_error(&error),
            };
            let billed = format!("{why}: the report does not include the cost of try {number}");
            lost.push(evidence(journal, &billed));
        }
        lost
    }

    /// Whether a try's directory contains files other than the journal. If a try was killed at its
    /// start, only the journal exists.
    fn has_other_files(&self, try_number: u32) -> bool {
        let folder = self.tries_dir().join(try_number.to_string());
        fs::read_dir(folder).is_ok_and(|found| found.count() > 1)
    }
}

fn merge_corruptions(corruptions: Vec<Corruption>, checked_trial: &mut CheckedTrial) {
    for one in corruptions {
        if !checked_trial.corruptions.contains(&one) {
            checked_trial.corruptions.push(one);
        }
    }
    if checked_trial.is_unrecoverable() {
        checked_trial.verdict = None;
    }
}

/// Checks the blobs that a journal's events refer to. `snapshot_remedy` is the remedy for lost
/// snapshots, because grading may depend on them. All other blobs are evidence.
fn verify_journal_blobs(
    journal: &Path,
    pack: &Path,
    shared_blobs: &Blobs,
    snapshot_remedy: Remedy,
    verified_blobs: &mut VerifiedBlobs,
    corruptions: &mut Vec<Corruption>,
) {
    let Ok(reading) = read_journal(journal) else { return };
    let blobs = shared_blobs.with_pack(pack);
    match disk::try_read_if_exists(pack) {
        Ok(found) => {
            let found = find_corrupt_entries(&found.unwrap_or_default());
            corruptions.extend(found.into_iter().map(|(at, why)| {
                Corruption::new(pack.to_owned(), format!("byte {at}: {why}"), Remedy::LostEvidence)
            }));
        }
        Err(error) => {
            corruptions.push(Corruption::new(
                pack.to_owned(),
                describe_read_error(&error),
                Remedy::LostEvidence,
            ));
        }
    }
    // Each trial has its own pack, so only shared blobs need not be read again for the next trial.
    let (mut own, mut told) = (VerifiedBlobs::new(), VerifiedBlobs::new());
    let mut lost = MissingBlobs::default();
    for envelope in &reading.events {
        lost.add_initial_files(&envelope.event, &blobs);
        let mut missing =
            |lost: &mut MissingBlobs, hash: &str, what: &str, remedy: &Remedy, error: String| {
                if !told.insert(hash.to_owned()) {
                    return;
                }
                if !blobs.contains(hash) {
                    return lost.add(hash, remedy);
                }
                let why =
                    format!("event {} refers to {what} that cannot be read: {error}", envelope.seq);
                corruptions.push(Corruption::new(journal.to_owned(), why, remedy.clone()));
            };
        for (hash, what) in event_blob_hashes(&envelope.event) {
            if let Err(error) = blobs.get(hash) {
                missing(&mut lost, hash, what, &Remedy::LostEvidence, error.message_without_hint());
            }
        }
        let Some(hash) = snapshot_hash(&envelope.event) else { continue };
        match Tree::load(&blobs, hash) {
            Ok(tree) => {
                lost.add_shared(
                    tree.entries.values().filter(|entry| Blobs::exceeds_pack_limit(entry.size)),
                );
                for hash in tree.entries.values().filter_map(content_hash) {
                    if verified_blobs.contains(hash) || own.contains(hash) {
                        continue;
                    }
                    match blobs.get(hash) {
                        Ok(_) if blobs.is_shared(hash) => drop(verified_blobs.insert(hash.clone())),
                        Ok(_) => drop(own.insert(hash.clone())),
                        Err(error) => {
                            missing(
                                &mut lost,
                                hash,
                                "a file",
                                &Remedy::LostEvidence,
                                error.message_without_hint(),
                            );
                        }
                    }
                }
            }
            Err(error) => missing(
                &mut lost,
                hash,
                "a snapshot",
                &snapshot_remedy,
                error.message_without_hint(),
            ),
        }
    }
    corruptions.extend(lost.into_corruptions(pack, shared_blobs));
}

/// Returns the hash of a regular file's content, if the content is stored.
fn content_hash(entry: &proctor_wire::SnapshotEntry) -> Option<&String> {
    entry.hash.as_ref().filter(|_| entry.kind == proctor_wire::EntryKind::File)
}

fn snapshot_hash(event: &Event) -> Option<&str> {
    match event {
        Event::SnapshotTaken { snapshot, .. } => Some(snapshot),
        Event::SetupFinished { base_snapshot, .. } => Some(base_snapshot),
        Event::TrialForked { snapshot, .. } => Some(snapshot),
        _ => None,
    }
}

fn event_blob_hashes(event: &Event) -> Vec<(&str, &'static str)> {
    let (request, response) = ("a request body", "a response body");
    match event {
        Event::ModelAttempted { request: sent, body, .. } => {
            let sent = sent.iter().map(|hash| (hash.as_str(), request));
            sent.chain(body.iter().map(|hash| (hash.as_str(), response))).collect()
        }
        Event::RequestServed { request: sent, response: back, .. } => {
            let back = back.iter().map(|hash| (hash.as_str(), response));
            std::iter::once((sent.as_str(), request)).chain(back).collect()
        }
        Event::ToolReturned { full, edited, .. } => {
            let full = full.iter().map(|full| (full.as_str(), "an output"));
            let edited = edited.iter().flat_map(|edit| edit.before.iter().chain(&edit.after));
            full.chain(edited.map(|hash| (hash.as_str(), "an edited file"))).collect()
        }
        Event::UrlRequested(request) => {
            request.kept.iter().map(|hash| (hash.as_str(), "a network response")).collect()
        }
        Event::PatchCollected { hash, .. } => vec![(hash, "the patch")],
        Event::SnapshotTaken { outside: Some(OutsideState::Kept(hash)), .. }
        | Event::TrialForked { outside: Some(hash), .. } => {
            vec![(hash, "the state outside the work directory")]
        }
        _ => Vec::new(),
    }
}
