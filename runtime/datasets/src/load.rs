//! Loads datasets by their addresses.

use std::path::Path;

use crate::{
    DatasetError, Hub, LoadedDataset, RowRetention,
    address::{Address, DatasetLocation},
    loader::DatasetLoader,
};

/// Loads files, directories and globs, relative to `base_dir`.
///
/// # Errors
/// A whole pattern is unusable: it matches no file, a file is unreadable or has an unknown type, or
/// the pattern is a hub address, which needs [`load_with_hub`]. Errors in rows are not returned as
/// errors but as [`BadRow`](crate::BadRow)s.
pub fn load(patterns: &[String], base_dir: &Path) -> Result<LoadedDataset, DatasetError> {
    let mut loader = DatasetLoader::new(base_dir);
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.location {
            DatasetLocation::Disk(_) => loader.load_from_disk(&address)?,
            DatasetLocation::Hub(name) => {
                let why = "only local files are supported here".to_owned();
                return Err(DatasetError::Hub { name: name.name.clone(), why });
            }
        }
    }
    Ok(loader.dataset)
}

/// Like [`load`], including hub datasets.
///
/// # Errors
/// See [`load`]. Also fails if the rows cannot be downloaded from the hub.
pub async fn load_with_hub(
    patterns: &[String],
    base_dir: &Path,
    hub: &Hub,
) -> Result<LoadedDataset, DatasetError> {
    load_with_retention(patterns, base_dir, hub, RowRetention::Tasks).await
}

/// Like [`load_with_hub`], but can also keep the rows' source files.
///
/// # Errors
/// See [`load_with_hub`].
pub async fn load_with_retention(
    patterns: &[String],
    base_dir: &Path,
    hub: &Hub,
    retention: RowRetention,
) -> Result<LoadedDataset, DatasetError> {
    let mut loader = DatasetLoader::new(base_dir);
    loader.retention = retention;
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.location {
            DatasetLocation::Disk(_) => loader.load_from_disk(&address)?,
            DatasetLocation::Hub(name) => loader.load_from_hub(&address, name, hub).await?,
        }
    }
    Ok(loader.dataset)
}
