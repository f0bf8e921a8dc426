//! One trial's directory.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Component, Path, PathBuf},
};

use proctor_types::{Event, Fault, FaultLog, Outcome, TrialId, Verdict};

use crate::{
    Blobs, Journal, RecordError,
    check::{GradingEntry, GradingSummary},
    disk,
    error::RESTORE_FROM_COPY_HINT,
    read_journal,
};

/// Names of the files in `grade/`.
pub(crate) const GRADING_LOG: &str = "log.txt";
pub(crate) const GRADING_RESULTS: &str = "results.jsonl";

/// Returns the name of the file with the output of a failed grading. `number` counts from 1.
fn failure_log_name(number: u32) -> String {
    format!("failed-{number}.txt")
}

/// The results of grading a trial once, as they are stored in the trial's directory.
#[derive(Debug, Clone, Copy)]
pub struct GradingFiles<'a> {
    pub patch: &'a [u8],
    pub verdict: &'a Verdict,
    pub log: &'a [u8],
    pub results: &'a [u8],
}

/// The files of a try, in the order in which they are moved. The trajectory is moved first. If the
/// process is killed while the files are being moved, [`TrialDir::next_try_number`] still counts
/// correctly, and the remaining files are moved later.
const TRY_FILES: [&str; 7] = [
    TRAJECTORY_FILE,
    PACK_FILE,
    "patch.diff",
    "outcome.json",
    "verdict.json",
    "grade",
    SCAFFOLD_DIR,
];

/// The subdirectory for files of an external scaffold.
const SCAFFOLD_DIR: &str = "scaffold";

/// The subdirectory for earlier tries. It has one directory per try number.
pub(crate) const TRIES_DIR: &str = "tries";

/// A try's journal. Each try starts by creating this file.
pub(crate) const TRAJECTORY_FILE: &str = "trajectory.jsonl";

/// The pack with the try's own blobs.
pub(crate) const PACK_FILE: &str = "blobs.pack";

/// `RUN/trials/<arm>/<task>/<attempt>/`. The files at its top level belong to the latest try. The
/// files of discarded try number k are in `tries/<k>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialDir {
    path: PathBuf,
}

