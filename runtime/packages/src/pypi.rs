//! Downloads files from package indexes that implement the simple repository API.

use proctor_types::{Fault, FaultCause, normalize_package_name};
use reqwest::Url;
use serde::Deserialize;

use crate::{
    http::{HttpClient, environment_fault},
    pip_settings::PipSettings,
};

/// Maximum size of a file in bytes.
const SIZE_LIMIT: usize = 1 << 30;

/// Prefer JSON (PEP 691). Mirrors and proxies that only support HTML (PEP 503) respond with HTML.
const ACCEPT_HEADER: &str = "application/vnd.pypi.simple.v1+json, \
     application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// A file that an index offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFile {
    /// The file's name.
    pub name: String,
    pub url: Url,
    pub sha256: Option<String>,
    /// The upload time (PEP 700), such as `2024-05-01T12:00:00.000000Z`. `None` if the index does
    /// not provide the time.
    pub upload_time: Option<String>,
}

/// The package indexes that pip would query on this machine.
#[derive(Debug, Clone)]
pub struct Pypi {
    settings: PipSettings,
    http: HttpClient,
}

impl Pypi {
    /// Reads pip's settings on this machine.
    ///
    /// # Errors
    /// Returns an error if the certificate file in pip's settings cannot be read.
    pub fn from_env() -> Result<Self, Fault> {
        let settings = PipSettings::from_env();
        let http = HttpClient::new(settings.cert.as_deref())?;
        Ok(Self { settings, http })
    }

    /// Downloads the sdist of `name` at `version`. The checksum is only used to select the file, so
    /// the caller must verify the downloaded content.
    ///
    /// # Errors
    /// Returns a fault with a hint if no index has the sdist.
    pub async fn download_sdist(
        &self,
        name: &str,
        version: &str,
        sha256: &str,
    ) -> Result<Vec<u8>, Fault> {
        let fits = |offers: &[IndexFile]| {
            choose(offers, name, version, sha256)
                .cloned()
                .ok_or_else(|| mismatch_reason(offers, name, version, sha256))
        };
        let offer = self.find_file(name, &fits).await.map_err(|why| {
            let hint = match why.contains("SHA-256") {
                true => "fix the task's sha256; if it is already correct, do not trust this index",
                false => INDEX_HINT,
            };
            environment_fault(format!("{name} {version} from PyPI: {why}")).hint(hint)
        })?;
        self.download(&offer).await
    }

    /// Returns the project file that `choose` selects. Indexes are queried in order until one has
    /// such a file. If none has, the error from `choose` is reported.
    ///
    /// # Errors
    /// Returns a fault with a hint if no index has such a file.
    pub async fn select_file(
        &self,
        name: &str,
        choose: &(dyn Fn(&[IndexFile]) -> Result<IndexFile, String> + Sync),
    ) -> Result<IndexFile, Fault> {
        let result = self.find_file(name, choose).await;
        result.map_err(|why| environment_fault(format!("{name} from PyPI: {why}")).hint(INDEX_HINT))
    }

    /// Returns a project's files from all indexes, and the fault of an index that cannot be
    /// reached, if any. Indexes that do not have the project are skipped.
    pub async fn list_files(&self, name: &str) -> (Vec<IndexFile>, Option<Fault>) {
        let (mut files, mut broken) = (Vec::new(), None);
        for index in &self.settings.indexes {
            match fetch_index(&self.http, index, name).await {
                Ok(offers) => files.extend(offers),
                Err(fault) if fault.cause == FaultCause::Missing => {}
                Err(fault) => {
                    broken = broken.or_else(|| {
                        Some(fault.context(format!("{name} from PyPI")).hint(INDEX_HINT))
                    });
                }
            }
        }
        (files, broken)
    }

    async fn find_file(
        &self,
        name: &str,
        choose: &(dyn Fn(&[IndexFile]) -> Result<IndexFile, String> + Sync),
    ) -> Result<IndexFile, String> {
        let mut tried = Vec::new();
        for index in &self.settings.indexes {
            let offers = fetch_index(&self.http, index, name).await.map_err(|fault| fault.what);
            match offers.and_then(|offers| choose(&offers)) {
                Ok(offer) => return Ok(offer),
                Err(why) => tried.push(why),
            }
        }
        Err(tried.join("; "))
    }

    /// Downloads a file.
    ///
    /// # Errors
    /// Returns a fault that names the file.
    pub async fn download(&self, index_file: &IndexFile) -> Result<Vec<u8>, Fault> {
        self.http.download(&index_file.url, SIZE_LIMIT).await
    }
}

const INDEX_HINT: &str =
    "check the network, PIP_INDEX_URL and pip.conf; `pip download` on this host must work too";

async fn fetch_index(http: &HttpClient, index: &str, name: &str) -> Result<Vec<IndexFile>, Fault> {
    let url = format!("{index}/{}/", normalize_package_name(name));
    let url = Url::parse(&url)
        .map_err(|error| environment_fault(format!("invalid index address: {error}")))?;
    let page = http.fetch_page(url, ACCEPT_HEADER).await?;
    if page.is_json {
        from_json(&page.text, &page.base_url)
    } else {
        Ok(from_html(&page.text, &page.base_url))
    }
}

fn choose<'a>(
    index_files: &'a [IndexFile],
    name: &str,
    version: &str,
    sha256: &str,
) -> Option<&'a IndexFile> {
    index_files.iter().find(|offer| {
        offer.is_sdist_of(name, version)
            && offer.sha256.as_deref().is_none_or(|offered| offered.eq_ignore_ascii_case(sha256))
    })
}

