//! Checks a trial's files against its journals.

use std::path::Path;

use proctor_types::{Outcome, TrialId, Verdict, format_error_chain};
use serde::de::DeserializeOwned;

use super::{
    check_cache::{CacheEntry, CheckCache},
    checked_trial::CheckedTrial,
    corruption::{Corruption, Remedy, RestoreSource},
    journal_summary::{GradingSummary, JournalSummary},
    recorded::RecordedJson,
    stamp::FileStamp,
    verify::VerifiedBlobs,
};
use crate::{
    Blobs, TrialDir,
    disk::{self, describe_read_error},
};

/// The input for checking one trial.
pub(crate) struct TrialCheck<'a> {
    pub(crate) dir: &'a TrialDir,
    pub(crate) id: &'a TrialId,
    pub(crate) blobs: &'a Blobs,
    pub(crate) cache: &'a CheckCache,
    /// The key of the trial's entry in `cache`.
    pub(crate) cache_key: &'a str,
    /// Whether to trust files that an earlier check found intact and that have not changed.
    pub(crate) trusts_cache: bool,
}

/// `outcome.json` or `verdict.json`, as stored on disk.
enum StoredFile {
    Missing,
    Unreadable(String),
    Bytes(Vec<u8>),
}

/// `outcome.json` or `verdict.json`, after the comparison with the journal.
enum ComparedFile<T> {
    Missing,
    Unreadable(String),
    /// The file matches the journal.
    Matches,
    /// The file differs from the journal, or the journal does not contain its content.
    Differs(T),
}

impl StoredFile {
    fn read(path: &Path) -> Self {
        match disk::try_read_if_exists(path) {
            Ok(Some(bytes)) => Self::Bytes(bytes),
            Ok(None) => Self::Missing,
            Err(error) => Self::Unreadable(describe_read_error(&error)),
        }
    }

    fn compare_with<T: DeserializeOwned>(
        self,
        recorded_json: Option<&RecordedJson>,
    ) -> ComparedFile<T> {
        let bytes = match self {
            Self::Missing => return ComparedFile::Missing,
            Self::Unreadable(why) => return ComparedFile::Unreadable(why),
            Self::Bytes(bytes) => bytes,
        };
        if recorded_json.is_some_and(|recorded| recorded.matches_file(&bytes)) {
            return ComparedFile::Matches;
        }
        match serde_json::from_slice(&bytes) {
            Ok(read) => ComparedFile::Differs(read),
            Err(_) if bytes.is_empty() => ComparedFile::Unreadable("empty".into()),
            Err(error) => ComparedFile::Unreadable(format!(
                "cannot be parsed: {}",
                format_error_chain(&error)
            )),
        }
    }
}

impl<T> ComparedFile<T> {
    /// Returns how the file differs from the journal, or `None` if it matches.
    fn describe_difference(&self, difference: &str) -> Option<String> {
        match self {
            Self::Missing => Some("missing".into()),
            Self::Unreadable(why) => Some(why.clone()),
            Self::Matches => None,
            Self::Differs(_) => Some(difference.to_owned()),
        }
    }
}

