//! A user's program. It is copied when a run is planned, so that every trial runs the version in
//! the plan.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use proctor_types::sha256_hex;

/// The mount point of the program in the program's own sandbox.
pub const MOUNT: &str = "/agent";

/// Entries with this name are not copied, because their content changes with every commit.
const EXCLUDED_NAME: &str = ".git";
/// The directories of Python's compiled code. Running the program changes this code, so it is not
/// part of the digest. It is copied anyway, because the program would otherwise compile its
/// libraries at each start.
const COMPILED_FOLDER: &str = "__pycache__";
/// Maximum number of entries in a program. If there are more, the path is probably a mistake, and
/// the program is rejected.
const MAX_ENTRIES: usize = 200_000;
const MAX_BYTES: u64 = 1 << 30;

/// Why a program cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramError(pub String);

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A store for copies of programs, by digest.
#[derive(Debug, Clone)]
pub struct ProgramStore {
    folder: PathBuf,
    /// The digests of programs that this process has already copied, keyed by a digest of their
    /// metadata. Arms often share a program.
    known_digests: Arc<Mutex<BTreeMap<String, String>>>,
}

#[derive(Debug)]
struct ProgramEntry {
    /// The path, relative to the program's directory.
    path: PathBuf,
    source: PathBuf,
    kind: EntryKind,
    /// Whether this is compiled code or a directory of compiled code.
    is_compiled: bool,
}

#[derive(Debug)]
enum EntryKind {
    Folder,
    File { is_executable: bool, metadata: String },
    Link(PathBuf),
}

impl ProgramStore {
    /// Creates a store in `folder`, which is created if missing.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, known_digests: Arc::default() }
    }

    /// Returns the copy with this digest; `None` if it does not exist.
    pub fn find_copy(&self, digest: &str) -> Option<PathBuf> {
        let plain = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(self.folder.join(digest)).filter(|folder| plain && folder.is_dir())
    }

    /// Stores embedded files, which are pairs of a relative path and its content. Returns the
    /// directory that contains them.
    ///
    /// # Errors
    /// Fails if the store cannot be written to.
    pub(crate) fn store_files(&self, files: &[(&str, &str)]) -> Result<PathBuf, ProgramError> {
        let all: String = files.iter().map(|(path, text)| format!("{path}\0{text}\0")).collect();
        let place = self.folder.join(sha256_hex(all.as_bytes()));
        if place.is_dir() {
            return Ok(place);
        }
        let io = |error: io::Error| ProgramError(format!("{}: {error}", self.folder.display()));
        fs::create_dir_all(&self.folder).map_err(io)?;
        let making = tempfile::Builder::new().prefix(".making-").tempdir_in(&self.folder);
        let making = making.map_err(io)?;
        fs::set_permissions(making.path(), fs::Permissions::from_mode(0o755)).map_err(io)?;
        for (path, text) in files {
            let to = making.path().join(path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(io)?;
            }
            fs::write(&to, text).map_err(io)?;
        }
        match fs::rename(making.path(), &place) {
            Ok(()) => drop(making.keep()),
            // In this case, another process has already stored the same files.
            Err(_) if place.is_dir() => {}
            Err(error) => return Err(io(error)),
        }
        Ok(place)
    }

    /// Stores a short note called `name` alongside the program copies.
    ///
    /// # Errors
    /// Fails if the store cannot be written to.
    pub(crate) fn store_note(&self, name: &str, text: &str) -> Result<(), ProgramError> {
        let io = |error: io::Error| ProgramError(format!("{}: {error}", self.folder.display()));
        fs::create_dir_all(&self.folder).map_err(io)?;
        let mut making = tempfile::NamedTempFile::new_in(&self.folder).map_err(io)?;
        making.write_all(text.as_bytes()).map_err(io)?;
        making.persist(self.folder.join(name)).map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Returns the contents of the notes whose names start with `prefix`, newest first.
    pub(crate) fn read_notes(&self, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut notes: Vec<(Option<SystemTime>, String)> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .filter_map(|entry| {
                let stored = entry.metadata().and_then(|found| found.modified()).ok();
                Some((stored, fs::read_to_string(entry.path()).ok()?))
            })
            .collect();
        notes.sort_by(|one, other| other.cmp(one));
        notes.into_iter().map(|(_, text)| text).collect()
    }

    /// Copies a file or a directory. Returns a digest of names, modes and contents. The copy
    /// contains exactly the bytes that were hashed, even if the original changes meanwhile.
    ///
    /// # Errors
    /// Fails if the program does not exist, cannot be read or copied, or contains anything other
    /// than files, directories and symlinks.
    pub fn store_copy(&self, program: &Path) -> Result<String, ProgramError> {
        let problem = |what: String| ProgramError(format!("{}: {what}", program.display()));
        let entries = list_entries(program).map_err(problem)?;
        let looks = metadata_digest(program, &entries);
        let known = || self.known_digests.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(&looks).cloned();
        if let Some(digest) = before.filter(|digest| self.find_copy(digest).is_some()) {
            return Ok(digest);
        }
        let io = |error: io::Error| problem(error.to_string());
        fs::create_dir_all(&self.folder).map_err(io)?;
        let making = tempfile::Builder::new().prefix(".making-").tempdir_in(&self.folder);
        let making = making.map_err(io)?;
        fs::set_permissions(making.path(), fs::Permissions::from_mode(0o755)).map_err(io)?;
        let mut text = String::new();
        let mut left = MAX_BYTES;
        for entry in &entries {
            let laid = entry.copy_and_hash(making.path(), &mut left).map_err(problem)?;
            if !entry.is_compiled {
                text += &laid;
            }
        }
        let digest = sha256_hex(text.as_bytes());
        let place = self.folder.join(&digest);
        let laid = fs::rename(making.path(), &place);
        match laid {
            // Keep the path. Otherwise, the guard of the temporary directory would try to remove
            // it, although it no longer exists.
            Ok(()) => drop(making.keep()),
            // In this case, another process has already stored the same program.
            Err(_) if place.is_dir() => {}
            Err(error) => return Err(io(error)),
        }
        known().insert(looks, digest.clone());
        Ok(digest)
    }
}

