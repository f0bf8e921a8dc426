//! Lists what was written outside the work directory.

use std::{
    collections::{BTreeMap, HashSet},
    os::fd::OwnedFd,
};

use proctor_wire::{ContainerDiff, EntryKind, LayerRequest};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, Stat, fgetxattr, fstat, openat, statat},
    io::Errno,
};

use super::{
    super::table::{StatFingerprint, is_within, push_name},
    mounts::writable_mounts,
    open::{FOLDER_FLAGS, PARENT_FLAGS, open, upper_folder},
    paths::{cannot_examine_message, display, split_parent, trim_slashes},
};
use crate::serve::entries;

/// The extended attribute of an overlay directory that hides the directory below it.
const OPAQUE: &str = "user.overlay.opaque";

/// Maximum total size of all paths and link targets in bytes. The agent keeps them in memory and
/// sends them as JSON.
const PATHS_LIMIT: u64 = 8 << 20;

/// Entries by path, relative to `/`.
pub(super) type WrittenEntries = BTreeMap<Vec<u8>, WrittenEntry>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EntrySource {
    /// In the upper directory of the overlay.
    Upper,
    /// Below `/`.
    Root,
}

#[derive(Clone, Copy)]
pub(super) struct WrittenEntry {
    /// `None` if the entry only marks a deleted entry of a lower layer.
    pub stat_fingerprint: Option<StatFingerprint>,
    pub owner: (u32, u32),
    pub source: EntrySource,
    /// Whether the directory hides the lower layer's directory.
    pub hides_lower: bool,
}

impl WrittenEntry {
    pub(super) const DELETED: Self = Self {
        stat_fingerprint: None,
        owner: (0, 0),
        source: EntrySource::Root,
        hides_lower: false,
    };

    pub(super) fn from_stat(stat: &Stat, source: EntrySource) -> Self {
        let owner = (stat.st_uid, stat.st_gid);
        Self {
            stat_fingerprint: Some(StatFingerprint::new(stat)),
            owner,
            source,
            hides_lower: false,
        }
    }

    /// Returns whether the entry is unchanged. For a directory, compares only its metadata: changes
    /// inside it show up in its entries.
    pub(super) fn is_same_as(&self, current: &Self) -> bool {
        let (Some(before), Some(after)) = (&self.stat_fingerprint, &current.stat_fingerprint)
        else {
            return false;
        };
        let same = (self.owner, self.hides_lower) == (current.owner, current.hides_lower);
        same && match after.kind {
            EntryKind::File | EntryKind::Link => before.is_same_as(after),
            EntryKind::Dir | EntryKind::Other => {
                (before.kind, before.mode) == (after.kind, after.mode)
            }
        }
    }
}

/// Lists what was written. The error is the reason why the list is unavailable.
pub(super) fn list_written(
    request: &LayerRequest,
    container_diff: Option<&ContainerDiff>,
    mounts: &[u8],
) -> Result<WrittenEntries, String> {
    let root = openat(CWD, "/", FOLDER_FLAGS, Mode::empty())
        .map_err(|error| cannot_examine_message(b"", error))?;
    let mut list = WrittenList::new(request);
    match (container_diff, upper_folder()) {
        (Some(written), _) => list.add_listed_paths(&root, written)?,
        (None, Some(upper)) => {
            list.walk(upper, b"", EntrySource::Upper)?;
            for repository in list.repositories.clone() {
                list.walk(upper, &repository, EntrySource::Upper)?;
            }
        }
        (None, None) => return Err("the back end cannot list written paths".to_owned()),
    }
    for mount in writable_mounts(mounts) {
        list.add_mount(&root, &mount)?;
    }
    Ok(list.entries)
}

struct WrittenList {
    workdir: Vec<u8>,
    repositories: Vec<Vec<u8>>,
    limit: u64,
    entries: WrittenEntries,
    path_bytes: u64,
}

impl WrittenList {
    fn new(request: &LayerRequest) -> Self {
        let repositories = request.repositories.iter();
        Self {
            workdir: trim_slashes(request.workdir.as_bytes()).to_vec(),
            repositories: repositories.map(|path| trim_slashes(path.as_bytes()).to_vec()).collect(),
            limit: request.entry_limit,
            entries: WrittenEntries::new(),
            path_bytes: 0,
        }
    }

    /// Returns whether to list a path, which is true if the work directory's snapshots do not cover
    /// it.
    fn includes(&self, path: &[u8]) -> bool {
        !is_within(path, &self.workdir)
            || self.repositories.iter().any(|repository| is_within(path, repository))
    }

    fn add(&mut self, path: Vec<u8>, entry: WrittenEntry) -> Result<(), String> {
        let target = entry.stat_fingerprint.filter(|witness| witness.kind == EntryKind::Link);
        self.path_bytes += path.len() as u64 + target.map_or(0, |link| link.size);
        self.entries.insert(path, entry);
        if self.entries.len() as u64 > self.limit {
            return Err(format!("more than {} entries were written", self.limit));
        }
        if self.path_bytes > PATHS_LIMIT {
            return Err("the list of written paths is too long".to_owned());
        }
        Ok(())
    }

