//! A finished bundle, and the build record that is stored next to its tree.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{BundleError, tree};

const RECORD_FILE: &str = "bundle.json";
const TREE_FOLDER: &str = "tree";

/// A finished bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// The directory to mount.
    pub folder: PathBuf,
    /// A digest of the modes, paths and contents of all files. Times don't affect it.
    pub digest: String,
    pub total_bytes: u64,
    pub file_count: u64,
    /// The versions of the packages in the bundle, including interpreters.
    pub versions: BTreeMap<String, String>,
    /// The top-level names that can be imported from its Python packages.
    pub python_packages: Vec<String>,
    /// How long the build took, including downloads, in seconds.
    pub build_seconds: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuildRecord {
    digest: String,
    bytes: u64,
    versions: BTreeMap<String, String>,
    python_packages: Vec<String>,
    build_seconds: f64,
    items: Vec<tree::TreeItem>,
}

impl BuildRecord {
    /// Normalizes a finished tree and creates its record.
    pub(crate) fn from_tree(
        folder: &Path,
        versions: BTreeMap<String, String>,
        python_packages: Vec<String>,
        build_seconds: f64,
    ) -> Result<Self, BundleError> {
        let root = folder.join(TREE_FOLDER);
        tree::normalize_tree(&root)?;
        let items = tree::read_items(&root)?;
        let size = |item: &tree::TreeItem| match item.what {
            tree::TreeItemKind::File { size, .. } => size,
            tree::TreeItemKind::Link { .. } => 0,
        };
        let bytes = items.iter().map(size).sum();
        let digest = tree::digest(&items);
        Ok(Self { digest, bytes, versions, python_packages, build_seconds, items })
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), BundleError> {
        let file = folder.join(RECORD_FILE);
        let text = serde_json::to_vec(self).map_err(|error| BundleError::new(error.to_string()))?;
        fs::write(&file, text).map_err(|error| BundleError::io(&file, &error))
    }

    /// Reads the record. Returns `None` if no build has finished here.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECORD_FILE)).ok()?).ok()
    }

    /// Returns the first file that is missing or has a different size or mode.
    pub(crate) fn find_change(&self, folder: &Path) -> Option<String> {
        tree::find_change(&folder.join(TREE_FOLDER), &self.items)
    }

    /// Compares the content of every file with the record.
    pub(crate) fn verify(&self, folder: &Path) -> Result<(), BundleError> {
        let root = folder.join(TREE_FOLDER);
        if let Some(damage) = self.find_change(folder) {
            return Err(BundleError::new(format!("{}: {damage}", root.display())));
        }
        let now = tree::read_items(&root)?;
        if tree::digest(&now) == self.digest {
            return Ok(());
        }
        let changed = now.iter().find(|item| !self.items.contains(item));
        let what = changed.map_or("the list of files".to_owned(), |item| item.path.clone());
        Err(BundleError::new(format!("{}: {what} has changed", root.display())))
    }

    pub(crate) fn into_bundle(self, folder: &Path) -> Bundle {
        Bundle {
            folder: folder.join(TREE_FOLDER),
            digest: self.digest,
            total_bytes: self.bytes,
            file_count: self.items.len() as u64,
            versions: self.versions,
            python_packages: self.python_packages,
            build_seconds: self.build_seconds,
        }
    }
}
