//! Reads everything that is recorded of a trial.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use proctor_types::{Event, plural};

use super::{
    damage::{Damage, Remedy},
    trial::Checked,
};
use crate::{
    Blobs, RecordError, Tree, TrialDir, disk,
    pack::Pack,
    reading::read_journal,
    trial_dir::{GRADING_LOG, GRADING_RESULTS},
};

/// Blobs of a run that were read and found whole: many trials name the same.
pub(crate) type Seen = HashSet<String>;

impl TrialDir {
    /// Adds to a check what only reading everything tells: blobs, packs, the files of gradings and the
    /// tries that do not count.
    pub(crate) fn verify(
        &self,
        blobs: &Blobs,
        seen: &mut Seen,
        checked: &mut Checked,
    ) -> Result<(), RecordError> {
        let mut damage = Vec::new();
        blobs_of(&self.trajectory(), &self.pack(), blobs, Remedy::Copy, seen, &mut damage)?;
        self.grading_files(&mut damage)?;
        for folder in self.discarded()? {
            let journal = folder.join("trajectory.jsonl");
            if let Ok(reading) = read_journal(&journal) {
                damage.extend(reading.bad_lines.into_iter().map(|bad| Damage {
                    path: bad.path,
                    line: Some(bad.line),
                    why: bad.why,
                    remedy: Remedy::Evidence,
                }));
            }
            let pack = folder.join("blobs.pack");
            blobs_of(&journal, &pack, blobs, Remedy::Evidence, seen, &mut damage)?;
        }
        for one in damage {
            if !checked.damage.contains(&one) {
                checked.damage.push(one);
            }
        }
        if checked.is_lost() {
            checked.verdict = None;
        }
        Ok(())
    }

    fn grading_files(&self, damage: &mut Vec<Damage>) -> Result<(), RecordError> {
        let Some(graded) = self.last_grading()? else { return Ok(()) };
        for (name, hash) in [(GRADING_LOG, graded.log), (GRADING_RESULTS, graded.results)] {
            let path = self.grade().join(name);
            let why = match disk::read_if_there(&path)? {
                Some(bytes) if Blobs::hash(&bytes) == hash => continue,
                Some(_) => "it is not what grading wrote",
                None => "it is missing",
            };
            damage.push(Damage::new(path, why, Remedy::Evidence));
        }
        Ok(())
    }

    /// The folders of tries that do not count.
    fn discarded(&self) -> Result<Vec<PathBuf>, RecordError> {
        let tries = self.tries();
        let failed = || RecordError::io(&tries, "cannot be read");
        let found = match std::fs::read_dir(&tries) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut folders: Vec<_> = found
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(failed())?;
        folders.sort();
        Ok(folders)
    }
}

/// What the events of a journal name by hash. The snapshots of the try that counts are what a grading
/// looks at; the rest is evidence.
fn blobs_of(
    journal: &Path,
    pack: &Path,
    shared: &Blobs,
    snapshots: Remedy,
    seen: &mut Seen,
    damage: &mut Vec<Damage>,
) -> Result<(), RecordError> {
    if !journal.exists() {
        return Ok(());
    }
    let Ok(reading) = read_journal(journal) else { return Ok(()) };
    let blobs = shared.with_pack(pack);
    if pack.exists() {
        damage.extend(Pack::at(pack).examine()?.into_iter().map(|(at, why)| {
            Damage::new(pack.to_owned(), format!("byte {at}: {why}"), Remedy::Evidence)
        }));
    }
    // What a pack holds is its trial's own; only what is shared need not be read again for the next.
    let (mut own, mut told, mut count) = (Seen::new(), Seen::new(), 0);
    // All that a pack lost is one damage, and as grave as the gravest part of it.
    let mut lost = None;
    let is_lost = |hash: &str| !blobs.has(hash);
    for envelope in &reading.events {
        let mut missing = |hash: &str, what: &str, remedy: &Remedy, error: String| {
            if told.insert(hash.to_owned()) {
                if is_lost(hash) {
                    count += 1;
                    lost = Some(if lost == Some(Remedy::Copy) {
                        Remedy::Copy
                    } else {
                        remedy.clone()
                    });
                    return;
                }
                let why =
                    format!("event {} names {what} that cannot be read: {error}", envelope.seq);
                damage.push(Damage::new(journal.to_owned(), why, remedy.clone()));
            }
        };
        for (hash, what) in named_by(&envelope.event) {
            if let Err(error) = blobs.get(hash) {
                missing(hash, what, &Remedy::Evidence, error.what());
            }
        }
        let Some(hash) = snapshot_of(&envelope.event) else { continue };
        match Tree::load(&blobs, hash) {
            Ok(tree) => {
                for hash in tree.entries.values().filter_map(content) {
                    if seen.contains(hash) || own.contains(hash) {
                        continue;
                    }
                    match blobs.get(hash) {
                        Ok(_) if blobs.is_shared(hash) => drop(seen.insert(hash.clone())),
                        Ok(_) => drop(own.insert(hash.clone())),
                        Err(error) => {
                            missing(hash, "a file", &Remedy::Evidence, error.what());
                        }
                    }
                }
            }
            Err(error) => missing(hash, "a snapshot", &snapshots, error.what()),
        }
    }
    if let Some(remedy) = lost {
        let how = if pack.exists() { "it does not hold" } else { "it is missing, with" };
        let why = format!("{how} {} that the journal names", plural(count, "blob"));
        damage.push(Damage::new(pack.to_owned(), why, remedy));
    }
    Ok(())
}

/// The content of a regular file that was kept.
fn content(entry: &proctor_wire::SnapEntry) -> Option<&String> {
    entry.hash.as_ref().filter(|_| entry.kind == proctor_wire::EntryKind::File)
}

fn snapshot_of(event: &Event) -> Option<&str> {
    match event {
        Event::SnapshotTaken { snapshot, .. } => Some(snapshot),
        Event::SetupFinished { base_snapshot, .. } => Some(base_snapshot),
        _ => None,
    }
}

fn named_by(event: &Event) -> Vec<(&str, &'static str)> {
    let (request, response) = ("the body of a request", "the body of a response");
    match event {
        Event::ModelAttempted { request: sent, body, .. } => {
            let sent = sent.iter().map(|hash| (hash.as_str(), request));
            sent.chain(body.iter().map(|hash| (hash.as_str(), response))).collect()
        }
        Event::RequestServed { request: sent, response: back, .. } => {
            let back = back.iter().map(|hash| (hash.as_str(), response));
            std::iter::once((sent.as_str(), request)).chain(back).collect()
        }
        Event::ToolReturned { full: Some(full), .. } => vec![(full, "an output")],
        Event::PatchCollected { hash, .. } => vec![(hash, "the patch")],
        _ => Vec::new(),
    }
}
