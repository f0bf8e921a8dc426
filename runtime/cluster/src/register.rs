//! A value that many workers update, one at a time.
//!
//! Each state is a file `state.<n>`. An update creates the next file with `link`. If another worker
//! was faster, `link` fails, and the update restarts from the new state. If a worker dies during an
//! update, no cleanup is needed, unlike with a lock.

use std::{
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{disk, files};

/// Number of newer states that must exist before an old state is removed.
const MIN_NEWER_STATES: u64 = 64;
/// Minimum age of a state before it is removed, because a worker may still be reading it.
const MIN_REMOVAL_AGE: Duration = Duration::from_secs(120);
/// Maximum wait, in milliseconds, after another worker created the next state first, on a fast file
/// system.
const MAX_WAIT_MS: u64 = 100;
/// Maximum wait on a slow file system, as a multiple of the duration of one attempt.
const MAX_WAIT_MULTIPLE: u64 = 16;
/// Number of lost races after which an update fails.
const MAX_LOST_RACES: u64 = 200;

#[derive(Debug)]
pub(crate) struct Register<S> {
    folder: PathBuf,
    /// The number of the newest known state.
    newest_known_number: AtomicU64,
    state_type: PhantomData<fn() -> S>,
}

impl<S: Serialize + DeserializeOwned + Clone + PartialEq> Register<S> {
    /// Opens a register. `initial_state` is the initial state.
    pub(crate) fn open(folder: &Path, initial_state: &S) -> io::Result<Self> {
        let (folder, known) = (folder.to_owned(), AtomicU64::new(0));
        let register = Self { folder, newest_known_number: known, state_type: PhantomData };
        register.create_initial_state(initial_state)?;
        Ok(register)
    }

    fn create_initial_state(&self, initial_state: &S) -> io::Result<()> {
        disk::create_folder(&self.folder).map_err(|error| files::add_path(&self.folder, error))?;
        if self.newest_state_number()?.is_none() {
            // Another worker may create the file first, with the same state.
            files::create_file(&self.path(1), initial_state)?;
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("state.{number}"))
    }

    fn list_state_numbers(&self) -> io::Result<Vec<u64>> {
        let entries =
            disk::list(&self.folder).map_err(|error| files::add_path(&self.folder, error))?;
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("state."));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(numbers)
    }

    fn newest_state_number(&self) -> io::Result<Option<u64>> {
        Ok(self.list_state_numbers()?.into_iter().max())
    }

    /// Returns the newest state and its number, or `None` if the directory was removed.
    fn read_newest(&self) -> io::Result<Option<(u64, S)>> {
        let known = self.newest_known_number.load(Ordering::Relaxed);
        let from = match files::read::<S>(&self.path(known))? {
            Some((state, _)) => Some((known, state)),
            // Either the newest known state has been removed because of its age, or no state is
            // known yet.
            None => match self.newest_state_number() {
                Ok(Some(number)) => {
                    files::read::<S>(&self.path(number))?.map(|(state, _)| (number, state))
                }
                Ok(None) => None,
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
        };
        let Some((mut number, mut state)) = from else { return Ok(None) };
        while let Some((next, _)) = files::read::<S>(&self.path(number + 1))? {
            (number, state) = (number + 1, next);
        }
        self.newest_known_number.store(number, Ordering::Relaxed);
        Ok(Some((number, state)))
    }

    /// Returns the current state, or `initial_state` if the register was removed.
    pub(crate) fn read_state(&self, initial_state: &S) -> io::Result<S> {
        Ok(self.read_newest()?.map_or_else(|| initial_state.clone(), |(_, state)| state))
    }

    /// Updates the state. `change` may run several times, and the result of its last call is
    /// returned. Nothing is written if the state does not change.
    pub(crate) fn update<R>(
        &self,
        initial_state: &S,
        mut change: impl FnMut(&mut S) -> R,
    ) -> io::Result<R> {
        for attempt in 0..MAX_LOST_RACES {
            let began = Instant::now();
            let Some((number, state)) = self.read_newest()? else {
                self.create_initial_state(initial_state)?;
                continue;
            };
            let mut new = state.clone();
            let result = change(&mut new);
            if new == state {
                return Ok(result);
            }
            let path = self.path(number + 1);
            if files::create_file(&path, &new)? {
                // Check that the previous state still exists: a process that was suspended for
                // minutes may have started from a state that has since been removed.
                if disk::metadata(&self.path(number)).is_ok() {
                    self.newest_known_number.store(number + 1, Ordering::Relaxed);
                    if (number + 1).is_multiple_of(MIN_NEWER_STATES) {
                        self.remove_old_states(number + 1);
                    }
                    return Ok(result);
                }
                let _ = disk::remove(&path);
            } else {
                // Another worker wrote this state. The next attempt starts from it.
                self.newest_known_number.store(number + 1, Ordering::Relaxed);
            }
            let slow = began.elapsed().mul_f64((attempt + 1).min(MAX_WAIT_MULTIPLE) as f64);
            let most = Duration::from_millis((attempt + 2).min(MAX_WAIT_MS)).max(slow);
            thread::sleep(most.mul_f64(fastrand::f64()));
        }
        let busy = io::Error::new(
            io::ErrorKind::ResourceBusy,
            "too many workers are changing this limit at the same time",
        );
        Err(files::add_path(&self.folder, busy))
    }

    /// Removes old states. Failures are ignored, because the next call tries again.
    fn remove_old_states(&self, newest: u64) {
        let written = |number: u64| disk::metadata(&self.path(number)).and_then(|it| it.modified());
        let Ok(now) = written(newest) else { return };
        for number in self.list_state_numbers().unwrap_or_default() {
            let is_old = || {
                let age = written(number).map(|at| now.duration_since(at).unwrap_or_default());
                age.is_ok_and(|age| age > MIN_REMOVAL_AGE)
            };
            if number + MIN_NEWER_STATES < newest && is_old() {
                let _ = disk::remove(&self.path(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::SystemTime};

    use super::*;

    #[test]
    fn register_keeps_all_concurrent_changes() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let register = Register::open(folder.path(), &0_u64).unwrap();
                    for _ in 0..25 {
                        register.update(&0, |count| *count += 1).unwrap();
                    }
                });
            }
        });
        let register = Register::open(folder.path(), &0_u64).unwrap();
        assert_eq!(register.read_state(&0).unwrap(), 100);
    }

    #[test]
    fn register_removes_old_states_but_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::open(folder.path(), &0_u64).unwrap();
        let sleeper = Register::open(folder.path(), &0_u64).unwrap();
        sleeper.update(&0, |count| *count += 1).unwrap();
        let old = SystemTime::now() - MIN_REMOVAL_AGE * 2;
        for _ in 0..2 * MIN_NEWER_STATES {
            register.update(&0, |count| *count += 1).unwrap();
            for number in register.list_state_numbers().unwrap() {
                let file = fs::File::options().write(true).open(register.path(number)).unwrap();
                if number + 1 < register.newest_known_number.load(Ordering::Relaxed) {
                    file.set_modified(old).unwrap();
                }
            }
        }
        assert!(register.list_state_numbers().unwrap().len() < 2 * MIN_NEWER_STATES as usize);
        assert!(!register.path(1).exists());
        assert_eq!(sleeper.update(&0, |count| *count).unwrap(), 2 * MIN_NEWER_STATES + 1);
    }

    #[test]
    fn register_restarts_after_its_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let register = Register::open(&inner, &7_u64).unwrap();
        register.update(&7, |count| *count += 1).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(register.read_state(&7).unwrap(), 7);
        register.update(&7, |count| *count += 1).unwrap();
        assert_eq!(register.read_state(&7).unwrap(), 8);
    }
}