impl TrialCheck<'_> {
    pub(crate) fn check_trial(&self) -> CheckedTrial {
        let mut found = CheckedTrial::default();
        // Read the outcome file before the journal. A trial that ends in the meantime writes its
        // journal first, so the journal cannot be older than the outcome file.
        let written = StoredFile::read(&self.dir.outcome_path());
        let graded = self.dir.gradings_path().exists() || self.dir.verdict_path().exists();
        let (facts, stamp, known) = match self.summarize_journal(&mut found.corruptions) {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.check_without_journal(
                    &written.compare_with(None),
                    graded,
                    "missing",
                    &mut found,
                );
                self.check_earlier_tries(0, &mut found);
                return found;
            }
            // The journal is not a regular file or cannot be read. Treat the trial as finished, so
            // that no new try overwrites the journal.
            Err(why) => {
                found.is_finished = true;
                self.report_corrupt_journal(&mut found, &why);
                if let ComparedFile::Differs(outcome) = written.compare_with(None) {
                    found.outcome = Some(outcome);
                }
                return found;
            }
        };
        let ended = facts.outcome.as_ref().map(RecordedJson::parse::<Outcome>);
        let written = written.compare_with::<Outcome>(facts.outcome.as_ref());
        let claimed = match &written {
            ComparedFile::Missing => false,
            ComparedFile::Unreadable(_) | ComparedFile::Matches => true,
            ComparedFile::Differs(outcome) => !outcome.ending.is_unfinished(),
        };
        found.is_finished = match &ended {
            Some(Ok(outcome)) => !outcome.ending.is_unfinished(),
            Some(Err(_)) => true,
            None => claimed || graded,
        };
        let stranger = facts.named.as_ref().filter(|named| !named.matches(self.id));
        let why = match (&ended, stranger) {
            (_, Some(named)) => Some(format!("this journal belongs to another trial, {named}")),
            (Some(Err(error)), _) => {
                Some(format!("the outcome cannot be parsed: {}", format_error_chain(error)))
            }
            (Some(Ok(outcome)), _) if graded && outcome.ending.is_unfinished() => {
                Some("does not end with the outcome that was graded".to_owned())
            }
            (None, _) if found.is_finished => {
                Some("does not contain the trial's end, but there is an outcome".to_owned())
            }
            // A start event may be missing only after a fault: if a trial failed before its first
            // try, Proctor 0.1.0 wrote a journal without a start event.
            (Some(Ok(outcome)), _) if facts.named.is_none() && !outcome.ending.is_unfinished() => {
                Some("does not begin with a trial start event".to_owned())
            }
            _ => None,
        };
        if let Some(why) = why {
            found.is_finished = true;
            self.report_corrupt_journal(&mut found, &why);
        }
        let ended = ended.and_then(Result::ok);
        self.check_outcome(ended, written, &mut found);
        let try_number = facts.try_number.max(found.outcome.as_ref().map_or(0, |it| it.try_number));
        if !found.is_finished {
            // The trial will run again, so the missing data of this try cannot affect the score.
            for damage in
                found.corruptions.iter_mut().filter(|one| one.remedy == Remedy::RestoreFromCopy)
            {
                damage.remedy = Remedy::LostEvidence;
            }
            self.check_earlier_tries(try_number, &mut found);
            return found;
        }
        // The journal of a running try may end in the middle of a line. Once the try has ended, no
        // data may follow its last event.
        if facts.torn && !found.is_unrecoverable() {
            let why = "the last event is followed by other data";
            found.corruptions.push(Corruption::new(
                self.dir.trajectory_path(),
                why,
                Remedy::LostEvidence,
            ));
        }
        let recorded = facts.packed;
        let patch = self.check_patch(&facts, known, &mut found);
        if patch.is_some() && patch != known && found.corruptions.is_empty() {
            self.cache.store(
                self.cache_key,
                &CacheEntry { trajectory_stamp: stamp, patch_stamp: patch, summary: facts },
            );
        }
        self.check_verdict(&mut found);
        if let Some(recorded) = recorded {
            self.check_pack(recorded, &mut found);
        }
        if found.is_unrecoverable() {
            found.verdict = None;
        }
        self.check_earlier_tries(try_number, &mut found);
        found
    }

    /// Checks the size of the pack. If the pack is shorter than when the trial ended, it has lost
    /// blobs. In this case, reads the whole record to find the lost blobs, so that the result is
    /// the same as that of a full verification.
    fn check_pack(&self, recorded_bytes: u64, checked_trial: &mut CheckedTrial) {
        let path = self.dir.pack_path();
        let why = match std::fs::metadata(&path) {
            Ok(is) if !is.is_file() => "not a file".to_owned(),
            Ok(is) if is.len() >= recorded_bytes => return,
            Ok(is) => format!("only {} of {recorded_bytes} bytes are left", is.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "missing".into(),
            Err(error) => describe_read_error(&error),
        };
        let before = checked_trial.corruptions.len();
        self.dir.verify_blobs(self.blobs, &mut VerifiedBlobs::new(), checked_trial);
        if !checked_trial.corruptions[before..].iter().any(|one| one.path == path) {
            checked_trial.corruptions.push(Corruption::new(path, why, Remedy::LostEvidence));
        }
    }

    /// Reports earlier tries whose journal is missing. Every earlier try must have a journal, which
    /// contains its cost.
    fn check_earlier_tries(&self, latest_try: u32, checked_trial: &mut CheckedTrial) {
        checked_trial.corruptions.extend(self.dir.missing_try_corruptions(latest_try));
    }

    fn report_corrupt_journal(&self, checked_trial: &mut CheckedTrial, reason: &str) {
        // Don't report the same corruption of a journal twice.
        if !checked_trial.is_unrecoverable() {
            checked_trial.corruptions.push(Corruption::new(
                self.dir.trajectory_path(),
                reason,
                Remedy::RestoreFromCopy,
            ));
        }
    }

    /// Returns the journal's facts and stamp. If an earlier check found the journal and the patch
    /// intact, also returns the patch's stamp. Returns `None` if there is no journal. The error is
    /// the reason why the journal cannot be read.
    fn summarize_journal(
        &self,
        corruptions: &mut Vec<Corruption>,
    ) -> Result<Option<(JournalSummary, FileStamp, Option<FileStamp>)>, String> {
        let path = self.dir.trajectory_path();
        let failed = |error| describe_read_error(&error);
        let Some(stamp) = FileStamp::read(&path).map_err(failed)? else { return Ok(None) };
        if self.trusts_cache
            && let Some(entry) = self.cache.find(self.cache_key, stamp)
        {
            return Ok(Some((entry.summary, stamp, entry.patch_stamp)));
        }
        let bytes = disk::read_regular_file(&path).map_err(failed)?;
        Ok(Some((
            JournalSummary::parse(&path, &bytes, !self.trusts_cache, corruptions),
            stamp,
            None,
        )))
    }

    /// Checks the files of a trial that has no journal. While a try is being set aside, its other
    /// files may remain here for a moment after the journal was moved. Such files don't mean that
    /// the trial has finished.
    fn check_without_journal(
        &self,
        outcome_file: &ComparedFile<Outcome>,
        is_graded: bool,
        reason: &str,
        checked_trial: &mut CheckedTrial,
    ) {
        let finished = match outcome_file {
            ComparedFile::Missing => is_graded,
            ComparedFile::Unreadable(_) | ComparedFile::Matches => true,
            ComparedFile::Differs(outcome) => is_graded || !outcome.ending.is_unfinished(),
        };
        if finished {
            checked_trial.is_finished = true;
            self.report_corrupt_journal(
                checked_trial,
                &format!("{reason}, but other files of the trial exist"),
            );
            if let ComparedFile::Differs(outcome) = outcome_file {
                checked_trial.outcome = Some(outcome.clone());
            }
        }
    }

    fn check_outcome(
        &self,
        recorded_outcome: Option<Outcome>,
        outcome_file: ComparedFile<Outcome>,
        checked_trial: &mut CheckedTrial,
    ) {
        if recorded_outcome.is_some()
            && let Some(why) =
                outcome_file.describe_difference("differs from the outcome in the journal")
        {
            let remedy = Remedy::Restore(RestoreSource::TrialJournal);
            checked_trial.corruptions.push(Corruption::new(self.dir.outcome_path(), why, remedy));
        }
        checked_trial.outcome = match (recorded_outcome, outcome_file) {
            (Some(outcome), _) | (None, ComparedFile::Differs(outcome)) => Some(outcome),
            (None, _) => None,
        };
    }

    /// Checks the patch and returns its stamp if it matches the journal.
    fn check_patch(
        &self,
        summary: &JournalSummary,
        known_stamp: Option<FileStamp>,
        checked_trial: &mut CheckedTrial,
    ) -> Option<FileStamp> {
        let Some(recorded) = &summary.patch else {
            self.report_corrupt_journal(checked_trial, "has no patch event");
            return None;
        };
        checked_trial.patch = Some(recorded.clone());
        let path = self.dir.patch_path();
        let stamp = FileStamp::read(&path).ok().flatten();
        if stamp.is_some() && known_stamp == stamp {
            return stamp;
        }
        let why = match disk::try_read_if_exists(&path) {
            Ok(Some(bytes)) if Blobs::hash(&bytes) == recorded.hash => return stamp,
            Ok(Some(_)) => "differs from the patch in the journal".to_owned(),
            Ok(None) => "missing".to_owned(),
            Err(error) => describe_read_error(&error),
        };
        let remedy = match self.blobs.get(&recorded.hash) {
            Ok(_) => Remedy::Restore(RestoreSource::Blob(recorded.hash.clone())),
            Err(_) => Remedy::RestoreFromCopy,
        };
        checked_trial.corruptions.push(Corruption::new(path, why, remedy));
        None
    }

    fn check_verdict(&self, checked_trial: &mut CheckedTrial) {
        let (path, journal) = (self.dir.verdict_path(), self.dir.gradings_path());
        let again = |path: &Path, why: &str| Corruption::new(path.to_owned(), why, Remedy::Regrade);
        let bytes = match disk::try_read_if_exists(&journal) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                if path.exists() {
                    let why = format!(
                        "no recorded grading has this verdict: {} is missing",
                        journal.display()
                    );
                    checked_trial.corruptions.push(again(&path, &why));
                }
                return;
            }
            Err(error) => {
                checked_trial.corruptions.push(again(&journal, &describe_read_error(&error)));
                return;
            }
        };
        let before = checked_trial.corruptions.len();
        let gradings = GradingSummary::parse(&journal, &bytes, &mut checked_trial.corruptions);
        let damaged = checked_trial.corruptions.len() > before;
        let written = StoredFile::read(&path);
        let there = !matches!(written, StoredFile::Missing);
        checked_trial.grading_failure =
            gradings.last_failure.and_then(|failed| failed.into_failure_of(self.id));
        let Some(graded) = gradings.last_grading else {
            match () {
                () if damaged => {}
                // The verdict is written only after its journal line is complete, so a killed
                // process cannot have left a verdict and an incomplete line.
                () if gradings.is_torn && there => {
                    checked_trial.corruptions.push(again(&journal, "the last line is incomplete"));
                }
                () if gradings.is_empty && there => {
                    checked_trial
                        .corruptions
                        .push(again(&journal, "empty, but there is a verdict"));
                }
                () => {}
            }
            return;
        };
        if gradings.is_torn && there {
            checked_trial.corruptions.push(again(&journal, "the last line is incomplete"));
        } else if !graded.named.matches(self.id) {
            let why = format!("this grading belongs to another trial, {}", graded.named);
            checked_trial.corruptions.push(again(&journal, &why));
        } else if checked_trial.patch.as_ref().is_some_and(|recorded| recorded.hash != graded.patch)
        {
            checked_trial
                .corruptions
                .push(again(&journal, "the graded patch is not the trial's patch"));
        } else {
            let written = written.compare_with::<Verdict>(Some(&graded.verdict));
            if let Some(why) =
                written.describe_difference("differs from the verdict in the grading journal")
            {
                checked_trial.corruptions.push(Corruption::new(
                    path,
                    why,
                    Remedy::Restore(RestoreSource::GradingJournal),
                ));
            }
            match graded.verdict.parse() {
                Ok(verdict) => checked_trial.verdict = Some(verdict),
                Err(error) => {
                    checked_trial.corruptions.push(again(
                        &journal,
                        &format!("the verdict cannot be parsed: {}", format_error_chain(&error)),
                    ));
                }
            }
        }
    }
}