impl ProgramEntry {
    /// Copies the entry. Returns what it adds to the digest's input.
    fn copy_and_hash(&self, copy: &Path, remaining_bytes: &mut u64) -> Result<String, String> {
        let path = self.path.to_str().ok_or("has a name that is not UTF-8")?;
        let to = copy.join(&self.path);
        let io = |error: io::Error| format!("{path}: {error}");
        Ok(match &self.kind {
            EntryKind::Folder => {
                fs::create_dir(&to).map_err(io)?;
                fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(io)?;
                format!("{path}\0folder\n")
            }
            EntryKind::Link(target) => {
                std::os::unix::fs::symlink(target, &to).map_err(io)?;
                format!("{path}\0-> {}\n", target.to_str().ok_or("has a link that is not UTF-8")?)
            }
            EntryKind::File { is_executable: executable, .. } => {
                let mut bytes = Vec::new();
                let file = fs::File::open(&self.source).map_err(io)?;
                let modified = file.metadata().and_then(|found| found.modified());
                file.take(*remaining_bytes + 1).read_to_end(&mut bytes).map_err(io)?;
                *remaining_bytes = remaining_bytes
                    .checked_sub(bytes.len() as u64)
                    .ok_or_else(|| format!("is larger than {} GiB", MAX_BYTES >> 30))?;
                let mode = if *executable { 0o755 } else { 0o644 };
                if self.is_compiled && !is_checked(&bytes) {
                    return Ok(String::new());
                }
                fs::write(&to, &bytes).map_err(io)?;
                fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(io)?;
                // Python uses compiled code only if the source file has the modification time that
                // the code recorded.
                let written = fs::File::options().append(true).open(&to);
                written.and_then(|file| file.set_modified(modified?)).map_err(io)?;
                format!("{path}\0{mode:o} {}\n", sha256_hex(&bytes))
            }
        })
    }
}

/// Returns whether an interpreter compares compiled code with the modification time of its source
/// before using it. Other compiled code (see the flags in PEP 552) may be used without a check, and
/// no digest would cover what it does.
fn is_checked(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(&[0; 4])
}

