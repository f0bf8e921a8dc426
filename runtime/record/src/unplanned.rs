//! Finds directories below `trials/` that are not in the plan, such as copies, renamed directories,
//! and trials of an older plan.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsString,
    fs,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use proctor_types::{ArmId, Event, TrialId};

use crate::{
    CheckedTrial, RunDir, disk, read_journal,
    trial_dir::{TRAJECTORY_FILE, TRIES_DIR},
};

/// Directory levels between `trials/` and a journal: arm, task, attempt.
const JOURNAL_DEPTH: usize = 3;
/// Maximum number of bytes to read for the first line of a journal. The line usually has a few
/// hundred bytes.
const MAX_FIRST_LINE_BYTES: u64 = 64 << 10;

/// A directory below `trials/` that does not belong to a planned trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplannedDir {
    /// The directory's path, relative to the run directory.
    pub folder: PathBuf,
    /// Number of journals in the directory.
    pub journal_count: usize,
    /// The trials to which the unplanned journals belong.
    pub trials: BTreeSet<TrialId>,
}

impl RunDir {
    /// Returns the directories below `trials/` that belong to none of the planned trials, in sorted
    /// order. If all subdirectories of a directory are unplanned, only the directory itself is
    /// returned.
    pub fn unplanned_dirs<'a>(
        &self,
        planned_trials: impl IntoIterator<Item = &'a TrialId>,
    ) -> Vec<UnplannedDir> {
        let trials = self.path().join("trials");
        // Compare names as strings, because component-wise comparisons of paths took longer than
        // listing the directories.
        let mut known = HashSet::<OsString>::new();
        for id in planned_trials {
            let path = self.trial_dir(id).path().to_owned();
            for above in path.ancestors().take_while(|path| *path != trials) {
                if !known.insert(above.into()) {
                    break;
                }
            }
        }
        let (mut found, mut pending) = (Vec::new(), vec![(trials, 0)]);
        while let Some((folder, depth)) = pending.pop() {
            for path in subdirectories(&folder) {
                match known.contains(path.as_os_str()) {
                    true if depth + 1 < JOURNAL_DEPTH => pending.push((path, depth + 1)),
                    true => {}
                    false => found.push(self.describe_dir(&path, depth + 1)),
                }
            }
        }
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        found
    }

    /// Returns the directories of trials that have started. This function only lists directories,
    /// because a check of each planned trial would cost several file server requests for every
    /// worker that joins.
    ///
    /// # Errors
    /// Fails if a directory can't be read.
    pub fn started_trial_dirs(&self) -> io::Result<HashSet<PathBuf>> {
        let mut level = vec![self.path().join("trials")];
        for _ in 0..JOURNAL_DEPTH {
            let mut next = Vec::new();
            for folder in &level {
                let entries = match fs::read_dir(folder) {
                    Ok(entries) => entries,
                    Err(error) if is_not_a_directory(error.kind()) => continue,
                    Err(error) => return Err(error),
                };
                for entry in entries {
                    next.push(entry?.path());
                }
            }
            level = next;
        }
        Ok(level.into_iter().collect())
    }

    /// Like [`RunDir::check_trial`], but reads files only if the trial is in `started_dirs`, the result
    /// of [`RunDir::started_trial_dirs`]. Other trials have no files.
    pub fn check_started_trial(
        &self,
        id: &TrialId,
        started_dirs: &HashSet<PathBuf>,
    ) -> CheckedTrial {
        match started_dirs.contains(&self.trial_dir_path(id)) {
            true => self.check_trial(id),
            false => CheckedTrial::default(),
        }
    }

    fn describe_dir(&self, folder: &Path, depth: usize) -> UnplannedDir {
        let name = folder.strip_prefix(self.path()).unwrap_or(folder).to_owned();
        let mut unplanned =
            UnplannedDir { folder: name, journal_count: 0, trials: BTreeSet::new() };
        let mut pending = vec![(folder.to_owned(), depth)];
        while let Some((folder, depth)) = pending.pop() {
            let journal = folder.join(TRAJECTORY_FILE);
            if journal.is_file() {
                unplanned.journal_count += 1;
                unplanned.trials.extend(journal_trial_id(&journal));
            }
            if depth < JOURNAL_DEPTH {
                pending.extend(subdirectories(&folder).into_iter().map(|path| (path, depth + 1)));
            }
        }
        unplanned
    }

    /// Returns the first line of a trial's journal. The line contains the time in microseconds, so
    /// it differs between runs. If two trials have the same first line, one is a copy of the other.
    pub fn first_journal_line(&self, id: &TrialId) -> Option<Vec<u8>> {
        let file = disk::open_regular_file(&self.trial_dir(id).trajectory_path()).ok()?;
        let mut line = Vec::new();
        BufReader::new(file.take(MAX_FIRST_LINE_BYTES)).read_until(b'\n', &mut line).ok()?;
        (!line.is_empty()).then_some(line)
    }
}

