//! Resolves the base of a sandbox's root file system.

use std::{
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use proctor_host::{absent::Cut, host_base};
use proctor_sandbox_api::{Base, Mount, wire::RawPath};
use proctor_types::{Cause, Fault, ImageSettings, Layer, sha256_hex};
use proctor_wire::Bind;
use serde::{Deserialize, Serialize};

use crate::{archive, ids, tree};

/// The directories and mounts of one base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResolvedBase {
    /// Identifies the content; part of the key of layers built on it.
    pub(crate) digest: String,
    pub(crate) folder: PathBuf,
    /// Whether the host's programs are mounted on top of the directory.
    pub(crate) host: bool,
    /// Enforcement entries: what its sandboxes lack because this user is not root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// The archive from which the directory was unpacked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<PathBuf>,
}

/// Resolves the base. Blocking.
pub(crate) fn base(cache: &Path, base: &Base) -> Result<ResolvedBase, Fault> {
    match base {
        Base::Host => host(cache)
            .map_err(|error| wrong(&error, format!("cannot prepare the host base: {error}"))),
        Base::Folder(folder) => {
            let digest = manifest_digest(folder).map_err(|error| {
                let what =
                    format!("cannot read the root file system {}: {error}", folder.display());
                wrong(&error, what)
            })?;
            let (folder, missing) = usable(cache, &digest, folder).map_err(|error| {
                let what =
                    format!("cannot copy the root file system {}: {error}", folder.display());
                wrong(&error, what)
            })?;
            Ok(ResolvedBase { digest, folder, host: false, missing, archive: None })
        }
        Base::Archive(archive) => {
            let unpacked = archive::unpack(cache, archive);
            let (digest, folder) = unpacked.map_err(|error| wrong_archive(archive, &error))?;
            let missing = match ids::gives_files() {
                true => Vec::new(),
                false => vec![ALL_OF_ROOT.to_owned()],
            };
            let archive = Some(archive.clone());
            Ok(ResolvedBase { digest, folder, host: false, missing, archive })
        }
        Base::Image(image) => Err(Fault::new(
            Layer::Environment,
            format!("the native back end cannot pull the image {image}"),
        )
        .cause(Cause::Invalid)
        .hint("save it to an archive (`docker save -o FILE IMAGE`), or use sandbox.kind=docker")),
        Base::Dockerfile(folder) => Err(Fault::new(
            Layer::Environment,
            format!(
                "the native back end cannot build `environment.dockerfile` ({})",
                folder.display()
            ),
        )
        .cause(Cause::Invalid)
        .hint("use sandbox.kind=docker")),
    }
}

/// Returns the settings of a base's image. Blocking.
pub(crate) fn settings(cache: &Path, asked: &Base) -> Result<ImageSettings, Fault> {
    match asked {
        Base::Archive(_) => Ok(archive::settings(&base(cache, asked)?.folder)),
        // Rejected by `base` with a specific error.
        Base::Image(_) | Base::Dockerfile(_) => {
            base(cache, asked).map(|_| ImageSettings::default())
        }
        Base::Host | Base::Folder(_) => Ok(ImageSettings::default()),
    }
}

/// Only the machine's root can change owners.
const ALL_OF_ROOT: &str = "owners: in the sandbox, root owns every file of the image";

/// Maximum number of paths listed in an enforcement entry.
const NAMED: usize = 5;

/// Returns a root file system that this user's sandboxes can change: the directory itself if this
/// user owns its files, otherwise a copy. In a user namespace, files of unmapped users are
/// read-only at best.
fn usable(cache: &Path, digest: &str, folder: &Path) -> io::Result<(PathBuf, Vec<String>)> {
    if is_own(folder)? {
        return Ok((folder.to_owned(), Vec::new()));
    }
    let (bases, name) = (cache.join("bases"), ids::name_of(digest));
    let place = bases.join(format!("folder-{name}"));
    let list = bases.join(format!("unreadable-{name}"));
    if !(place.is_dir() && list.is_file()) {
        fs::create_dir_all(&bases)?;
        let temporary = tempfile::Builder::new().prefix(".folder-").tempdir_in(&bases)?;
        let unreadable = tree::copy_readable(folder, temporary.path())?;
        let shown = |path: &PathBuf| {
            let inner = path.strip_prefix(folder).unwrap_or(path);
            Path::new("/").join(inner).display().to_string()
        };
        let unreadable: Vec<String> = unreadable.iter().map(shown).collect();
        let mut file = tempfile::NamedTempFile::new_in(&bases)?;
        serde_json::to_writer(&mut file, &unreadable)?;
        file.persist(&list).map_err(|error| error.error)?;
        tree::publish(&temporary.keep(), &place)?;
    }
    let unreadable: Vec<String> = serde_json::from_slice(&fs::read(&list)?)?;
    let missing = (!unreadable.is_empty()).then(|| {
        let named = &unreadable[..unreadable.len().min(NAMED)];
        let more = if unreadable.len() > NAMED { ", ..." } else { "" };
        format!(
            "base: the sandbox lacks {} paths of {} that this user cannot read: {}{more}",
            unreadable.len(),
            folder.display(),
            named.join(", ")
        )
    });
    Ok((place, missing.into_iter().collect()))
}