    /// Adds everything that is below the directory `start` of `root` and on the same file system.
    fn walk(&mut self, root: &OwnedFd, start: &[u8], source: EntrySource) -> Result<(), String> {
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut folders = vec![start.to_vec()];
        let mut device = None;
        while let Some(path) = folders.pop() {
            let folder = match open(root, &path, FOLDER_FLAGS) {
                Ok(folder) => folder,
                // The directory was removed after it was listed, or it is a repository in the work
                // directory to which nothing was written.
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(error) => return Err(cannot_examine_message(&path, error)),
            };
            let stat = fstat(&folder).map_err(|error| cannot_examine_message(&path, error))?;
            let device = *device.get_or_insert(stat.st_dev);
            if stat.st_dev != device {
                continue;
            }
            if path == start && !start.is_empty() {
                self.add(path.clone(), WrittenEntry::from_stat(&stat, source))?;
            }
            if source == EntrySource::Upper
                && is_opaque(&folder)
                && let Some(found) = self.entries.get_mut(&path)
            {
                found.hides_lower = true;
            }
            let names = entries::read_names_up_to(&folder, most)
                .map_err(|error| cannot_examine_message(&path, error))?;
            let names =
                names.ok_or_else(|| format!("{} has more than {most} entries", display(&path)))?;
            for name in names {
                let mut full = path.clone();
                push_name(&mut full, &name);
                if !self.includes(&full) {
                    continue;
                }
                let stat = match statat(&folder, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => stat,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(cannot_examine_message(&full, error)),
                };
                // Another file system is mounted there, so skip the entry.
                if stat.st_dev != device {
                    continue;
                }
                if source == EntrySource::Upper && is_whiteout(&stat) {
                    self.add(full, WrittenEntry::DELETED)?;
                    continue;
                }
                if entries::entry_kind(&stat) == EntryKind::Dir {
                    folders.push(full.clone());
                }
                self.add(full, WrittenEntry::from_stat(&stat, source))?;
            }
        }
        Ok(())
    }

    /// Adds the paths in the container engine's list.
    fn add_listed_paths(
        &mut self,
        root: &OwnedFd,
        container_diff: &ContainerDiff,
    ) -> Result<(), String> {
        let gone: HashSet<&[u8]> =
            container_diff.gone.iter().map(|path| trim_slashes(path.as_bytes())).collect();
        for path in &gone {
            if self.includes(path) {
                self.add(path.to_vec(), WrittenEntry::DELETED)?;
            }
        }
        let mut opened: Option<(&[u8], OwnedFd)> = None;
        for path in container_diff.paths.iter().chain(&container_diff.gone) {
            let path = trim_slashes(path.as_bytes());
            if path.is_empty() || !self.includes(path) {
                continue;
            }
            let (parent, name) = split_parent(path);
            if opened.as_ref().is_none_or(|(at, _)| *at != parent) {
                opened = match open(root, parent, PARENT_FLAGS) {
                    Ok(folder) => Some((parent, folder)),
                    Err(Errno::NOENT | Errno::NOTDIR) => None,
                    Err(error) => return Err(cannot_examine_message(parent, error)),
                };
            }
            let Some((_, folder)) = &opened else { continue };
            match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let replaced =
                        gone.contains(path) && entries::entry_kind(&stat) == EntryKind::Dir;
                    self.add(
                        path.to_vec(),
                        WrittenEntry {
                            hides_lower: replaced,
                            ..WrittenEntry::from_stat(&stat, EntrySource::Root)
                        },
                    )?;
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(cannot_examine_message(path, error)),
            }
        }
        Ok(())
    }

    /// Adds a separately mounted file system, or a single file that is a mount point.
    fn add_mount(&mut self, root: &OwnedFd, mount_point: &[u8]) -> Result<(), String> {
        if mount_point.is_empty() || !self.includes(mount_point) {
            return Ok(());
        }
        let (parent, name) = split_parent(mount_point);
        // Another mount hides this one, so skip it.
        let Ok(folder) = open(root, parent, PARENT_FLAGS) else { return Ok(()) };
        let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        match entries::entry_kind(&stat) {
            EntryKind::Dir => self.walk(root, mount_point, EntrySource::Root),
            EntryKind::File => {
                self.add(mount_point.to_vec(), WrittenEntry::from_stat(&stat, EntrySource::Root))
            }
            EntryKind::Link | EntryKind::Other => Ok(()),
        }
    }
}

fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0; 4];
    fgetxattr(folder, OPAQUE, &mut value[..]) == Ok(1) && value[0] == b'y'
}

/// Returns whether the entry is an overlay's marker for a deleted entry of a lower layer.
fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn layer_request(file_limit: u64, content_limit: u64) -> LayerRequest {
        LayerRequest {
            files_alone: false,
            fresh: false,
            workdir: "/testbed".into(),
            repositories: vec!["/testbed/.git".into()],
            listed: false,
            file_limit,
            content_limit,
            entry_limit: 100,
        }
    }

    #[test]
    fn list_excludes_paths_in_snapshots() {
        let list = WrittenList::new(&layer_request(1, 1));
        for taken in ["tmp/a", "testbed2/a", "root/.cache", "testbed/.git", "testbed/.git/HEAD"] {
            assert!(list.includes(taken.as_bytes()), "{taken}");
        }
        for left in ["testbed", "testbed/a", "testbed/.gitignore"] {
            assert!(!list.includes(left.as_bytes()), "{left}");
        }
    }
}
