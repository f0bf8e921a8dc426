//! A user's program, copied when a run is planned, so that every trial runs the planned version.

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

/// The mount point of the program in its own sandbox.
pub const MOUNT: &str = "/agent";

/// Name that is excluded from the copy, because its content changes with every commit.
const EXCLUDED_NAME: &str = ".git";
/// Python's compiled code. Running the program changes it, so it is not part of the digest. It is
/// copied anyway: otherwise the program would compile its libraries at each start.
const COMPILED: &str = "__pycache__";
/// A tree with more entries is rejected as a mistake.
const MAX_ENTRIES: usize = 200_000;
const MAX_BYTES: u64 = 1 << 30;

/// Why a program is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramError(pub String);

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stores copies of programs by digest.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    /// The programs that this process has already copied, by metadata: arms often share a program.
    known: Arc<Mutex<BTreeMap<String, String>>>,
}

#[derive(Debug)]
struct Entry {
    /// Path relative to the program's directory.
    path: PathBuf,
    from: PathBuf,
    kind: Kind,
    /// Whether this is compiled code or its directory.
    compiled: bool,
}

#[derive(Debug)]
enum Kind {
    Folder,
    File { executable: bool, looks: String },
    Link(PathBuf),
}

impl Programs {
    /// Creates a store below `folder`, which is created if missing.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, known: Arc::default() }
    }

    /// Returns the copy with this digest, if it exists.
    pub fn find_copy(&self, digest: &str) -> Option<PathBuf> {
        let plain = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(self.folder.join(digest)).filter(|folder| plain && folder.is_dir())
    }

    /// Stores embedded files, given as relative paths and texts. Returns their directory.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
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
            // Another process has already stored the same files.
            Err(_) if place.is_dir() => {}
            Err(error) => return Err(io(error)),
        }
        Ok(place)
    }

    /// Stores a small text beside the copies, by name.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub(crate) fn store_note(&self, name: &str, text: &str) -> Result<(), ProgramError> {
        let io = |error: io::Error| ProgramError(format!("{}: {error}", self.folder.display()));
        fs::create_dir_all(&self.folder).map_err(io)?;
        let mut making = tempfile::NamedTempFile::new_in(&self.folder).map_err(io)?;
        making.write_all(text.as_bytes()).map_err(io)?;
        making.persist(self.folder.join(name)).map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Returns the texts stored under names with this prefix, newest first.
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

    /// Copies a file or a directory and returns a digest of its names, modes and contents. The copy
    /// contains exactly the bytes that were hashed, even if the original changes meanwhile.
    ///
    /// # Errors
    /// Returns an error if the program does not exist, cannot be read or copied, or contains
    /// something other than files, directories and symlinks.
    pub fn store_copy(&self, program: &Path) -> Result<String, ProgramError> {
        let problem = |what: String| ProgramError(format!("{}: {what}", program.display()));
        let entries = entries(program).map_err(problem)?;
        let looks = metadata_digest(program, &entries);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
            if !entry.compiled {
                text += &laid;
            }
        }
        let digest = sha256_hex(text.as_bytes());
        let place = self.folder.join(&digest);
        let laid = fs::rename(making.path(), &place);
        match laid {
            // Keep the path: otherwise, the guard of the temporary directory would try to remove a
            // path that no longer exists.
            Ok(()) => drop(making.keep()),
            // Another process has already stored the same program.
            Err(_) if place.is_dir() => {}
            Err(error) => return Err(io(error)),
        }
        known().insert(looks, digest.clone());
        Ok(digest)
    }
}

