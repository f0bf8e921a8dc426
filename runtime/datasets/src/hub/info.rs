//! The hub's description of a commit.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CommitInfo {
    /// The commit of the revision.
    pub sha: String,
    #[serde(default)]
    pub siblings: Vec<Sibling>,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sibling {
    pub rfilename: String,
    #[serde(default)]
    pub size: Option<u64>,
    /// Git's blob id, which is the checksum of files that are not in LFS.
    #[serde(default)]
    pub blob_id: Option<String>,
    #[serde(default)]
    pub lfs: Option<Lfs>,
}

/// The checksum of an LFS file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Lfs {
    #[serde(alias = "oid")]
    pub sha256: String,
}

const INFO_FILE: &str = "info.json";

impl CommitInfo {
    /// Returns the cached description of a commit, if it is complete.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&proctor_files::read_regular_file(&folder.join(INFO_FILE)).ok()?)
            .ok()
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        let failed =
            |error: std::io::Error| format!("cannot be stored in {}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let fresh = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        fs::write(fresh.path(), text).map_err(failed)?;
        fresh.persist(folder.join(INFO_FILE)).map(drop).map_err(|error| failed(error.error))
    }
}

/// Returns whether a revision is a commit instead of a branch or a tag.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}
