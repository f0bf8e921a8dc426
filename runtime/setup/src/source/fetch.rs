//! Fetches tasks' sources and caches them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proctor_packages::Pypi;
use proctor_sandbox_api::{SourceTree, wire::RawPath};
use proctor_types::{Fault, FaultCause, Source, sha256_hex};

use super::{
    digest,
    faults::{io_fault, source_fault},
    git, unpack,
};

/// Sources on this host, cached below one directory: `archives/<sha256>.tar.gz`,
/// `trees/<digest>/`.
///
/// A tree is moved into `trees` only when it is complete. If Proctor is killed, it leaves at most a
/// temporary directory, never an incomplete source. Complete trees never change, because each
/// sandbox gets its own copy.
#[derive(Debug, Clone)]
pub struct Sources {
    pub cache: PathBuf,
}

impl Sources {
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into() }
    }

    /// Returns a source's tree from the cache, or fetches the source first. Relative paths are
    /// resolved against `base_dir`. The caller must set `at`, the tree's path in a sandbox.
    ///
    /// # Errors
    /// Returns an environment fault, for example if the index is unreachable, the checksum is wrong
    /// or the archive is unsafe.
    pub async fn fetch(&self, source: &Source, base_dir: &Path) -> Result<SourceTree, Fault> {
        match source {
            Source::Path { path } => {
                let folder = base_dir.join(path);
                let folder = fs::canonicalize(&folder).map_err(|error| {
                    io_fault(&folder, &error)
                        .context("source folder")
                        .hint("relative paths are resolved against the folder of the task's file")
                })?;
                let found = folder.clone();
                let digest = run_blocking(move || digest::folder_digest(&found)).await?;
                Ok(new_source_tree(folder, digest))
            }
            Source::Archive { archive, sha256 } => {
                let file = base_dir.join(archive);
                let bytes = fs::read(&file)
                    .map_err(|error| io_fault(&file, &error).context("source archive"))?;
                let found = sha256_hex(&bytes);
                check_checksum(
                    &file.display().to_string(),
                    sha256.as_deref().unwrap_or(&found),
                    &found,
                )?;
                self.unpack_archive(bytes, found).await
            }
            Source::Pypi { pypi: name, version, sha256 } => {
                let folder = self.tree_folder(sha256);
                if folder.is_dir() {
                    return Ok(new_source_tree(folder, sha256.clone()));
                }
                let bytes = self.fetch_sdist(name, version, sha256).await?;
                self.unpack_archive(bytes, sha256.clone()).await
            }
            Source::Git { git: url, commit } => {
                let digest = sha256_hex(format!("git\0{commit}").as_bytes());
                let folder = self.tree_folder(&digest);
                if !folder.is_dir() {
                    let parent = self.create_cache_folder("trees")?;
                    let fresh =
                        tempfile::tempdir_in(&parent).map_err(|error| io_fault(&parent, &error))?;
                    git::checkout(url, commit, base_dir, fresh.path()).await?;
                    move_into_place(fresh, &folder)?;
                }
                Ok(new_source_tree(folder, digest))
            }
        }
    }

    /// Returns the sdist's bytes from the cache or the index, with a verified checksum.
    async fn fetch_sdist(&self, name: &str, version: &str, sha256: &str) -> Result<Vec<u8>, Fault> {
        let parent = self.create_cache_folder("archives")?;
        let kept = parent.join(format!("{sha256}.tar.gz"));
        if let Ok(bytes) = proctor_files::read_regular_file(&kept)
            && sha256_hex(&bytes) == sha256
        {
            return Ok(bytes);
        }
        let bytes = Pypi::from_env()?.download_sdist(name, version, sha256).await?;
        check_checksum(&format!("{name} {version}"), sha256, &sha256_hex(&bytes))?;
        let fresh = tempfile::NamedTempFile::new_in(&parent).map_err(|e| io_fault(&parent, &e))?;
        fs::write(fresh.path(), &bytes).map_err(|error| io_fault(fresh.path(), &error))?;
        fresh.persist(&kept).map_err(|error| io_fault(&kept, &error.error))?;
        Ok(bytes)
    }

    async fn unpack_archive(&self, bytes: Vec<u8>, digest: String) -> Result<SourceTree, Fault> {
        let folder = self.tree_folder(&digest);
        if !folder.is_dir() {
            let parent = self.create_cache_folder("trees")?;
            let fresh = tempfile::tempdir_in(&parent).map_err(|error| io_fault(&parent, &error))?;
            let to = fresh.path().to_path_buf();
            run_blocking(move || unpack::unpack_tar_gz(&bytes, &to)).await?;
            move_into_place(fresh, &folder)?;
        }
        Ok(new_source_tree(folder, digest))
    }

    fn tree_folder(&self, digest: &str) -> PathBuf {
        self.cache.join("trees").join(digest)
    }

    fn create_cache_folder(&self, name: &str) -> Result<PathBuf, Fault> {
        let folder = self.cache.join(name);
        fs::create_dir_all(&folder).map_err(|error| io_fault(&folder, &error))?;
        fs::canonicalize(&folder).map_err(|error| io_fault(&folder, &error))
    }
}

/// Moves a complete tree to its final location, unless another process has already done so.
fn move_into_place(new_tree: tempfile::TempDir, folder: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::PermissionsExt;
    // A temporary directory is private by default, but sandbox users must be able to read the tree.
    fs::set_permissions(new_tree.path(), fs::Permissions::from_mode(0o755))
        .map_err(|error| io_fault(new_tree.path(), &error))?;
    match fs::rename(new_tree.path(), folder) {
        Ok(()) => {
            // The directory has been moved. `keep` only disables the removal of the temporary path.
            let _ = new_tree.keep();
            Ok(())
        }
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(io_fault(folder, &error)),
    }
}

fn new_source_tree(folder: PathBuf, digest: String) -> SourceTree {
    // The path of the cache directory may be relative, but a sandbox needs an absolute path.
    let folder = fs::canonicalize(&folder).unwrap_or(folder);
    SourceTree { folder, digest, destination: RawPath::default() }
}

fn check_checksum(subject: &str, expected: &str, actual: &str) -> Result<(), Fault> {
    if expected == actual {
        return Ok(());
    }
    Err(source_fault(format!("{subject}: SHA-256 is {actual}, expected {expected}"))
        .cause(FaultCause::Invalid)
        .hint("if the file is authentic, fix the task's sha256"))
}

/// Runs blocking file operations off the async threads.
async fn run_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(operation)
        .await
        .unwrap_or_else(|error| Err(source_fault(format!("cannot prepare a source: {error}"))))
}
