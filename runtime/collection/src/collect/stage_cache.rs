//! Caches the results of stages, by the stages' inputs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proctor_types::sha256_hex;
use serde::{Serialize, de::DeserializeOwned};

/// A directory of cached results. They allow an interrupted collection to continue.
#[derive(Debug, Clone)]
pub(crate) struct StageCache {
    folder: PathBuf,
    /// A key for everything that all stages depend on.
    base_key: String,
}

impl StageCache {
    pub(crate) fn new(folder: &Path, base: &str) -> Self {
        Self { folder: folder.to_owned(), base_key: sha256_hex(base.as_bytes()) }
    }

    fn result_path(&self, stage: &str, input: &str) -> PathBuf {
        let key = sha256_hex(format!("{}\0{stage}\0{input}", self.base_key).as_bytes());
        self.folder.join(format!("{stage}-{}.json", &key[..24]))
    }

    pub(crate) fn contains(&self, stage: &str, input: &str) -> bool {
        self.result_path(stage, input).is_file()
    }

    /// Returns a stage's cached result for this input.
    pub(crate) fn get<T: DeserializeOwned>(&self, stage: &str, input: &str) -> Option<T> {
        let text = fs::read_to_string(self.result_path(stage, input)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Caches a result. The file is replaced atomically by renaming a temporary file.
    pub(crate) fn put<T: Serialize>(&self, stage: &str, input: &str, result: &T) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let file = tempfile::NamedTempFile::new_in(&self.folder)?;
        fs::write(file.path(), serde_json::to_vec(result)?)?;
        file.persist(self.result_path(stage, input)).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Caches a result. Write errors are only logged, because the result can be computed again.
pub(crate) fn cache_result<T: Serialize>(cache: &StageCache, stage: &str, input: &str, result: &T) {
    if let Err(error) = cache.put(stage, input, result) {
        tracing::warn!(%error, stage, "cannot cache a stage's result");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_ignores_results_for_other_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let kept = StageCache::new(folder.path(), "tree");
        kept.put("runs", "a", &vec![1, 2]).unwrap();
        assert_eq!(kept.get::<Vec<u32>>("runs", "a"), Some(vec![1, 2]));
        assert_eq!(kept.get::<Vec<u32>>("runs", "b"), None);
        assert!(kept.contains("runs", "a") && !kept.contains("runs", "b"));
        assert_eq!(StageCache::new(folder.path(), "other").get::<Vec<u32>>("runs", "a"), None);
    }
}
