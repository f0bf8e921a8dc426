//! An sdist from a package index, by the simple repository protocol.

use std::time::Duration;

use proctor_types::{Fault, package_name};
use reqwest::{Certificate, Client, Url, header::ACCEPT};
use serde::Deserialize;

use super::{
    fetch::{fault, io},
    pip_settings::PipSettings,
};

/// An sdist larger than this is not fetched, in bytes.
const SIZE_LIMIT: usize = 512 << 20;

/// JSON is preferred (PEP 691); mirrors and proxies that only know HTML answer in it (PEP 503).
const FORMS: &str = "application/vnd.pypi.simple.v1+json, \
     application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// One file that an index offers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Offer {
    name: String,
    url: Url,
    sha256: Option<String>,
}

/// Downloads the sdist of `name` at `version`; its checksum is the caller's to verify, here it only
/// chooses among the files.
pub(super) async fn download(name: &str, version: &str, sha256: &str) -> Result<Vec<u8>, Fault> {
    let settings = PipSettings::of_this_host();
    let client = client(&settings)?;
    let mut tried = Vec::new();
    for index in &settings.indexes {
        match offers(&client, index, name).await {
            Ok(offers) => match choose(&offers, name, version, sha256) {
                Some(offer) => return body(&client, offer).await,
                None => tried.push(unfit(&offers, name, version, sha256)),
            },
            Err(fault) => tried.push(fault.what),
        }
    }
    let why = tried.join("; ");
    let hint = match why.contains("SHA-256") {
        true => "correct the task's sha256, or do not trust this index",
        false => {
            "check the network, PIP_INDEX_URL and pip.conf; `pip download` on this host must work too"
        }
    };
    Err(fault(format!("{name} {version} from PyPI: {why}")).hint(hint))
}

fn client(settings: &PipSettings) -> Result<Client, Fault> {
    // Two users of the same provider may meet here; the second finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("proctor/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(30))
        .read_timeout(Duration::from_secs(120));
    if let Some(path) = &settings.cert {
        let pem = std::fs::read(path).map_err(|error| io(path, &error))?;
        let certificates = Certificate::from_pem_bundle(&pem)
            .map_err(|error| fault(format!("{}: {error}", path.display())))?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|error| fault(format!("no HTTP client: {error}")))
}

async fn offers(client: &Client, index: &str, name: &str) -> Result<Vec<Offer>, Fault> {
    let url = format!("{index}/{}/", package_name(name));
    let url = Url::parse(&url).map_err(|error| fault(format!("index address: {error}")))?;
    // The address is shown without user and password, which an index URL may hold.
    let place = format!("{}{}", url.host_str().unwrap_or_default(), url.path());
    let failed = |error: reqwest::Error| fault(format!("{place}: {}", plainly(error)));
    let answer = client.get(url).header(ACCEPT, FORMS).send().await.map_err(failed)?;
    let answer = answer.error_for_status().map_err(failed)?;
    let base = answer.url().clone();
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let json = kind.is_some_and(|kind| kind.contains("json"));
    let text = answer.text().await.map_err(failed)?;
    if json { from_json(&text, &base) } else { Ok(from_html(&text, &base)) }
}

async fn body(client: &Client, offer: &Offer) -> Result<Vec<u8>, Fault> {
    let failed = |error: reqwest::Error| fault(format!("{}: {}", offer.name, plainly(error)));
    let answer = client.get(offer.url.clone()).send().await.map_err(failed)?;
    let mut answer = answer.error_for_status().map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > SIZE_LIMIT {
            return Err(fault(format!("{} is larger than {SIZE_LIMIT} bytes", offer.name)));
        }
    }
    Ok(bytes)
}

/// The error and its causes in one line, without the address.
fn plainly(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut out = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        out.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    out
}

fn choose<'a>(offers: &'a [Offer], name: &str, version: &str, sha256: &str) -> Option<&'a Offer> {
    offers.iter().find(|offer| {
        offer.is_of(name, version)
            && offer.sha256.as_deref().is_none_or(|offered| offered.eq_ignore_ascii_case(sha256))
    })
}

/// Why no file of an index is the one: both checksums where the release is there with another one.
fn unfit(offers: &[Offer], name: &str, version: &str, sha256: &str) -> String {
    let others: Vec<&str> = offers
        .iter()
        .filter(|offer| offer.is_of(name, version))
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

impl Offer {
    /// Whether it is the sdist of a release.
    fn is_of(&self, name: &str, version: &str) -> bool {
        let parts = self.name.strip_suffix(".tar.gz").and_then(|stem| stem.rsplit_once('-'));
        parts.is_some_and(|(project, release)| {
            package_name(project) == package_name(name) && release == version
        })
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
}

fn from_json(text: &str, base: &Url) -> Result<Vec<Offer>, Fault> {
    let page: Page = serde_json::from_str(text).map_err(|error| {
        fault(format!("the index answered with a page in an unknown form: {error}"))
    })?;
    let offer = |file: File| {
        let url = base.join(&file.url).ok()?;
        Some(Offer { name: file.filename, url, sha256: file.hashes.get("sha256").cloned() })
    };
    Ok(page.files.into_iter().filter_map(offer).collect())
}

/// The anchors of a PEP 503 page. The form is so narrow that a scan for `href` is enough.
fn from_html(text: &str, base: &Url) -> Vec<Offer> {
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
        out.push(Offer { name: name.to_owned(), url: url.clone(), sha256 });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_index_page_are_read() {
        let base = Url::parse("https://index.test/simple/my-pkg/").unwrap();
        let html = "<a href=\"../../files/my_pkg-1.0.tar.gz#sha256=ab\">my_pkg-1.0.tar.gz</a><br/>\n\
                    <a data-x='1' href='https://f.test/my_pkg-1.0-py3-none-any.whl'>w</a>";
        let json = r#"{"files": [
            {"filename": "my_pkg-1.0.tar.gz", "url": "/files/my_pkg-1.0.tar.gz",
             "hashes": {"sha256": "ab"}, "yanked": false},
            {"filename": "my_pkg-1.0-py3-none-any.whl",
             "url": "https://f.test/my_pkg-1.0-py3-none-any.whl", "hashes": {}}]}"#;
        let read = from_html(html, &base);
        assert_eq!(read, from_json(json, &base).unwrap());
        let chosen = choose(&read, "My.Pkg", "1.0", "ab").unwrap();
        assert_eq!(chosen.url.as_str(), "https://index.test/files/my_pkg-1.0.tar.gz");
        assert_eq!(choose(&read, "My.Pkg", "1.0", "cd"), None);
        let why = unfit(&read, "My.Pkg", "1.0", "cd");
        assert!(why.contains("SHA-256 ab, expected cd"), "{why}");
        assert!(unfit(&read, "My.Pkg", "2.0", "cd").contains("no sdist My.Pkg-2.0.tar.gz"));
        assert_eq!(choose(&read, "pkg", "1.0", "ab"), None);
    }
}