/// Returns a value that changes whenever the metadata of any file changes.
fn metadata_digest(program: &Path, entries: &[ProgramEntry]) -> String {
    let mut text = format!("{}\n", program.display());
    for entry in entries.iter().filter(|entry| !entry.is_compiled) {
        let what = match &entry.kind {
            EntryKind::Folder => "folder".to_owned(),
            EntryKind::Link(target) => format!("-> {}", target.display()),
            EntryKind::File { is_executable: executable, metadata: looks } => {
                format!("{executable} {looks}")
            }
        };
        text += &format!("{}\0{what}\n", entry.path.display());
    }
    sha256_hex(text.as_bytes())
}

fn file_kind(metadata: &fs::Metadata) -> EntryKind {
    let changed =
        (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
    EntryKind::File {
        is_executable: metadata.permissions().mode() & 0o111 != 0,
        metadata: format!("{} {} {} {changed:?}", metadata.dev(), metadata.ino(), metadata.size()),
    }
}

/// Returns all entries of a program in a fixed order. A directory comes before its content.
fn list_entries(program: &Path) -> Result<Vec<ProgramEntry>, String> {
    let found = fs::metadata(program).map_err(|error| error.to_string())?;
    if found.is_file() {
        let name = program.file_name().unwrap_or_default().into();
        let kind = file_kind(&found);
        return Ok(vec![ProgramEntry {
            path: name,
            source: program.to_owned(),
            kind,
            is_compiled: false,
        }]);
    }
    let (mut out, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = open.pop() {
        let reading = |error: io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(program.join(&folder)).map_err(reading)? {
            let entry = entry.map_err(reading)?;
            if entry.file_name() == EXCLUDED_NAME {
                continue;
            }
            let (path, from) = (folder.join(entry.file_name()), entry.path());
            let kind = entry.file_type().map_err(reading)?;
            let kind = if kind.is_dir() {
                open.push(path.clone());
                EntryKind::Folder
            } else if kind.is_symlink() {
                EntryKind::Link(fs::read_link(&from).map_err(reading)?)
            } else if kind.is_file() {
                file_kind(&entry.metadata().map_err(reading)?)
            } else {
                return Err(format!("{} is not a file, folder or link", path.display()));
            };
            let compiled = path.iter().any(|name| name == COMPILED_FOLDER);
            out.push(ProgramEntry { path, source: from, kind, is_compiled: compiled });
            if out.len() > MAX_ENTRIES {
                return Err(format!("has more than {MAX_ENTRIES} files"));
            }
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_digest_covers_content_and_matches_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let make = |name: &str| {
            let place = folder.path().join(name);
            fs::create_dir_all(place.join("lib/__pycache__")).unwrap();
            fs::write(place.join("lib/a.py"), "a").unwrap();
            let checked = [&[0; 16], name.as_bytes()].concat();
            fs::write(place.join("lib/__pycache__/a.pyc"), checked).unwrap();
            fs::write(place.join("lib/__pycache__/unchecked.pyc"), [1; 16]).unwrap();
            std::os::unix::fs::symlink("/usr/bin/python3", place.join("python")).unwrap();
            place
        };
        let (one, two) = (make("one"), make("two"));
        let digest = programs.store_copy(&one).unwrap();
        assert_eq!(digest, programs.store_copy(&two).unwrap());
        fs::write(two.join("lib/a.py"), "b").unwrap();
        assert_ne!(digest, programs.store_copy(&two).unwrap());
        let copy = programs.find_copy(&digest).unwrap();
        assert_eq!(fs::read_to_string(copy.join("lib/a.py")).unwrap(), "a");
        let compiled = |name: &str| copy.join("lib/__pycache__").join(name);
        assert!(compiled("a.pyc").is_file() && !compiled("unchecked.pyc").exists());
        let time = |root: &Path| fs::metadata(root.join("lib/a.py")).unwrap().modified().unwrap();
        assert_eq!(time(&copy), time(&one));
        assert_eq!(fs::read_link(copy.join("python")).unwrap(), Path::new("/usr/bin/python3"));
        // No partial copy is left behind, and no path leads outside the store.
        let left = fs::read_dir(folder.path().join("programs")).unwrap().count();
        assert_eq!(left, 2);
        assert_eq!(programs.find_copy(".."), None);
    }

    #[test]
    fn program_digest_covers_modes_and_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let file = folder.path().join("agent");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let plain = programs.store_copy(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(plain, programs.store_copy(&file).unwrap());
        let error = programs.store_copy(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("No such file"), "{error}");
    }
}