impl Entry {
    /// Copies the entry and returns its contribution to the digest.
    fn copy_and_hash(&self, copy: &Path, left: &mut u64) -> Result<String, String> {
        let path = self.path.to_str().ok_or("has a name that is not UTF-8")?;
        let to = copy.join(&self.path);
        let io = |error: io::Error| format!("{path}: {error}");
        Ok(match &self.kind {
            Kind::Folder => {
                fs::create_dir(&to).map_err(io)?;
                fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(io)?;
                format!("{path}\0folder\n")
            }
            Kind::Link(target) => {
                std::os::unix::fs::symlink(target, &to).map_err(io)?;
                format!("{path}\0-> {}\n", target.to_str().ok_or("has a link that is not UTF-8")?)
            }
            Kind::File { executable, .. } => {
                let mut bytes = Vec::new();
                let file = fs::File::open(&self.from).map_err(io)?;
                let modified = file.metadata().and_then(|found| found.modified());
                file.take(*left + 1).read_to_end(&mut bytes).map_err(io)?;
                *left = left
                    .checked_sub(bytes.len() as u64)
                    .ok_or_else(|| format!("is larger than {} GiB", MAX_BYTES >> 30))?;
                let mode = if *executable { 0o755 } else { 0o644 };
                if self.compiled && !is_checked(&bytes) {
                    return Ok(String::new());
                }
                fs::write(&to, &bytes).map_err(io)?;
                fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(io)?;
                // Python uses compiled code only if the source file has the recorded modification
                // time.
                let written = fs::File::options().append(true).open(&to);
                written.and_then(|file| file.set_modified(modified?)).map_err(io)?;
                format!("{path}\0{mode:o} {}\n", sha256_hex(&bytes))
            }
        })
    }
}

/// Returns whether an interpreter checks compiled code against its source's time before using it.
/// Code with a hash (flags of PEP 552) may be used unchecked, and would then run although no digest
/// covers it.
fn is_checked(compiled: &[u8]) -> bool {
    compiled.get(4..8) == Some(&[0; 4])
}

/// Returns a value that changes whenever a file's metadata changes.
fn metadata_digest(program: &Path, entries: &[Entry]) -> String {
    let mut text = format!("{}\n", program.display());
    for entry in entries.iter().filter(|entry| !entry.compiled) {
        let what = match &entry.kind {
            Kind::Folder => "folder".to_owned(),
            Kind::Link(target) => format!("-> {}", target.display()),
            Kind::File { executable, looks } => format!("{executable} {looks}"),
        };
        text += &format!("{}\0{what}\n", entry.path.display());
    }
    sha256_hex(text.as_bytes())
}

fn file_kind(found: &fs::Metadata) -> Kind {
    let changed = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
    Kind::File {
        executable: found.permissions().mode() & 0o111 != 0,
        looks: format!("{} {} {} {changed:?}", found.dev(), found.ino(), found.size()),
    }
}

/// Returns every entry of a program in a fixed order, directories before their content.
fn entries(program: &Path) -> Result<Vec<Entry>, String> {
    let found = fs::metadata(program).map_err(|error| error.to_string())?;
    if found.is_file() {
        let name = program.file_name().unwrap_or_default().into();
        let kind = file_kind(&found);
        return Ok(vec![Entry { path: name, from: program.to_owned(), kind, compiled: false }]);
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
                Kind::Folder
            } else if kind.is_symlink() {
                Kind::Link(fs::read_link(&from).map_err(reading)?)
            } else if kind.is_file() {
                file_kind(&entry.metadata().map_err(reading)?)
            } else {
                return Err(format!("{} is not a file, folder or link", path.display()));
            };
            let compiled = path.iter().any(|name| name == COMPILED);
            out.push(Entry { path, from, kind, compiled });
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
        let programs = Programs::new(folder.path().join("programs"));
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
        // No partial copy is left, and no path escapes the directory.
        let left = fs::read_dir(folder.path().join("programs")).unwrap().count();
        assert_eq!(left, 2);
        assert_eq!(programs.find_copy(".."), None);
    }

    #[test]
    fn program_digest_covers_modes_and_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs::new(folder.path().join("programs"));
        let file = folder.path().join("agent");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let plain = programs.store_copy(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(plain, programs.store_copy(&file).unwrap());
        let error = programs.store_copy(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("No such file"), "{error}");
    }
}
