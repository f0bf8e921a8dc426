//! Writes an untrusted image's root file system, entry by entry.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, linkat, openat2};
use tar::{Entry, EntryType};

use super::image_archive::invalid_data_error;
use crate::{ids, tree};

/// Writes only below one directory. The kernel resolves every parent as if that directory were the
/// root, so no link in the image, relative or absolute, leads outside.
pub(super) struct Root {
    folder: PathBuf,
    root: OwnedFd,
    /// Whether to set the owners that the image specifies. Requires root and a mapping of all ids.
    sets_owners: bool,
    /// Paths that the current layer wrote. An opaque directory hides the content of earlier layers,
    /// but not these paths.
    written_paths: HashSet<PathBuf>,
    /// Final modes of directories, if this process cannot set owners. They are set at the end,
    /// because a directory without write permission would block the rest of the image.
    final_modes: BTreeMap<PathBuf, u32>,
}

impl Root {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(
            folder,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let owners = ids::can_change_owners();
        Ok(Self {
            folder: folder.to_owned(),
            root,
            sets_owners: owners,
            written_paths: HashSet::new(),
            final_modes: BTreeMap::new(),
        })
    }

    /// Sets the final modes of directories. Call this after the last layer.
    pub(super) fn set_final_modes(&mut self) -> io::Result<()> {
        // Set the innermost directories first, because a parent without permissions would block
        // access to them.
        for (path, mode) in std::mem::take(&mut self.final_modes).into_iter().rev() {
            let held = match self.open_folder(&path, OFlags::NOFOLLOW) {
                // A later layer removed or replaced this directory.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    continue;
                }
                other => other?,
            };
            let real = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            fs::set_permissions(real, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Applies one layer.
    pub(super) fn apply_layer(&mut self, layer: impl io::Read) -> io::Result<()> {
        self.written_paths.clear();
        let mut tar = tar::Archive::new(layer);
        for entry in tar.entries()? {
            let mut entry = entry?;
            let path = path_in_root(&entry.path()?)?;
            self.apply_entry(&mut entry, &path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
        }
        Ok(())
    }

    fn apply_entry(&mut self, entry: &mut Entry<'_, impl io::Read>, path: &Path) -> io::Result<()> {
        let Some(name) = path.file_name() else { return Ok(()) };
        let parent = path.parent().unwrap_or(Path::new(""));
        let (_held, real) = self.open_parent(parent)?;
        if name == ".wh..wh..opq" {
            return self.remove_older_entries(parent, &real);
        }
        let text = name.to_string_lossy();
        if let Some(hidden) = text.strip_prefix(".wh.") {
            return remove_entry(&real.join(hidden));
        }
        let target = real.join(name);
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Directory => {
                if !fs::symlink_metadata(&target).is_ok_and(|found| found.is_dir()) {
                    remove_entry(&target)?;
                    fs::create_dir(&target)?;
                }
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                remove_entry(&target)?;
                let mut file = fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&target)?;
                io::copy(entry, &mut file)?;
                let seconds = entry.header().mtime().unwrap_or(0);
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
            }
            EntryType::Symlink => {
                let to =
                    entry.link_name()?.ok_or_else(|| invalid_data_error("a link has no target"))?;
                remove_entry(&target)?;
                symlink(to, &target)?;
            }
            EntryType::Link => {
                let to =
                    entry.link_name()?.ok_or_else(|| invalid_data_error("a link has no target"))?;
                let to = path_in_root(&to)?;
                let name = to
                    .file_name()
                    .ok_or_else(|| invalid_data_error("a hard link refers to the root"))?;
                let (_held, folder) = self.open_parent(to.parent().unwrap_or(Path::new("")))?;
                let from = folder.join(name);
                if from != target {
                    remove_entry(&target)?;
                    linkat(CWD, &from, CWD, &target, AtFlags::empty())?;
                }
                self.written_paths.insert(path.to_owned());
                return Ok(());
            }
            // Skip devices, pipes and sockets. The sandbox has its own devices, and programs create
            // their own pipes and sockets.
            _ => return Ok(()),
        }
        self.set_attributes(entry, &target, kind)?;
        if kind == EntryType::Directory && !self.sets_owners {
            self.final_modes.insert(path.to_owned(), entry.header().mode()? & 0o7777);
        }
        self.written_paths.insert(path.to_owned());
        Ok(())
    }

    fn set_attributes(
        &self,
        entry: &Entry<'_, impl io::Read>,
        target: &Path,
        kind: EntryType,
    ) -> io::Result<()> {
        let header = entry.header();
        if self.sets_owners {
            // A file can't have an owner in the sandbox whose id is outside the sandbox's map.
            let id =
                |number: u64| u32::try_from(number).ok().filter(|id| *id < 65_536).unwrap_or(0);
            let (user, group) = (header.uid().unwrap_or(0), header.gid().unwrap_or(0));
            lchown(target, Some(id(user)), Some(id(group)))?;
        }
        if kind != EntryType::Symlink {
            let mut mode = header.mode()? & 0o7777;
            if kind == EntryType::Directory && !self.sets_owners {
                mode |= 0o700;
            }
            fs::set_permissions(target, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Opens the parent directory of a path below the root, and creates it if missing. The returned
    /// path goes through the open descriptor, so the directory cannot be replaced between check and
    /// write.
    fn open_parent(&self, path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let held = match self.open_folder(path, OFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (_above, real) = self.open_parent(path.parent().unwrap_or(Path::new("")))?;
                let name = path
                    .file_name()
                    .ok_or_else(|| invalid_data_error("a layer removes the root"))?;
                fs::create_dir(real.join(name))?;
                self.open_folder(path, OFlags::empty())?
            }
            other => other?,
        };
        let real = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        Ok((held, real))
    }

    /// Opens a directory below the root.
    fn open_folder(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let folder = openat2(
            &self.root,
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )?;
        Ok(folder)
    }

    fn remove_older_entries(&self, path: &Path, target: &Path) -> io::Result<()> {
        for entry in fs::read_dir(target)? {
            let entry = entry?;
            let kept = path.join(entry.file_name());
            if !self.written_paths.iter().any(|written| written.starts_with(&kept)) {
                remove_entry(&entry.path())?;
            }
        }
        Ok(())
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Converts a path in an archive to a path relative to the root.
fn path_in_root(path: &Path) -> io::Result<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(invalid_data_error(format!(
                    "the path {} leads outside the image",
                    path.display()
                )));
            }
        }
    }
    Ok(out)
}

fn remove_entry(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => tree::remove(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