/// Explains why none of the index's files matches. If the index has the release with a different
/// checksum, the message contains both checksums.
fn mismatch_reason(index_files: &[IndexFile], name: &str, version: &str, sha256: &str) -> String {
    let others: Vec<&str> = index_files
        .iter()
        .filter(|offer| offer.is_sdist_of(name, version))
        .filter_map(|offer| offer.sha256.as_deref())
        .collect();
    match others[..] {
        [] => format!("the index has no sdist {name}-{version}.tar.gz"),
        _ => format!(
            "the sdist on the index has SHA-256 {}, expected {sha256} (the task's sha256)",
            others.join(" or ")
        ),
    }
}

impl IndexFile {
    /// Returns whether the file is the sdist of a release.
    pub fn is_sdist_of(&self, name: &str, version: &str) -> bool {
        self.sdist_version(name) == Some(version)
    }

    /// Returns the version if the file is an sdist of this project.
    pub fn sdist_version(&self, name: &str) -> Option<&str> {
        let (project, release) = self.name.strip_suffix(".tar.gz")?.rsplit_once('-')?;
        (normalize_package_name(project) == normalize_package_name(name)).then_some(release)
    }

    /// Returns whether the file is a wheel of a release.
    pub fn is_wheel_of(&self, name: &str, version: &str) -> bool {
        let mut parts = self.name.strip_suffix(".whl").unwrap_or_default().split('-');
        let project = parts
            .next()
            .is_some_and(|it| normalize_package_name(it) == normalize_package_name(name));
        project && parts.next() == Some(version)
    }
}

#[derive(Deserialize)]
struct Page {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
    #[serde(default, rename = "upload-time")]
    uploaded: Option<String>,
}

fn from_json(text: &str, base: &Url) -> Result<Vec<IndexFile>, Fault> {
    let page: Page = serde_json::from_str(text).map_err(|error| {
        environment_fault(format!("the index's response has an unknown format: {error}"))
    })?;
    let offer = |file: File| {
        let url = base.join(&file.url).ok()?;
        let sha256 = file.hashes.get("sha256").cloned();
        Some(IndexFile { name: file.filename, url, sha256, upload_time: file.uploaded })
    };
    Ok(page.files.into_iter().filter_map(offer).collect())
}

/// Parses the anchors in a PEP 503 page. Searching for `href` is enough, because the format is very
/// restricted.
fn from_html(text: &str, base: &Url) -> Vec<IndexFile> {
    let mut out = Vec::new();
    for anchor in text.split("<a ").skip(1) {
        let Some((_, rest)) = anchor.split_once("href=") else { continue };
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
        let Some(href) = rest[1..].split(quote).next() else { continue };
        let Ok(mut url) = base.join(&href.replace("&amp;", "&")) else { continue };
        let sha256 = url
            .fragment()
            .and_then(|fragment| fragment.split('&').find_map(|part| part.strip_prefix("sha256=")))
            .map(str::to_owned);
        url.set_fragment(None);
        let Some(name) = url.path_segments().and_then(|mut parts| parts.next_back()) else {
            continue;
        };
        out.push(IndexFile { name: name.to_owned(), url: url.clone(), sha256, upload_time: None });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_json_reads_upload_times() {
        let base = Url::parse("https://index.test/simple/a/").unwrap();
        let json = r#"{"files": [{"filename": "a-1.0.tar.gz", "url": "a-1.0.tar.gz",
            "upload-time": "2024-05-01T12:00:00.000000Z"}, {"filename": "a-2.0.tar.gz", "url": "a-2.0.tar.gz"}]}"#;
        let files = from_json(json, &base).unwrap();
        let times: Vec<_> = files.iter().map(|offer| offer.upload_time.as_deref()).collect();
        assert_eq!(times, [Some("2024-05-01T12:00:00.000000Z"), None]);
    }

    #[test]
    fn index_page_is_read_as_json_and_html() {
        let base = Url::parse("https://index.test/simple/my-pkg/").unwrap();
        let html = "<a href=\"../../files/my_pkg-1.0.tar.gz#sha256=ab\">my_pkg-1.0.tar.gz</a><br/>\n\
                    <a data-x='1' href='https://f.test/my_pkg-1.0-py3-none-any.whl'>w</a>";
        let json = r#"{"files": [
            {"filename": "my_pkg-1.0.tar.gz", "url": "/files/my_pkg-1.0.tar.gz",
             "hashes": {"sha256": "ab"}, "yanked": false},
            {"filename": "my_pkg-1.0-py3-none-any.whl",
             "url": "https://f.test/my_pkg-1.0-py3-none-any.whl", "hashes": {}}]}"#;
        let index_files = from_html(html, &base);
        assert_eq!(index_files, from_json(json, &base).unwrap());
        let chosen = choose(&index_files, "My.Pkg", "1.0", "ab").unwrap();
        assert_eq!(chosen.url.as_str(), "https://index.test/files/my_pkg-1.0.tar.gz");
        assert_eq!(choose(&index_files, "My.Pkg", "1.0", "cd"), None);
        assert!(
            index_files[1].is_wheel_of("my-pkg", "1.0")
                && !index_files[0].is_wheel_of("my-pkg", "1.0")
        );
        let reason = mismatch_reason(&index_files, "My.Pkg", "1.0", "cd");
        assert!(reason.contains("SHA-256 ab, expected cd"), "{reason}");
        assert!(
            mismatch_reason(&index_files, "My.Pkg", "2.0", "cd")
                .contains("no sdist My.Pkg-2.0.tar.gz")
        );
        assert_eq!(choose(&index_files, "pkg", "1.0", "ab"), None);
    }
}
