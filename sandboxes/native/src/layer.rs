//! Builds environments as layers in the cache.

use std::{
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
};

use proctor_sandbox_api::{LayerSpec, wire::RawPath};
use proctor_types::{Fault, FaultCause, FaultLayer, sha256_hex};
use serde::{Deserialize, Serialize};

use crate::{base::ResolvedBase, ids, tree};

/// Increment this when an edit to this code changes the meaning of a layer directory. Older layers
/// are then rebuilt.
const FORMAT: u32 = 1;

/// The content of `layer.json`, which describes the base of the layer's `tree`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    pub(crate) format: u32,
    pub(crate) base: ResolvedBase,
}

/// Returns the digest of the layer for a spec on a resolved base.
pub(crate) fn digest(base: &ResolvedBase, spec: &LayerSpec) -> String {
    let source = spec.source.as_ref().map(|source| (&source.digest, &source.destination));
    let key = serde_json::json!([
        FORMAT,
        base.digest,
        source,
        spec.setup,
        spec.workdir,
        spec.env.iter().map(|(key, value)| [key, value]).collect::<Vec<_>>(),
    ]);
    ids::cache_name(&sha256_hex(key.to_string().as_bytes()))
}

/// Returns a layer's directory. It contains `tree`, which is what was written on top of the base,
/// and `layer.json`.
pub(crate) fn layer_folder(cache: &Path, digest: &str) -> PathBuf {
    cache.join("layers").join(digest)
}

/// Reads a layer's record and checks that the layer is usable.
pub(crate) fn read_complete_record(folder: &Path) -> io::Result<LayerRecord> {
    let record = read_record(folder)?;
    check_complete(folder, &record)?;
    Ok(record)
}

pub(crate) fn read_record(folder: &Path) -> io::Result<LayerRecord> {
    let record: LayerRecord = serde_json::from_slice(&fs::read(folder.join("layer.json"))?)?;
    if record.format != FORMAT {
        return Err(io::Error::other(format!(
            "the layer has format {} instead of {FORMAT}",
            record.format
        )));
    }
    Ok(record)
}

/// Checks that the layer's directories exist. The base may have been removed, although the record
/// still exists.
pub(crate) fn check_complete(folder: &Path, record: &LayerRecord) -> io::Result<()> {
    for part in [&folder.join("tree"), &record.base.folder] {
        if !part.is_dir() {
            return Err(io::Error::other(format!("{} was removed", part.display())));
        }
    }
    Ok(())
}

/// Waits for the lock on building this layer, without blocking a thread. Other processes wait until
/// the returned file is closed.
pub(crate) async fn lock_layer(cache: &Path, digest: &str) -> io::Result<File> {
    let folder = cache.join("layers");
    fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(format!(".{digest}.lock")))?;
    proctor_files::lock(&file).await?;
    Ok(file)
}

/// A layer that is being built, in a directory whose name shows that it is unfinished. Dropping
/// this value before [`Self::finish`] removes the directory.
pub(crate) struct LayerBuild {
    folder: PathBuf,
}

impl LayerBuild {
    /// Creates the layer's directory and copies the source code into it. Blocking.
    pub(crate) fn begin(
        cache: &Path,
        owner: &str,
        digest: &str,
        base: &ResolvedBase,
        spec: &LayerSpec,
    ) -> Result<Self, Fault> {
        let folder = cache.join("layers").join(format!(".building-{owner}-{}", &digest[..16]));
        let building = Self { folder };
        building.copy_source(base, spec).map_err(|error| {
            Fault::new(
                FaultLayer::Environment,
                format!("cannot create the layer {digest}: {error}"),
            )
            .cause(FaultCause::from_io_error(&error))
        })?;
        Ok(building)
    }

    fn copy_source(&self, base: &ResolvedBase, spec: &LayerSpec) -> io::Result<()> {
        tree::remove(&self.folder)?;
        for name in ["tree", "work"] {
            fs::create_dir_all(self.folder.join(name))?;
        }
        if let Some(source) = &spec.source {
            let at = self.create_folder(base, &source.destination)?;
            tree::copy(&source.folder, &at)?;
        }
        self.create_folder(base, &spec.workdir)?;
        Ok(())
    }

    /// Creates a directory in the layer. If the base has the same directory, copies its mode.
    /// Rejects paths that are links in the base, because a directory in place of a link would hide
    /// the link's target.
    fn create_folder(&self, base: &ResolvedBase, sandbox_path: &RawPath) -> io::Result<PathBuf> {
        let path = Path::new(std::ffi::OsStr::from_bytes(sandbox_path.as_bytes()));
        let (mut here, mut below) = (self.tree(), base.folder.clone());
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => continue,
                Component::Normal(name) => {
                    here.push(name);
                    below.push(name);
                }
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::Error::other(format!(
                        "{sandbox_path} must be absolute, without `..`"
                    )));
                }
            }
            let base = fs::symlink_metadata(&below);
            if base.as_ref().is_ok_and(|found| !found.is_dir()) {
                return Err(io::Error::other(format!(
                    "{sandbox_path} goes through a link or file of the base"
                )));
            }
            if !here.exists() {
                fs::create_dir(&here)?;
                // Ignore this process's umask, because the task's user must be able to enter the
                // directory.
                let usual = fs::Permissions::from_mode(0o755);
                fs::set_permissions(&here, base.map_or(usual, |found| found.permissions()))?;
            }
        }
        Ok(here)
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    pub(crate) fn work_folder(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Returns the directory for the machine's registry settings during the build.
    pub(crate) fn setup_files(&self) -> PathBuf {
        self.folder.join("lent")
    }

    /// Moves the layer to its final location atomically. Blocking.
    pub(crate) fn finish(self, destination: &Path, base: ResolvedBase) -> Result<(), Fault> {
        let finish = || -> io::Result<()> {
            tree::remove(&self.work_folder())?;
            tree::remove(&self.setup_files())?;
            let record = serde_json::to_vec_pretty(&LayerRecord { format: FORMAT, base })?;
            fs::write(self.folder.join("layer.json"), record)?;
            // If a layer already exists here, it is unusable. Otherwise, it would have been used
            // instead.
            tree::remove(destination)?;
            fs::rename(&self.folder, destination)
        };
        finish().map_err(|error| {
            Fault::new(
                FaultLayer::Environment,
                format!("cannot finish the layer {}: {error}", destination.display()),
            )
            .cause(FaultCause::from_io_error(&error))
        })
    }
}

impl Drop for LayerBuild {
    fn drop(&mut self) {
        if let Err(error) = tree::remove(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "cannot remove an unfinished layer");
        }
    }
}

/// Removes a dead runtime's unfinished layers. Returns what was removed.
pub(crate) fn sweep(cache: &Path, owner: &str) -> io::Result<Vec<String>> {
    let mut out = Vec::new();
    let entries = match fs::read_dir(cache.join("layers")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(out),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!(".building-{owner}-")) {
            tree::remove(&entry.path())?;
            out.push(name);
        }
    }
    Ok(out)
}