impl TrialDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn trajectory_path(&self) -> PathBuf {
        self.path.join(TRAJECTORY_FILE)
    }

    pub fn patch_path(&self) -> PathBuf {
        self.path.join("patch.diff")
    }

    pub fn outcome_path(&self) -> PathBuf {
        self.path.join("outcome.json")
    }

    pub fn verdict_path(&self) -> PathBuf {
        self.path.join("verdict.json")
    }

    /// Returns the directory that contains the grading log and the raw results.
    pub fn grading_dir(&self) -> PathBuf {
        self.path.join("grade")
    }

    /// Whether the directory contains no files that grading creates.
    pub(crate) fn is_ungraded(&self) -> bool {
        !self.gradings_path().exists() && !self.verdict_path().exists()
    }

    /// Returns the path of the grading journal.
    pub fn gradings_path(&self) -> PathBuf {
        self.grading_dir().join("journal.jsonl")
    }

    pub fn pack_path(&self) -> PathBuf {
        self.path.join(PACK_FILE)
    }

    pub fn tries_dir(&self) -> PathBuf {
        self.path.join(TRIES_DIR)
    }

    pub(crate) fn create(&self) -> Result<(), RecordError> {
        fs::create_dir_all(&self.path)
            .map_err(RecordError::io(&self.path, "the trial's folder cannot be created"))
    }

    /// Returns the number of the next try, counted from 1.
    pub fn next_try_number(&self) -> Result<u32, RecordError> {
        let here = u32::from(disk::entry_exists(&self.trajectory_path()));
        let tries = self.tries_dir();
        let found = match fs::read_dir(&tries) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(1 + here),
            Err(error) => return Err(RecordError::io(&tries, "cannot be read")(error)),
        };
        let mut most = 0;
        for entry in found {
            let entry = entry.map_err(RecordError::io(&tries, "cannot be read"))?;
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            most = most.max(number.unwrap_or(0));
        }
        // Don't overflow: a directory's name may be the largest number.
        Ok(u32::saturating_add(most, here + 1))
    }

    /// Prepares the directory for try `try_number`, counted from 1. Moves the files of the previous
    /// try, if there is one, to `tries/<k-1>/`. If the move was interrupted, call this function
    /// again.
    ///
    /// # Errors
    /// Fails if `try_number` is 1 and there are files of another try, or if a destination file
    /// already exists.
    pub fn begin_try(&self, try_number: u32) -> Result<(), RecordError> {
        self.create()?;
        let there: Vec<_> =
            TRY_FILES.iter().filter(|name| disk::entry_exists(&self.path.join(name))).collect();
        if there.is_empty() {
            return Ok(());
        }
        let misuse = |why: String| RecordError::Misuse { path: self.path.clone(), why };
        let Some(before) = try_number.checked_sub(1).filter(|before| *before > 0) else {
            return Err(misuse(
                "the folder of the first try already contains files of another try".into(),
            ));
        };
        let folder = self.tries_dir().join(before.to_string());
        fs::create_dir_all(&folder).map_err(RecordError::io(&folder, "cannot be created"))?;
        for name in there {
            let to = folder.join(name);
            if disk::entry_exists(&to) {
                return Err(misuse(format!("tries/{before}/{name} already exists")));
            }
            fs::rename(self.path.join(name), &to)
                .map_err(RecordError::io(&to, "a file of the earlier try cannot be moved here"))?;
        }
        Ok(())
    }

    /// Stores a file from an external scaffold in `scaffold/`. The file serves as evidence, and no
    /// result depends on it.
    ///
    /// # Errors
    /// Fails if the name leads outside the directory, or if the file cannot be written.
    pub fn store_scaffold_file(&self, name: &str, content: &[u8]) -> Result<(), RecordError> {
        let folder = self.path.join(SCAFFOLD_DIR);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(plain) {
            let why = format!("not a path in this folder: {name}");
            return Err(RecordError::Misuse { path: folder, why });
        }
        let file = folder.join(name);
        let parent = file.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(RecordError::io(parent, "cannot be created"))?;
        disk::move_non_file_aside(&file)?;
        fs::write(&file, content).map_err(RecordError::io(&file, "cannot be written"))
    }

    /// Returns the paths in `scaffold/`, sorted. Folders are not searched.
    pub fn scaffold_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path.join(SCAFFOLD_DIR)).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// Returns the last bytes of a file in `scaffold/`, or `None` if it cannot be read.
    pub fn read_scaffold_file_tail(&self, name: &str, max_bytes: u64) -> Option<Vec<u8>> {
        let mut file = disk::open_regular_file(&self.path.join(SCAFFOLD_DIR).join(name)).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(max_bytes))).ok()?;
        let mut bytes = Vec::new();
        // The file may still grow.
        file.take(max_bytes).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    pub fn write_outcome(&self, outcome: &Outcome) -> Result<(), RecordError> {
        disk::write_json(&self.outcome_path(), outcome)
    }

    /// Removes the outcome file of a try that is being continued. The journal still contains the
    /// outcome.
    pub fn remove_outcome(&self) -> Result<(), RecordError> {
        let path = self.outcome_path();
        disk::move_non_file_aside(&path)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(RecordError::io(&path, "cannot be removed")(error))
            }
            _ => Ok(()),
        }
    }

    pub fn read_outcome(&self) -> Result<Option<Outcome>, RecordError> {
        disk::read_json(&self.outcome_path())
    }

    /// Stores a grading's result. Writes the log and the raw results first, then a line in the
    /// grading journal, which is authoritative, and then `verdict.json`.
    pub fn store_grading(
        &self,
        id: &TrialId,
        grading: GradingFiles<'_>,
    ) -> Result<(), RecordError> {
        let folder = self.create_grading_dir()?;
        for (name, bytes) in [(GRADING_LOG, grading.log), (GRADING_RESULTS, grading.results)] {
            disk::write_atomically(&folder.join(name), bytes)?;
        }
        let graded = Event::TrialGraded {
            task: id.task.clone(),
            arm: id.arm.to_string(),
            attempt: id.attempt,
            patch: Blobs::hash(grading.patch),
            log: Blobs::hash(grading.log),
            results: Blobs::hash(grading.results),
            verdict: Box::new(grading.verdict.clone()),
            given_back: false,
        };
        self.append_grading(graded)?;
        disk::write_json(&self.verdict_path(), grading.verdict)
    }

    /// Stores why a grading failed, and the output that it left. Earlier failures are kept, each
    /// with its own log. A verdict that was recorded earlier is not changed.
    pub fn store_grading_failure(
        &self,
        id: &TrialId,
        fault: &Fault,
        will_retry: bool,
    ) -> Result<(), RecordError> {
        let folder = self.create_grading_dir()?;
        let log = fault.log.as_ref().map(FaultLog::as_bytes).filter(|log| !log.is_empty());
        let log_file = match log {
            Some(bytes) => {
                let is_free = |name: &String| !disk::entry_exists(&folder.join(name));
                let name = (1..=u32::MAX).map(failure_log_name).find(is_free);
                let name = name.unwrap_or_else(|| failure_log_name(u32::MAX));
                disk::write_atomically(&folder.join(&name), bytes)?;
                Some(name)
            }
            None => None,
        };
        self.append_grading(Event::GradingFailed {
            task: id.task.clone(),
            arm: id.arm.to_string(),
            attempt: id.attempt,
            fault: fault.clone(),
            will_retry,
            log_file,
            log: log.map(Blobs::hash),
        })
    }

    /// Creates `grade/` if it does not exist, and returns its path.
    fn create_grading_dir(&self) -> Result<PathBuf, RecordError> {
        let folder = self.grading_dir();
        if !folder.is_dir() {
            disk::move_aside(&folder)?;
        }
        fs::create_dir_all(&folder).map_err(RecordError::io(&folder, "cannot be created"))?;
        disk::remove_partial_files(&folder);
        Ok(folder)
    }

    /// Withdraws the verdict. [`TrialDir::restore_verdict`] can restore it.
    pub fn withdraw_verdict(&self, reason: &str) -> Result<(), RecordError> {
        if self.gradings_path().exists() {
            self.append_grading(Event::VerdictWithdrawn { why: reason.to_owned() })?;
        }
        disk::move_non_file_aside(&self.verdict_path())?;
        match fs::remove_file(self.verdict_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RecordError::io(&self.verdict_path(), "cannot be removed")(error))
            }
            _ => Ok(()),
        }
    }

    /// Restores the verdict that was last withdrawn, unless the trial has been graded again since.
    pub fn restore_verdict(&self) -> Result<Option<Verdict>, RecordError> {
        let path = self.gradings_path();
        if !path.is_file() {
            return Ok(None);
        }
        let events = read_journal(&path)?.events;
        // Failed gradings follow the withdrawal of the verdict that they could not replace.
        let last = events.iter().rfind(|one| !matches!(one.event, Event::GradingFailed { .. }));
        if !matches!(last.map(|last| &last.event), Some(Event::VerdictWithdrawn { .. })) {
            return Ok(None);
        }
        let is_grading = |event: &Event| matches!(event, Event::TrialGraded { .. });
        let graded = events.into_iter().map(|one| one.event).rfind(is_grading);
        let Some(Event::TrialGraded { task, arm, attempt, patch, log, results, verdict, .. }) =
            graded
        else {
            return Ok(None);
        };
        let back = Event::TrialGraded {
            task,
            arm,
            attempt,
            patch,
            log,
            results,
            verdict: verdict.clone(),
            given_back: true,
        };
        self.append_grading(back)?;
        disk::write_json(&self.verdict_path(), &verdict)?;
        Ok(Some(*verdict))
    }

    /// Appends to the grading journal. If the journal is corrupt, moves it aside and starts a new
    /// one.
    fn append_grading(&self, event: Event) -> Result<(), RecordError> {
        let path = self.gradings_path();
        disk::move_non_file_aside(&path)?;
        let journal = match path.exists().then(|| Journal::open(&path)) {
            Some(Err(RecordError::Corrupt { .. })) => {
                disk::move_aside(&path)?;
                Journal::create(&path, 1)
            }
            Some(opened) => opened,
            None => Journal::create(&path, 1),
        };
        journal?.append_durable(0, event).map(|_| ())
    }

    /// Returns the raw results from when the trial was last graded, unchanged.
    pub fn read_results(&self) -> Result<Vec<u8>, RecordError> {
        let path = self.grading_dir().join(GRADING_RESULTS);
        let bytes =
            disk::read_regular_file(&path).map_err(RecordError::io(&path, "cannot be read"))?;
        match self.last_grading()? {
            Some(graded) if graded.results == Blobs::hash(&bytes) => Ok(bytes),
            _ => Err(RecordError::Corrupt {
                path,
                why: "differs from the file that grading wrote".into(),
                hint: RESTORE_FROM_COPY_HINT,
            }),
        }
    }

    /// Returns the log from when the trial was last graded, for people to read. Returns an empty
    /// log if the file cannot be read.
    pub fn read_log(&self) -> Vec<u8> {
        disk::read_regular_file(&self.grading_dir().join(GRADING_LOG)).unwrap_or_default()
    }

    pub(crate) fn last_grading(&self) -> Result<Option<GradingEntry>, RecordError> {
        let path = self.gradings_path();
        let bytes = disk::read_if_exists(&path)?.unwrap_or_default();
        Ok(GradingSummary::parse(&path, &bytes, &mut Vec::new()).last_grading)
    }

    pub fn read_verdict(&self) -> Result<Option<Verdict>, RecordError> {
        disk::read_json(&self.verdict_path())
    }

    pub fn write_patch(&self, patch: &[u8]) -> Result<(), RecordError> {
        disk::write_atomically(&self.patch_path(), patch)
    }

    pub fn read_patch(&self) -> Result<Option<Vec<u8>>, RecordError> {
        disk::read_if_exists(&self.patch_path())
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{Ending, Spending};

    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            schema_version: 1,
            ending: Ending::Submitted,
            try_number: 1,
            spent: Spending::default(),
            tool_calls: None,
            malformed_calls: 0,
            wall_seconds: 1.5,
            waited_seconds: 0.0,
            tool_seconds: 0.0,
            left_out: vec![],
            not_enforced: vec![],
            noise: None,
            responders: Default::default(),
            changes: Default::default(),
            interruptions: Default::default(),
        }
    }

    #[test]
    fn tail_of_scaffold_file_has_its_last_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let trial = TrialDir::new(folder.path().join("t"));
        assert_eq!(trial.read_scaffold_file_tail("log", 4), None);
        let scaffold = folder.path().join("t").join(SCAFFOLD_DIR);
        fs::create_dir_all(&scaffold).unwrap();
        for (content, tail) in [("", ""), ("abcd", "abcd"), ("abcdef", "cdef")] {
            fs::write(scaffold.join("log"), content).unwrap();
            let read = trial.read_scaffold_file_tail("log", 4);
            assert_eq!(read.as_deref(), Some(tail.as_bytes()), "{content}");
        }
    }

    #[test]
    fn trial_dir_round_trips_and_tolerates_absence() {
        let folder = tempfile::tempdir().unwrap();
        let trial = TrialDir::new(folder.path().join("t"));
        assert_eq!(trial.read_outcome().unwrap(), None);
        assert_eq!(trial.read_patch().unwrap(), None);
        trial.write_outcome(&outcome()).unwrap();
        trial.write_patch(b"\xff").unwrap();
        assert_eq!(trial.read_outcome().unwrap(), Some(outcome()));
        assert_eq!(trial.read_patch().unwrap().unwrap(), b"\xff");
        fs::write(trial.outcome_path(), "{").unwrap();
        assert!(matches!(trial.read_outcome(), Err(RecordError::Corrupt { .. })));
    }

    #[test]
    fn begin_try_keeps_evidence_of_the_previous_try() {
        let folder = tempfile::tempdir().unwrap();
        let trial = TrialDir::new(folder.path());
        assert_eq!(trial.next_try_number().unwrap(), 1);
        trial.begin_try(1).unwrap();
        fs::write(trial.trajectory_path(), "one").unwrap();
        trial.write_patch(b"p").unwrap();
        assert_eq!(trial.next_try_number().unwrap(), 2);
        assert!(trial.begin_try(1).is_err());
        trial.begin_try(2).unwrap();
        assert!(!trial.trajectory_path().exists());
        assert_eq!(fs::read(folder.path().join("tries/1/trajectory.jsonl")).unwrap(), b"one");
        assert_eq!(fs::read(folder.path().join("tries/1/patch.diff")).unwrap(), b"p");
        assert_eq!(trial.next_try_number().unwrap(), 2);
        fs::write(trial.trajectory_path(), "two").unwrap();
        assert_eq!(trial.next_try_number().unwrap(), 3);
        assert!(trial.begin_try(2).is_err(), "nothing is overwritten");
        trial.begin_try(3).unwrap();
        assert_eq!(fs::read(folder.path().join("tries/2/trajectory.jsonl")).unwrap(), b"two");
    }

    #[test]
    fn begin_try_finishes_an_interrupted_move() {
        let folder = tempfile::tempdir().unwrap();
        let trial = TrialDir::new(folder.path());
        fs::create_dir_all(folder.path().join("tries/1")).unwrap();
        fs::write(folder.path().join("tries/1/trajectory.jsonl"), "one").unwrap();
        trial.write_patch(b"p").unwrap();
        let next = trial.next_try_number().unwrap();
        assert_eq!(next, 2);
        trial.begin_try(next).unwrap();
        assert_eq!(fs::read(folder.path().join("tries/1/patch.diff")).unwrap(), b"p");
    }
}
