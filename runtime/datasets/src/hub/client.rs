//! The hub's HTTP interface: revisions and files.

use std::{fs, io::Write, path::Path, time::Duration};

use reqwest::{Response, StatusCode, header::AUTHORIZATION};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::info::{CommitInfo, Sibling, is_commit};

/// Number of attempts before the hub is reported as unreachable.
const MAX_ATTEMPTS: u32 = 4;

/// The wait after the first failed attempt. The wait doubles after each further attempt.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum size of a downloaded file in bytes. No dataset of tasks has larger files.
const SIZE_LIMIT: u64 = 8 << 30;

pub(super) struct HubClient<'a> {
    client: reqwest::Client,
    endpoint: &'a str,
    token: Option<&'a str>,
}

impl<'a> HubClient<'a> {
    pub(super) fn new(endpoint: &'a str, token: Option<&'a str>) -> Result<Self, String> {
        // The call fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("proctor/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(30))
            .read_timeout(Duration::from_secs(120))
            .build()
            .map_err(|error| format!("cannot create an HTTP client: {error}"))?;
        Ok(Self { client, endpoint, token })
    }

    /// Returns the commit of a revision, and the commit's files with their checksums.
    pub(super) async fn fetch_info(
        &self,
        name: &str,
        revision: &str,
    ) -> Result<CommitInfo, String> {
        let url = format!("{}/api/datasets/{name}/revision/{revision}?blobs=true", self.endpoint);
        let answer = self.get(&url).await?;
        let text = answer.text().await.map_err(error_text)?;
        let info: CommitInfo = serde_json::from_str(&text)
            .map_err(|error| format!("cannot read the hub's response for {revision}: {error}"))?;
        // The commit becomes a directory name in the cache.
        if !is_commit(&info.sha) {
            return Err(format!(
                "the hub reports {:?} for {revision}, which is not a commit id",
                info.sha
            ));
        }
        Ok(info)
    }

    /// Downloads a file. The file gets its final name only after its checksum is verified.
    pub(super) async fn download_file(
        &self,
        name: &str,
        commit: &str,
        sibling: &Sibling,
        destination: &Path,
    ) -> Result<(), String> {
        let path = &sibling.rfilename;
        let escaped: Vec<String> = path.split('/').map(escape_url_part).collect();
        let url =
            format!("{}/datasets/{name}/resolve/{commit}/{}", self.endpoint, escaped.join("/"));
        let mut answer = self.get(&url).await?;
        let failed = |error: std::io::Error| format!("{}: {error}", destination.display());
        let folder = destination.parent().unwrap_or(destination);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut fresh = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let mut checks = ChecksumVerifier::new(sibling);
        let mut size = 0_u64;
        while let Some(chunk) = answer.chunk().await.map_err(error_text)? {
            size += chunk.len() as u64;
            if size > SIZE_LIMIT {
                return Err(format!("{path} is larger than {SIZE_LIMIT} bytes"));
            }
            checks.update(&chunk);
            fresh.write_all(&chunk).map_err(failed)?;
        }
        checks.finish(size).map_err(|why| format!("{path} {why}"))?;
        fresh.persist(destination).map(drop).map_err(|error| failed(error.error))
    }

    async fn get(&self, url: &str) -> Result<Response, String> {
        let mut wait = INITIAL_RETRY_DELAY;
        for left in (0..MAX_ATTEMPTS).rev() {
            let mut request = self.client.get(url);
            if let Some(token) = self.token {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let why = match request.send().await {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => {
                    let status = answer.status();
                    if !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS {
                        return Err(self.describe_rejection(status));
                    }
                    format!("the hub returned status {status}")
                }
                Err(error) => error_text(error),
            };
            if left == 0 {
                return Err(format!(
                    "{why}, after {MAX_ATTEMPTS} attempts ({}, see HF_ENDPOINT)",
                    self.endpoint
                ));
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        Err("no request was sent".into())
    }

    fn describe_rejection(&self, status: StatusCode) -> String {
        let hint = match (status, self.token) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
                "no such dataset, or it requires a token; set HF_TOKEN"
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(_)) => {
                "no such dataset, or the token in HF_TOKEN has no access to it"
            }
            (StatusCode::NOT_FOUND, _) => "no such dataset or revision",
            _ => "check the name and HF_ENDPOINT",
        };
        format!("the hub returned status {status}: {hint}")
    }
}

/// Compares a downloaded file with the hub's checksums.
struct ChecksumVerifier<'a> {
    sibling: &'a Sibling,
    sha256: Option<Sha256>,
    git_blob: Option<Sha1>,
}

impl<'a> ChecksumVerifier<'a> {
    fn new(sibling: &'a Sibling) -> Self {
        let sha256 = sibling.lfs.is_some().then(Sha256::new);
        // Git's blob id is a hash of the size and the content. For an LFS file it identifies the
        // pointer instead of the content, so use the SHA-256.
        let git_blob = match (&sha256, sibling.size, &sibling.blob_id) {
            (None, Some(size), Some(_)) => {
                let mut hasher = Sha1::new();
                hasher.update(format!("blob {size}\0"));
                Some(hasher)
            }
            _ => None,
        };
        Self { sibling, sha256, git_blob }
    }

    fn update(&mut self, chunk: &[u8]) {
        if let Some(hasher) = &mut self.sha256 {
            hasher.update(chunk);
        }
        if let Some(hasher) = &mut self.git_blob {
            hasher.update(chunk);
        }
    }

    fn finish(self, size: u64) -> Result<(), String> {
        if let Some(said) = self.sibling.size.filter(|said| *said != size) {
            return Err(format!("has {size} bytes, but the hub reports {said}"));
        }
        let sha256 = self.sha256.map(|hasher| proctor_types::hex(&hasher.finalize()));
        let lfs = self.sibling.lfs.as_ref().map(|lfs| lfs.sha256.clone());
        let blob = self.git_blob.map(|hasher| proctor_types::hex(&hasher.finalize()));
        let wanted = sha256.zip(lfs).or(blob.zip(self.sibling.blob_id.clone()));
        match wanted {
            Some((found, said)) if found != said => {
                Err(format!("has the checksum {found}, but the hub reports {said}"))
            }
            _ => Ok(()),
        }
    }
}

fn escape_url_part(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Returns the error and its causes on one line, without the URL, which may contain a signature.
fn error_text(error: reqwest::Error) -> String {
    proctor_types::format_error_chain(&error.without_url())
}
