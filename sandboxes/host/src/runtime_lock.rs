//! Detects whether another runtime is alive, with a file lock that only the kernel releases.
//!
//! A runtime locks a file when it starts and keeps the file open. The kernel releases the lock when
//! the process ends for any reason. Everything that a runtime creates, such as a container or an
//! unfinished layer, refers to the file by its inode. A sweep may remove such a resource only while
//! it holds that lock itself.
//!
//! Two alternatives were rejected. Checking whether a process id is alive is not enough: ids are
//! reused, the same id refers to another process in another PID namespace, and `hidepid` hides
//! processes. Trying to lock the file at a recorded path is not enough either: a copy of a cache
//! directory contains the file but not its lock.

use std::{
    fmt, fs,
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    str::FromStr,
};

use rustix::{fs::fstatfs, process::geteuid};

/// The first word in a lock file. The [`LockIdentity`] follows it.
const HEADER_WORD: &str = "lock";

/// File systems that only one kernel uses at a time, by `statfs` number. On any other file system,
/// another machine may hold a lock that is not visible here.
const LOCAL_FILE_SYSTEMS: &[u64] = &[
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0x2FC1_2FC1, // ZFS
    0xF2F5_2010, // F2FS
    0xCA45_1A4E, // bcachefs
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0x3153_464A, // JFS
    0x5265_4973, // ReiserFS
];

/// Identifies a lock file, so that a copy of the file is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockIdentity {
    /// The boot id at the time when the lock was taken.
    boot_id: String,
    device: u64,
    inode: u64,
}

impl LockIdentity {
    fn from_file(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { boot_id: boot_id()?, device: found.dev(), inode: found.ino() })
    }
}

impl fmt::Display for LockIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.boot_id, self.device, self.inode)
    }
}

impl FromStr for LockIdentity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let (Some(boot), Some(device), Some(inode), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(());
        };
        let number = |word: &str| word.parse().map_err(|_| ());
        Ok(Self { boot_id: boot.to_owned(), device: number(device)?, inode: number(inode)? })
    }
}

/// This runtime's own lock. Dropping it releases the lock. The file stays until
/// [`RuntimeLock::remove_file`] removes it, which is called once nothing refers to the file
/// anymore.
#[derive(Debug)]
pub struct RuntimeLock {
    name: String,
    path: PathBuf,
    identity: LockIdentity,
    file: File,
}

impl RuntimeLock {
    /// Creates a uniquely named file in the directory and locks it.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or written to, or if its file system does not
    /// support locking.
    pub fn acquire(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        let name = format!("{}-{}-{}", process::id(), start_time(), random_hex()?);
        let path = folder.join(&name);
        // Create the file under a name that sweeps ignore, lock it, and rename it only then.
        let hidden = folder.join(format!(".{name}"));
        let mut file = OpenOptions::new().create_new(true).append(true).open(&hidden)?;
        file.lock()?;
        let identity = LockIdentity::from_file(&file)?;
        writeln!(file, "{HEADER_WORD} {identity}")?;
        fs::rename(&hidden, &path)?;
        Ok(Self { name, path, identity, file })
    }

    /// Returns the runtime's unique name: `<pid>-<start time>-<random>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn identity(&self) -> &LockIdentity {
        &self.identity
    }

    /// Adds a line to the file, for a later runtime that sweeps.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add_note(&self, line: &str) -> io::Result<()> {
        writeln!(&self.file, "{line}")
    }

    /// Removes the file. The lock is released only when this value is dropped.
    pub fn remove_file(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What is known about the runtime that took a lock: whether it is alive or dead.
#[derive(Debug)]
pub enum Liveness {
    Alive,
    Dead(DeadRuntime),
    /// It is not certain that the runtime is dead, so nothing that it owns may be touched. Contains
    /// the reason.
    Unknown(&'static str),
}

/// A dead runtime's lock. This process holds it, so that no other sweep handles the same runtime.
#[derive(Debug)]
pub struct DeadRuntime {
    pub name: String,
    path: PathBuf,
    file: File,
}

impl DeadRuntime {
    /// Returns the lines that the runtime added to the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn notes(&self) -> io::Result<Vec<String>> {
        BufReader::new(&self.file).lines().skip(1).collect()
    }

    /// Removes the file. Call this once nothing that the runtime owned is left.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn remove_file(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Checks whether the runtime that locked the file at `path` is alive. `identity` is the file's
/// identity as recorded elsewhere, such as in a label. If it is `None`, the identity in the file's
/// first line is used.
pub fn check_liveness(path: &Path, identity: Option<&LockIdentity>) -> Liveness {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let Ok(file) = OpenOptions::new().read(true).custom_flags(no_follow).open(path) else {
        return Liveness::Unknown("its lock file is not on this machine");
    };
    let identity = match identity {
        Some(identity) => identity.clone(),
        None => match read_identity(&file) {
            Some(identity) => identity,
            None => return Liveness::Unknown("its lock file has no identity"),
        },
    };
    let Ok(here) = LockIdentity::from_file(&file) else {
        return Liveness::Unknown("its lock file cannot be examined");
    };
    // Device numbers may change with each boot, but inodes do not.
    let same_boot = here.boot_id == identity.boot_id;
    if here.inode != identity.inode || (same_boot && here.device != identity.device) {
        return Liveness::Unknown("its lock file is a copy");
    }
    if !same_boot && !is_local(&file) {
        return Liveness::Unknown("another machine may have locked it");
    }
    match file.try_lock() {
        Ok(()) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Liveness::Dead(DeadRuntime { name, path: path.to_owned(), file })
        }
        Err(TryLockError::WouldBlock) => Liveness::Alive,
        Err(TryLockError::Error(_)) => Liveness::Unknown("its file system does not support locks"),
    }
}

/// Returns the dead runtimes whose lock files are in a directory. Skips a lock file if it is not
/// certain that its runtime is dead. If this user is not root, also skips other users' files,
/// because this user could not remove their leftovers.
///
/// # Errors
/// Fails if the directory cannot be read. If the directory is missing, there are no runtimes.
pub fn dead_runtimes(folder: &Path) -> io::Result<Vec<DeadRuntime>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut dead = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let user = geteuid();
        let is_mine = |found: fs::Metadata| user.is_root() || found.uid() == user.as_raw();
        if !entry.metadata().is_ok_and(is_mine) {
            continue;
        }
        match check_liveness(&entry.path(), None) {
            Liveness::Dead(found) => dead.push(found),
            Liveness::Alive => {}
            Liveness::Unknown(why) => {
                tracing::debug!(why, at = %entry.path().display(), "a runtime may be alive");
            }
        }
    }
    Ok(dead)
}

