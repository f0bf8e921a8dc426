//! Resolves a base to the directories and mounts of a sandbox's root file system.

use std::{
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use proctor_host::host_base;
use proctor_sandbox_api::Base;
use proctor_types::{Fault, FaultCause, FaultLayer, ImageSettings, sha256_hex};
use serde::{Deserialize, Serialize};

use crate::{archive, ids, tree};

/// The directories and mounts that make up a base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResolvedBase {
    /// Identifies the base's content. It is part of the cache key of layers that are built on this
    /// base.
    pub(crate) digest: String,
    pub(crate) folder: PathBuf,
    /// Whether the host's programs are mounted over the directory.
    pub(crate) host: bool,
    /// Enforcement entries that say what is missing from sandboxes because this user is not root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// The archive that was unpacked into the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<PathBuf>,
}

/// Resolves the base. Blocking.
pub(crate) fn resolve(cache: &Path, base: &Base) -> Result<ResolvedBase, Fault> {
    match base {
        Base::Host => resolve_host(cache).map_err(|error| {
            environment_fault(&error, format!("cannot prepare the host base: {error}"))
        }),
        Base::Folder(folder) => {
            let digest = manifest_digest(folder).map_err(|error| {
                let what =
                    format!("cannot read the root file system {}: {error}", folder.display());
                environment_fault(&error, what)
            })?;
            let (folder, missing) =
                prepare_changeable_root(cache, &digest, folder).map_err(|error| {
                    let what =
                        format!("cannot copy the root file system {}: {error}", folder.display());
                    environment_fault(&error, what)
                })?;
            Ok(ResolvedBase { digest, folder, host: false, missing, archive: None })
        }
        Base::Archive(archive) => {
            let unpacked = archive::unpack(cache, archive);
            let (digest, folder) = unpacked.map_err(|error| archive_fault(archive, &error))?;
            let missing = match ids::can_change_owners() {
                true => Vec::new(),
                false => vec![ROOT_OWNS_ALL.to_owned()],
            };
            let archive = Some(archive.clone());
            Ok(ResolvedBase { digest, folder, host: false, missing, archive })
        }
        Base::Image(image) => Err(Fault::new(
            FaultLayer::Environment,
            format!("the native back end cannot pull the image {image}"),
        )
        .cause(FaultCause::Invalid)
        .hint("save it to an archive (`docker save -o FILE IMAGE`), or use sandbox.kind=docker")),
        Base::Dockerfile(folder) => Err(Fault::new(
            FaultLayer::Environment,
            format!(
                "the native back end cannot build `environment.dockerfile` ({})",
                folder.display()
            ),
        )
        .cause(FaultCause::Invalid)
        .hint("use sandbox.kind=docker")),
    }
}

/// Returns the container settings of a base's image. Blocking.
pub(crate) fn image_settings(cache: &Path, base: &Base) -> Result<ImageSettings, Fault> {
    match base {
        Base::Archive(_) => Ok(archive::image_settings(&resolve(cache, base)?.folder)),
        // `resolve` rejects these bases with a specific error.
        Base::Image(_) | Base::Dockerfile(_) => {
            resolve(cache, base).map(|_| ImageSettings::default())
        }
        Base::Host | Base::Folder(_) => Ok(ImageSettings::default()),
    }
}

/// An enforcement entry. Files keep their owners only if the machine's root unpacks the image.
const ROOT_OWNS_ALL: &str = "owners: in the sandbox, root owns every file of the image";

/// Maximum number of paths to list in an enforcement entry.
const MAX_NAMED_PATHS: usize = 5;

/// Returns a root file system that this user's sandboxes can change. This is the directory itself
/// if all owners of its files are mapped in the sandbox, otherwise a copy. In a user namespace,
/// files of unmapped users are readable at best.
fn prepare_changeable_root(
    cache: &Path,
    digest: &str,
    folder: &Path,
) -> io::Result<(PathBuf, Vec<String>)> {
    if has_only_mapped_owners(folder)? {
        return Ok((folder.to_owned(), Vec::new()));
    }
    let (bases, name) = (cache.join("bases"), ids::cache_name(digest));
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
        let named = &unreadable[..unreadable.len().min(MAX_NAMED_PATHS)];
        let more = if unreadable.len() > MAX_NAMED_PATHS { ", ..." } else { "" };
        format!(
            "base: {} paths under {} are missing from the sandbox because this user cannot read 
             them: {}{more}",
            unreadable.len(),
            folder.display(),
            named.join(", ")
        )
    });
    Ok((place, missing.into_iter().collect()))
}

/// Returns whether all owners of files in a directory are mapped in this user's sandboxes.
fn has_only_mapped_owners(folder: &Path) -> io::Result<bool> {
    if ids::is_machine_root() {
        return Ok(true);
    }
    let (map, _) = ids::id_map();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        if !ids::is_mapped(map, fs::symlink_metadata(&next)?.uid()) {
            return Ok(false);
        }
        // This user cannot access the directory, but the sandbox's root can.
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                pending.push(entry.path());
            } else if !ids::is_mapped(map, found.uid()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns the fault for an archive that can't be read or unpacked.
pub(crate) fn archive_fault(archive: &Path, error: &io::Error) -> Fault {
    environment_fault(error, format!("cannot read the archive {}: {error}", archive.display()))
}

fn environment_fault(error: &io::Error, message: String) -> Fault {
    Fault::new(FaultLayer::Environment, message).cause(FaultCause::from_io_error(error))
}

fn resolve_host(cache: &Path) -> io::Result<ResolvedBase> {
    let pieces = format!("{:?}", host_base::skeleton()?);
    let skeleton = sha256_hex(pieces.as_bytes());
    let folder = cache.join("bases").join(format!("host-{}", &ids::cache_name(&skeleton)[..16]));
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

/// Identifies a directory's state by metadata that a package manager would change: the path, mode,
/// size and change time of every entry. Reading gigabytes of content for each run would take many
/// seconds.
fn manifest_digest(folder: &Path) -> io::Result<String> {
    let mut text = folder.display().to_string().into_bytes();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        let mut entries = match fs::read_dir(&next) {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
            // This user cannot access the directory, so its content is not part of the base.
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
