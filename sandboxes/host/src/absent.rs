//! Hides entries of host directories by mounting an overlay with two layers.
//!
//! The upper layer contains only whiteouts and the directories that lead to them. Overlaid on the
//! host's own directory, it hides the entries: they cannot be opened and are not listed. It is
//! written once and cached, so a sandbox needs only one additional mount.
//!
//! Two alternatives were rejected. An empty mount over each path reveals the location, because
//! `/dev/null` appears among regular files or the mount list contains a mount point. A filtered
//! copy of the directory takes gigabytes, or also reveals a mount point.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
};

use proctor_sandbox_api::wire::{HiddenPaths, RawPath};
use proctor_types::sha256_hex;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

use crate::host_base;

/// Increment this when an edit to this code changes the meaning of a cached directory.
const FORMAT: u32 = 2;

/// A host directory that is mounted with an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOverlay {
    /// The host directory, which is also the mount point.
    pub mount_point: PathBuf,
    /// The directory with the whiteouts.
    pub whiteouts: PathBuf,
}

/// Writes the whiteouts for `hidden_paths` to a directory below `store`, unless it already exists.
/// Blocking.
///
/// # Errors
/// Fails if `store` cannot be written to, or if something is mounted next to a path that is to be
/// hidden.
pub fn prepare_overlays(store: &Path, hidden_paths: &HiddenPaths) -> io::Result<Vec<HostOverlay>> {
    if hidden_paths.paths.is_empty() {
        return Ok(Vec::new());
    }
    let mounts = mount_points()?;
    let mut places: BTreeMap<PathBuf, Vec<&Path>> = BTreeMap::new();
    for path in hidden_paths.paths.iter().map(as_path) {
        if fs::symlink_metadata(path).is_err() {
            continue;
        }
        let at = find_overlay_root(path, &mounts)?;
        places.entry(at).or_default().push(path);
    }
    let text = format!("{FORMAT} {} {hidden_paths:?} {places:?}", host_base::host_digest());
    let folder = store.join(&sha256_hex(text.as_bytes())[..32]);
    if !folder.is_dir() {
        fs::create_dir_all(store)?;
        let made = tempfile::Builder::new().prefix(".making-").tempdir_in(store)?;
        for (number, (at, paths)) in places.iter().enumerate() {
            let decoys =
                hidden_paths.decoys.iter().map(as_path).filter(|path| path.starts_with(at));
            write_whiteouts(
                &made.path().join(number.to_string()),
                at,
                paths,
                &decoys.collect::<Vec<_>>(),
            )?;
        }
        fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755))?;
        // If another process wrote the same content first, the guard removes this copy.
        match fs::rename(made.path(), &folder) {
            Err(_) if folder.is_dir() => {}
            other => other?,
        }
    }
    let cut = |(number, at): (usize, &PathBuf)| HostOverlay {
        mount_point: at.clone(),
        whiteouts: folder.join(number.to_string()),
    };
    Ok(places.keys().enumerate().map(cut).collect())
}

fn as_path(raw: &RawPath) -> &Path {
    Path::new(OsStr::from_bytes(raw.as_bytes()))
}

/// Returns the topmost visible directory above `path` that has no mounts below it. An overlay does
/// not cross mounts, and the kernel rejects directories that contain some.
fn find_overlay_root(path: &Path, mounts: &BTreeSet<PathBuf>) -> io::Result<PathBuf> {
    let shown = host_base::visible_folders();
    let holds_none =
        |folder: &Path| !mounts.iter().any(|mount| mount != folder && mount.starts_with(folder));
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    above
        .into_iter()
        .find(|folder| shown.iter().any(|shown| folder.starts_with(shown)) && holds_none(folder))
        .map(Path::to_owned)
        .ok_or_else(|| {
            io::Error::other(format!(
                "cannot hide {}: it is not visible, or another file system is mounted next to it",
                path.display()
            ))
        })
}

fn mount_points() -> io::Result<BTreeSet<PathBuf>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let points = text
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4).map(unescape));
    Ok(points.collect())
}

fn unescape(text: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(RawPath::from_mountinfo(text).as_bytes()))
}