/// Parses the first line of a lock file. Reads through a buffer, because the line's length varies.
fn read_identity(file: &File) -> Option<LockIdentity> {
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(256, file);
    reader.read_line(&mut line).ok()?;
    // Make later reads start at the beginning.
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).ok()?;
    line.trim_end().strip_prefix(HEADER_WORD)?.strip_prefix(' ')?.parse().ok()
}

fn is_local(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| LOCAL_FILE_SYSTEMS.contains(&(found.f_type as u64)))
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns eight random hex digits, from the kernel's random generator.
fn random_hex() -> io::Result<String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(uuid.chars().take(8).collect())
}

/// Returns this process's start time in clock ticks since boot: the 22nd field of its `stat` file.
fn start_time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19))
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_names(folder: &Path) -> Vec<String> {
        dead_runtimes(folder).unwrap().into_iter().map(|dead| dead.name).collect()
    }

    /// Creates the lock file of a dead runtime: the file exists, but nothing locks it.
    fn create_dead_lock(folder: &Path) -> PathBuf {
        let lock = RuntimeLock::acquire(folder).unwrap();
        lock.add_note("/a group").unwrap();
        lock.path().to_owned()
    }

    #[test]
    fn runtime_is_dead_only_if_its_lock_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let living = RuntimeLock::acquire(folder.path()).unwrap();
        assert!(file_names(folder.path()).is_empty());
        let path = create_dead_lock(folder.path());
        let dead = dead_runtimes(folder.path()).unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].notes().unwrap(), ["/a group"]);
        assert!(
            file_names(folder.path()).is_empty(),
            "a concurrent sweep must not return the same runtime"
        );
        for dead in dead {
            dead.remove_file().unwrap();
        }
        assert!(!path.exists() && living.path().exists());
    }

    #[test]
    fn copied_lock_file_proves_nothing() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let living = RuntimeLock::acquire(first.path()).unwrap();
        let dead = create_dead_lock(first.path());
        for lock in [living.path(), &dead] {
            fs::copy(lock, second.path().join(lock.file_name().unwrap())).unwrap();
        }
        assert!(file_names(second.path()).is_empty(), "copies have other inodes");
        fs::write(second.path().join("1-2-3"), "/nowhere/a\n").unwrap();
        fs::write(second.path().join("4-5-6"), "lock here 1 x\n").unwrap();
        assert!(file_names(second.path()).is_empty(), "files without an identity must be ignored");

        // A hard link has the same inode, so both files are valid.
        let linked = tempfile::tempdir_in(first.path().parent().unwrap()).unwrap();
        for lock in [living.path(), &dead] {
            fs::hard_link(lock, linked.path().join(lock.file_name().unwrap())).unwrap();
        }
        let told = file_names(linked.path());
        assert_eq!(told, [dead.file_name().unwrap().to_str().unwrap()]);

        // Moving a directory also keeps the inodes of its files.
        let moved = first.path().with_extension("moved");
        fs::rename(first.path(), &moved).unwrap();
        assert_eq!(file_names(&moved), told);
        fs::remove_dir_all(&moved).unwrap();
    }

    #[test]
    fn lock_from_another_boot_proves_death_only_on_a_local_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = create_dead_lock(folder.path());
        let file = File::open(&path).unwrap();
        let here = LockIdentity::from_file(&file).unwrap();
        let before = LockIdentity { boot_id: "another".into(), device: 0, ..here.clone() };
        assert_eq!(
            matches!(check_liveness(&path, Some(&before)), Liveness::Dead(_)),
            is_local(&file)
        );
        let elsewhere = LockIdentity { device: here.device + 1, ..here };
        assert!(matches!(check_liveness(&path, Some(&elsewhere)), Liveness::Unknown(_)));
    }

    #[test]
    fn lock_identity_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let lock = RuntimeLock::acquire(folder.path()).unwrap();
        assert_eq!(lock.identity().to_string().parse(), Ok(lock.identity().clone()));
        assert_eq!("a 1".parse::<LockIdentity>(), Err(()));
        assert_eq!("a 1 2 3".parse::<LockIdentity>(), Err(()));
    }
}
