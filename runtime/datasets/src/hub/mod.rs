//! Hub datasets: resolves a name and a revision to local files.

mod client;
mod info;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    DatasetError,
    address::HubName,
    split_files::{SplitChoice, choose_split},
};
use client::HubClient;
use info::{CommitInfo, Sibling, is_commit};

/// The default hub URL.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// The hub and its cache. In the cache, `<owner>--<name>/<commit>/` contains the hub's description
/// of the commit and the downloaded files. All of these files are complete and verified.
#[derive(Debug)]
pub struct Hub {
    endpoint: String,
    token: Option<String>,
    cache_dir: PathBuf,
}

/// The files of one split at one commit.
#[derive(Debug)]
pub(crate) struct FetchedSplit {
    pub files: Vec<PathBuf>,
    pub commit: String,
    pub split: Option<String>,
}

impl Hub {
    /// Returns the hub at `HF_ENDPOINT`, with the token in `HF_TOKEN`. Either may be unset or empty.
    pub fn from_env(cache: impl Into<PathBuf>) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Self::new(&endpoint, set("HF_TOKEN"), cache)
    }

    /// Returns a hub at a URL. The token is sent only to this URL, not to redirect targets.
    pub fn new(endpoint: &str, token: Option<String>, cache: impl Into<PathBuf>) -> Self {
        let endpoint = endpoint.trim().trim_end_matches('/').to_owned();
        let token = token.map(|token| token.trim().to_owned());
        Self { endpoint, token, cache_dir: cache.into() }
    }

    /// Downloads the files of a split. The default revision is `main`.
    pub(crate) async fn fetch_split(
        &self,
        name: &HubName,
        requested_split: Option<&str>,
        default_split: Option<&str>,
    ) -> Result<FetchedSplit, DatasetError> {
        let fault = |why: String| DatasetError::Hub { name: name.name.clone(), why };
        let revision = name.revision.as_deref().unwrap_or("main");
        let folder = self.cache_dir.join(name.name.replace('/', "--"));
        let client = HubClient::new(&self.endpoint, self.token.as_deref()).map_err(fault)?;
        // A commit never changes. If its description is cached, no request is needed.
        let known = is_commit(revision).then(|| CommitInfo::read(&folder.join(revision))).flatten();
        let info = match known {
            Some(info) => info,
            None => {
                let info = client.fetch_info(&name.name, revision).await.map_err(fault)?;
                info.write(&folder.join(&info.sha)).map_err(fault)?;
                info
            }
        };
        let paths: Vec<String> =
            info.siblings.iter().map(|sibling| sibling.rfilename.clone()).collect();
        let (split, files) = match choose_split(&paths, requested_split, default_split) {
            SplitChoice::Files { split, files } => (split, files),
            SplitChoice::Splits(splits) => {
                let asked = requested_split
                    .map_or(String::new(), |wanted| format!("has no split `{wanted}`; "));
                return Err(fault(format!("{asked}its splits are {}", splits.join(", "))));
            }
            SplitChoice::NoFiles => {
                return Err(fault("contains no .parquet, .jsonl or .json files".into()));
            }
        };
        let mut out = Vec::new();
        for path in files {
            let Some(sibling) = info.siblings.iter().find(|known| known.rfilename == path) else {
                continue;
            };
            let place =
                folder.join(&info.sha).join("files").join(check_path(&path).map_err(fault)?);
            if !is_downloaded(&place, sibling) {
                client
                    .download_file(&name.name, &info.sha, sibling, &place)
                    .await
                    .map_err(fault)?;
            }
            out.push(place);
        }
        Ok(FetchedSplit { files: out, commit: info.sha, split })
    }
}

/// Whether a file is already downloaded. Files are verified before they get their final name, so
/// checking the size is enough.
fn is_downloaded(path: &Path, sibling: &Sibling) -> bool {
    let sized = |length| sibling.size.is_none_or(|size| size == length);
    fs::metadata(path).is_ok_and(|found| found.is_file() && sized(found.len()))
}

/// Checks that a path stays inside its directory.
fn check_path(path: &str) -> Result<&str, String> {
    let stays =
        !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if stays { Ok(path) } else { Err(format!("lists a file outside the dataset: {path:?}")) }
}
