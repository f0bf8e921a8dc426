//! Downloads files with retries and size limits. Error messages never contain full URLs, because a
//! URL may include a password.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use proctor_types::{Fault, FaultCause, FaultLayer, format_error_chain};
use reqwest::{Certificate, Client, Url, header::ACCEPT};

/// Pauses before each attempt, in seconds. If the last attempt fails, the download fails.
const RETRY_DELAYS_SECONDS: [u64; 3] = [0, 1, 4];

/// An HTTP client that trusts the certificates of the machine and of the registry.
#[derive(Debug, Clone)]
pub struct HttpClient(Client);

/// The parts of a response that callers need.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) is_json: bool,
    /// The final URL after redirects. Links in the page are relative to this URL.
    pub(crate) base_url: Url,
}

impl HttpClient {
    /// Creates a client. `cert` is a file with certificates to trust in addition to the machine's.
    ///
    /// # Errors
    /// Returns an error if the certificate file cannot be read.
    pub fn new(cert: Option<&Path>) -> Result<Self, Fault> {
        // This fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("proctor/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(30))
            .read_timeout(Duration::from_secs(120));
        if let Some(path) = cert {
            let pem = std::fs::read(path).map_err(|error| {
                environment_fault(format!("{}: {error}", path.display()))
                    .cause(FaultCause::from_io_error(&error))
            })?;
            let certificates = Certificate::from_pem_bundle(&pem)
                .map_err(|error| environment_fault(format!("{}: {error}", path.display())))?;
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder
            .build()
            .map_err(|error| environment_fault(format!("cannot create an HTTP client: {error}")))?;
        Ok(Self(client))
    }

    /// Downloads a file of at most `limit` bytes. Interrupted transfers start over.
    ///
    /// # Errors
    /// Returns a fault that contains the host and path, but never the user, password or query.
    pub async fn download(&self, url: &Url, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut last = None;
        for pause in RETRY_DELAYS_SECONDS {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            match self.try_download(url, limit).await {
                Ok(bytes) => return Ok(bytes),
                Err(DownloadError { fault, is_retryable: false }) => return Err(fault),
                Err(DownloadError { fault, .. }) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| environment_fault(redacted_url(url))))
    }

    async fn try_download(&self, url: &Url, limit: usize) -> Result<Vec<u8>, DownloadError> {
        let failed = |error: reqwest::Error| download_error(url, error);
        let answer = self.0.get(url.clone()).send().await.map_err(failed)?;
        let mut answer = answer.error_for_status().map_err(failed)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit {
                let fault = environment_fault(format!(
                    "{} is larger than {limit} bytes",
                    redacted_url(url)
                ));
                return Err(DownloadError { fault, is_retryable: false });
            }
        }
        Ok(bytes)
    }

    pub(crate) async fn fetch_page(&self, url: Url, accept_header: &str) -> Result<Page, Fault> {
        let at = url.clone();
        let failed = |error: reqwest::Error| download_error(&at, error).fault;
        let answer = self.0.get(url).header(ACCEPT, accept_header).send().await.map_err(failed)?;
        let answer = answer.error_for_status().map_err(failed)?;
        let base = answer.url().clone();
        let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let json = kind.is_some_and(|kind| kind.contains("json"));
        let text = answer.text().await.map_err(failed)?;
        Ok(Page { text, is_json: json, base_url: base })
    }
}

struct DownloadError {
    fault: Fault,
    /// Whether retrying the request may succeed.
    is_retryable: bool,
}

fn download_error(url: &Url, error: reqwest::Error) -> DownloadError {
    let status = error.status();
    let again = status.is_none_or(|status| status.is_server_error() || status.as_u16() == 429);
    let cause = match status.map(|status| status.as_u16()) {
        Some(404 | 410) => FaultCause::Missing,
        Some(_) => FaultCause::Refused,
        None => FaultCause::Unreachable,
    };
    let fault =
        environment_fault(format!("{}: {}", redacted_url(url), error_text(error))).cause(cause);
    DownloadError { fault, is_retryable: again }
}

/// Returns the URL without user, password and query, because these may contain credentials.
pub(crate) fn redacted_url(url: &Url) -> String {
    format!("{}{}", url.host_str().unwrap_or_default(), url.path())
}

/// Formats an error and its causes on one line. The URL is left out.
fn error_text(error: reqwest::Error) -> String {
    format_error_chain(&error.without_url())
}

pub(crate) fn environment_fault(message: impl Into<String>) -> Fault {
    Fault::new(FaultLayer::Environment, message)
}

/// Returns an environment variable's value, if it is set and not empty.
pub(crate) fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the user's home directory.
pub(crate) fn home_directory() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}