/// Whether the error means that the path does not exist or is not a directory.
fn is_not_a_directory(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns a directory's subdirectories, except the one for earlier tries.
fn subdirectories(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let all = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    all.map(|entry| entry.path()).filter(|path| !path.ends_with(TRIES_DIR)).collect()
}

/// Returns the trial that a journal's first event names.
fn journal_trial_id(journal: &Path) -> Option<TrialId> {
    match read_journal(journal).ok()?.events.into_iter().next()?.event {
        Event::TrialStarted { task, arm, attempt } => {
            Some(TrialId { task, arm: ArmId::new(arm), attempt })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::TaskId;

    use super::*;
    use crate::Journal;

    fn trial_id(task: &str, arm: &str, attempt: u32) -> TrialId {
        TrialId { task: TaskId::new(task), arm: ArmId::new(arm), attempt }
    }

    fn start_trial(run_dir: &RunDir, id: &TrialId) {
        let dir = run_dir.create_trial_dir(id).unwrap();
        let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
        journal.append(0, Event::trial_started(id)).unwrap();
    }

    #[test]
    fn unplanned_dirs_finds_moved_copied_and_foreign_folders() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("run")).unwrap();
        let planned = [trial_id("one", "a", 1), trial_id("two", "a", 1), trial_id("two", "a", 2)];
        let other = trial_id("one", "of-another-plan", 1);
        for id in planned.iter().chain([&other]) {
            start_trial(&run, id);
        }
        assert!(run.unplanned_dirs(planned.iter().chain([&other])).is_empty());
        fs::create_dir_all(run.trial_dir(&planned[0]).path().join("tries/1")).unwrap();
        let place = |id: &TrialId| run.trial_dir(id).path().to_owned();
        fs::rename(place(&planned[1]), place(&planned[1]).with_file_name("1-old")).unwrap();
        fs::create_dir(run.path().join("trials/empty")).unwrap();
        let found = run.unplanned_dirs(&planned);
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.folder.to_str().unwrap(), one.journal_count, one.trials.len()))
            .collect();
        assert_eq!(
            told,
            [("trials/a/two/1-old", 1, 1), ("trials/empty", 0, 0), ("trials/of-another-p", 1, 1)]
        );
        assert_eq!(found[0].trials, BTreeSet::from([planned[1].clone()]));
        assert_eq!(found[2].trials, BTreeSet::from([other]));
    }

    #[test]
    fn started_trial_dirs_lists_only_trials_with_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        assert!(run.started_trial_dirs().unwrap().is_empty());
        let (first, second) = (trial_id("one", "a", 1), trial_id("one", "a", 2));
        start_trial(&run, &first);
        fs::write(run.path().join("trials/a/note"), "somebody's").unwrap();
        let begun = run.started_trial_dirs().unwrap();
        assert_eq!(begun, HashSet::from([run.trial_dir(&first).path().to_owned()]));
        // The result must agree with the trial's own check.
        for id in [&first, &second] {
            assert_eq!(run.check_started_trial(id, &begun), run.check_trial(id));
        }
        start_trial(&run, &second);
        assert_eq!(
            run.check_started_trial(&second, &begun),
            CheckedTrial::default(),
            "begun later"
        );
    }

    #[test]
    fn first_journal_line_differs_between_runs_of_a_trial() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path().join("run")).unwrap();
        let again = RunDir::create(folder.path().join("again")).unwrap();
        let id = trial_id("one", "a", 1);
        assert_eq!(run.first_journal_line(&id), None);
        start_trial(&run, &id);
        start_trial(&again, &id);
        assert!(run.first_journal_line(&id).is_some());
        assert_ne!(run.first_journal_line(&id), again.first_journal_line(&id));
    }
}