/// Returns whether everything in a directory belongs to users that exist in this user's sandboxes.
fn is_own(folder: &Path) -> io::Result<bool> {
    if ids::is_machine_root() {
        return Ok(true);
    }
    let (map, _) = ids::map();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        if !ids::has(map, fs::symlink_metadata(&next)?.uid()) {
            return Ok(false);
        }
        // The sandbox's root can access directories that this user cannot.
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                pending.push(entry.path());
            } else if !ids::has(map, found.uid()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns the fault of an archive that can't be read or unpacked.
pub(crate) fn wrong_archive(archive: &Path, error: &io::Error) -> Fault {
    wrong(error, format!("cannot read the archive {}: {error}", archive.display()))
}

fn wrong(error: &io::Error, what: String) -> Fault {
    Fault::new(Layer::Environment, what).cause(Cause::of_io(error))
}

fn host(cache: &Path) -> io::Result<ResolvedBase> {
    let pieces = format!("{:?}", host_base::skeleton()?);
    let skeleton = sha256_hex(pieces.as_bytes());
    let folder = cache.join("bases").join(format!("host-{}", &ids::name_of(&skeleton)[..16]));
    if !folder.exists() {
        let parent = cache.join("bases");
        fs::create_dir_all(&parent)?;
        let temporary = tempfile::Builder::new().prefix(".host-").tempdir_in(&parent)?;
        host_base::write_skeleton(temporary.path())?;
        fs::set_permissions(temporary.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        tree::publish(&temporary.keep(), &folder)?;
    }
    let digest = sha256_hex(format!("{skeleton} {}", host_base::host_digest()).as_bytes());
    Ok(ResolvedBase { digest, folder, host: true, missing: Vec::new(), archive: None })
}

/// Returns the mounts of a host base and the paths that are hidden in them.
pub(crate) fn host_views() -> (Vec<Bind>, Vec<RawPath>) {
    let (shown, hidden) = (host_base::shown(), host_base::hidden());
    let binds = shown.iter().map(|path| Bind::new(raw(path), raw(path))).collect();
    (binds, hidden.iter().map(|path| raw(path)).collect())
}

/// Adds overlays with whiteouts. A directory below a mount gets its own mount after the containing
/// one.
pub(crate) fn cut(binds: &mut Vec<Bind>, cuts: &[Cut]) {
    for cut in cuts {
        let (at, marks) = (raw(&cut.at), Some(raw(&cut.marks)));
        match binds.iter_mut().find(|bind| bind.to == at) {
            Some(bind) => bind.marks = marks,
            None => binds.push(Bind { from: at.clone(), to: at, marks }),
        }
    }
}

/// Returns read-only mounts of the host directories that a trial's sandbox uses.
pub(crate) fn mount_binds(mounts: &[Mount]) -> Result<Vec<Bind>, Fault> {
    let view = |mount: &Mount| {
        let found = fs::canonicalize(&mount.folder);
        let folder = found.map_err(|error| {
            let what = format!("cannot mount {} at {}: {error}", mount.folder.display(), mount.at);
            Fault::new(Layer::Sandbox, what)
                .cause(Cause::of_io(&error))
                .hint("it was removed during the run; `proctor resume` creates it again")
        })?;
        Ok(Bind::new(raw(&folder), mount.at.clone()))
    };
    mounts.iter().map(view).collect()
}

pub(crate) fn raw(path: &Path) -> RawPath {
    RawPath::new(path.as_os_str().as_bytes())
}

/// Identifies the state of a directory by metadata that a package manager would change: path, mode,
/// size and change time of every entry. Reading a gigabyte of content for each run would take
/// seconds.
fn manifest_digest(folder: &Path) -> io::Result<String> {
    let mut text = folder.display().to_string().into_bytes();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        let mut entries = match fs::read_dir(&next) {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
            // Inaccessible to this user, so its content is not part of the base.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && next != folder => {
                continue;
            }
            Err(error) => return Err(error),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let found = entry.metadata()?;
            text.extend_from_slice(entry.path().as_os_str().as_bytes());
            text.extend_from_slice(
                format!("\0{:o} {} {}\n", found.mode(), found.size(), found.ctime()).as_bytes(),
            );
            if found.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(sha256_hex(&text))
}