/// Fills `whiteouts`, the upper layer of the overlay on `mount_point`.
fn write_whiteouts(
    whiteouts: &Path,
    mount_point: &Path,
    hidden_paths: &[&Path],
    decoys: &[&Path],
) -> io::Result<()> {
    let mut made = vec![mount_point.to_owned()];
    fs::create_dir(whiteouts)?;
    // A hidden directory hides its content too. If a directory inside it were created, for a decoy
    // or another path, that would replace the whiteout and make the whole directory visible again.
    let whole: BTreeSet<&Path> = hidden_paths
        .iter()
        .copied()
        .filter(|path| !path.ancestors().skip(1).any(|above| hidden_paths.contains(&above)))
        .collect();
    let is_gone = |folder: &Path| folder.ancestors().any(|above| whole.contains(above));
    let decoys = decoys.iter().copied().filter(|folder| !is_gone(folder));
    for folder in decoys.chain(whole.iter().filter_map(|path| path.parent())) {
        create_parents(whiteouts, mount_point, folder, &mut made)?;
    }
    for path in whole {
        let Ok(inner) = path.strip_prefix(mount_point) else { continue };
        // A whiteout is a character device with number 0. All users may create this device, and no
        // user can open it.
        mknodat(CWD, whiteouts.join(inner), FileType::CharacterDevice, Mode::empty(), 0)?;
    }
    // Do this last, with the innermost directories first, because creating an entry in a directory
    // changes its times.
    for folder in made.iter().rev() {
        if let Ok(inner) = folder.strip_prefix(mount_point) {
            copy_attributes(&whiteouts.join(inner), folder)?;
        }
    }
    Ok(())
}

/// Creates the directories in `whiteouts` that lead to `folder`, if they are directories on the
/// host.
fn create_parents(
    whiteouts: &Path,
    mount_point: &Path,
    folder: &Path,
    created_folders: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let Ok(inner) = folder.strip_prefix(mount_point) else { return Ok(()) };
    let (mut here, mut there) = (whiteouts.to_owned(), mount_point.to_owned());
    for part in inner.components() {
        here.push(part);
        there.push(part);
        if here.is_dir() {
            continue;
        }
        if !fs::symlink_metadata(&there).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        fs::create_dir(&here)?;
        created_folders.push(there.clone());
    }
    Ok(())
}

/// Copies the owner, mode and times, because the overlay shows those of the upper layer.
fn copy_attributes(folder: &Path, model: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(model)?;
    // Only root may change owners. If another user runs Proctor, all directories in the sandbox
    // have the same owner anyway.
    let _ = chown(folder, Some(found.uid()), Some(found.gid()));
    fs::set_permissions(folder, found.permissions())?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(utimensat(CWD, folder, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    #[test]
    fn whiteout_folders_keep_mode_and_times_of_the_original() {
        let (host, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let inner = host.path().join("lib/deep");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(host.path().join("other")).unwrap();
        fs::write(inner.join("copy.py"), "x").unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o751)).unwrap();
        let marks = store.path().join("marks");
        let gone = [inner.join("copy.py"), host.path().join("missing/copy.py")];
        let gone: Vec<&Path> = gone.iter().map(PathBuf::as_path).take(1).collect();
        write_whiteouts(&marks, host.path(), &gone, &[&host.path().join("other")]).unwrap();
        let (made, model) =
            (fs::metadata(marks.join("lib/deep")).unwrap(), fs::metadata(&inner).unwrap());
        assert_eq!(made.mode(), model.mode());
        assert_eq!((made.mtime(), made.mtime_nsec()), (model.mtime(), model.mtime_nsec()));
        let white = fs::symlink_metadata(marks.join("lib/deep/copy.py")).unwrap();
        assert!(white.file_type().is_char_device() && white.rdev() == 0);
        assert!(marks.join("other").is_dir());
    }

    #[test]
    fn hidden_folder_stays_hidden_despite_decoys_inside() {
        let (host, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = host.path().join("pylib/packaging");
        fs::create_dir_all(folder.join("deep")).unwrap();
        let file = folder.join("deep/version.py");
        fs::write(&file, "x").unwrap();
        // Test a decoy below the hidden folder, and a decoy that is the folder itself. A path in
        // the folder is also hidden.
        for (number, decoy) in [folder.join("deep"), folder.clone()].iter().enumerate() {
            let marks = store.path().join(number.to_string());
            write_whiteouts(&marks, host.path(), &[&file, &folder, &folder], &[decoy]).unwrap();
            let white = fs::symlink_metadata(marks.join("pylib/packaging")).unwrap();
            assert!(white.file_type().is_char_device(), "{number}: the folder is visible");
        }
    }

    #[test]
    fn overlay_root_has_no_mounts_below_it() {
        let mounts = BTreeSet::from(["/", "/usr/lib/wsl"].map(PathBuf::from));
        assert_eq!(
            find_overlay_root(Path::new("/usr/lib/x/y.py"), &mounts).unwrap(),
            Path::new("/usr/lib/x")
        );
        assert_eq!(
            find_overlay_root(Path::new("/usr/share/y.py"), &mounts).unwrap(),
            Path::new("/usr/share")
        );
        assert!(find_overlay_root(Path::new("/usr/lib/y.py"), &mounts).is_err());
        assert!(find_overlay_root(Path::new("/srv/y.py"), &mounts).is_err());
        let none = BTreeSet::from([PathBuf::from("/usr")]);
        assert_eq!(
            find_overlay_root(Path::new("/usr/lib/y.py"), &none).unwrap(),
            Path::new("/usr")
        );
        assert_eq!(unescape(br"/a\040b"), Path::new("/a b"));
    }
}
