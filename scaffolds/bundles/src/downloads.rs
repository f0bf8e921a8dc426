//! Downloads files from registries and caches them by checksum. Bundles share the cache, and builds
//! still work if a mirror has removed a file.

use std::{
    fmt, fs,
    future::Future,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proctor_types::{Fault, hex};
use sha2::{Digest as _, Sha256, Sha512};

use crate::BundleError;

/// The expected checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// A SHA-256 checksum in lower-case hex.
    Sha256(String),
    Sha512(String),
}

impl Checksum {
    /// Parses npm's format: `sha512-` followed by base64.
    pub(crate) fn parse_integrity(text: &str) -> Result<Self, BundleError> {
        let bytes = text.strip_prefix("sha512-").and_then(|rest| STANDARD.decode(rest).ok());
        match bytes.filter(|bytes| bytes.len() == 64) {
            Some(bytes) => Ok(Self::Sha512(hex(&bytes))),
            None => Err(BundleError::new(format!(
                "integrity `{text}` is not `sha512-` followed by base64"
            ))
            .hint("copy what `npm view NAME@VERSION dist.integrity` prints")),
        }
    }

    fn compute(&self, bytes: &[u8]) -> Self {
        match self {
            Self::Sha256(_) => Self::Sha256(hex(&Sha256::digest(bytes))),
            Self::Sha512(_) => Self::Sha512(hex(&Sha512::digest(bytes))),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(hex) => write!(f, "sha256-{hex}"),
            Self::Sha512(hex) => write!(f, "sha512-{hex}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct DownloadCache {
    pub(crate) folder: PathBuf,
}

impl DownloadCache {
    /// Returns the file with this checksum from the cache, or downloads it. Rejects a download with
    /// a different checksum.
    pub(crate) async fn get_or_download(
        &self,
        description: &str,
        checksum: &Checksum,
        fetch: impl Future<Output = Result<Vec<u8>, Fault>>,
    ) -> Result<Vec<u8>, BundleError> {
        if let Some(bytes) = self.find_cached(checksum) {
            return Ok(bytes);
        }
        let bytes = fetch.await.map_err(|fault| match fault.what.contains(description) {
            true => BundleError::from(fault),
            false => BundleError::from(fault.context(description)),
        })?;
        let found = checksum.compute(&bytes);
        if found != *checksum {
            return Err(BundleError::new(format!(
                "{description}: its checksum is {found}, expected {checksum}"
            ))
            .hint("fix the checksum in the manifest; if it is already correct, do not trust this registry"));
        }
        self.store(&self.folder.join(checksum.to_string()), &bytes)?;
        Ok(bytes)
    }

    /// Returns the file with this checksum if it is in the cache and not corrupt.
    pub(crate) fn find_cached(&self, checksum: &Checksum) -> Option<Vec<u8>> {
        let bytes = fs::read(self.folder.join(checksum.to_string())).ok()?;
        (checksum.compute(&bytes) == *checksum).then_some(bytes)
    }

    fn store(&self, path: &Path, bytes: &[u8]) -> Result<(), BundleError> {
        let io = |error: &std::io::Error| BundleError::io(path, error);
        fs::create_dir_all(&self.folder).map_err(|error| io(&error))?;
        let fresh = tempfile::NamedTempFile::new_in(&self.folder).map_err(|error| io(&error))?;
        fs::write(fresh.path(), bytes).map_err(|error| io(&error))?;
        fresh.persist(path).map_err(|error| io(&error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn downloads_refetch_only_corrupt_files() {
        let folder = tempfile::tempdir().unwrap();
        let downloads = DownloadCache { folder: folder.path().join("d") };
        let wanted = Checksum::Sha256(proctor_types::sha256_hex(b"right"));
        let never = async { panic!("fetched") };
        let right = || async { Ok(b"right".to_vec()) };
        assert_eq!(downloads.get_or_download("x", &wanted, right()).await.unwrap(), b"right");
        assert_eq!(downloads.get_or_download("x", &wanted, never).await.unwrap(), b"right");
        fs::write(downloads.folder.join(wanted.to_string()), "damaged").unwrap();
        assert_eq!(downloads.get_or_download("x", &wanted, right()).await.unwrap(), b"right");
        let other =
            Checksum::parse_integrity(&format!("sha512-{}", STANDARD.encode([0; 64]))).unwrap();
        let error = downloads.get_or_download("x@1", &other, right()).await.unwrap_err();
        assert!(error.problem.starts_with("x@1: its checksum is sha512-"), "{error}");
        assert!(!downloads.folder.join(other.to_string()).exists());
        assert!(Checksum::parse_integrity("sha1-xyz").is_err());
    }
}
