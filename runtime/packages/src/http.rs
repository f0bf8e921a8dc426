//! Fetches files with retries and limits, without revealing addresses that may contain a password.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use proctor_types::{Cause, Fault, Layer, with_causes};
use reqwest::{Certificate, Client, Url, header::ACCEPT};

/// Pauses in seconds before each attempt at a transfer; after the last one it is given up.
const PAUSES: [u64; 3] = [0, 1, 4];

/// A client with the certificates that a registry needs.
#[derive(Debug, Clone)]
pub struct Http(Client);

/// The parts of a response that are needed here.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) json: bool,
    /// The final address after redirects; links in the page are relative to it.
    pub(crate) base: Url,
}

impl Http {
    /// `cert` is a bundle of certificates to trust in addition to the machine's.
    ///
    /// # Errors
    /// The file of certificates cannot be read.
    pub fn new(cert: Option<&Path>) -> Result<Self, Fault> {
        // Another user of the same provider may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("proctor/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(30))
            .read_timeout(Duration::from_secs(120));
        if let Some(path) = cert {
            let pem = std::fs::read(path).map_err(|error| {
                fault(format!("{}: {error}", path.display())).cause(Cause::of_io(&error))
            })?;
            let certificates = Certificate::from_pem_bundle(&pem)
                .map_err(|error| fault(format!("{}: {error}", path.display())))?;
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder
            .build()
            .map_err(|error| fault(format!("cannot create an HTTP client: {error}")))?;
        Ok(Self(client))
    }

    /// Fetches the file at an address, of at most `limit` bytes. A transfer that broke off is
    /// restarted.
    ///
    /// # Errors
    /// A fault that contains host and path, but never user, password or query.
    pub async fn bytes(&self, url: &Url, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut last = None;
        for pause in PAUSES {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            match self.once(url, limit).await {
                Ok(bytes) => return Ok(bytes),
                Err(Broken { fault, again: false }) => return Err(fault),
                Err(Broken { fault, .. }) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| fault(place(url))))
    }

    async fn once(&self, url: &Url, limit: usize) -> Result<Vec<u8>, Broken> {
        let failed = |error: reqwest::Error| broken(url, error);
        let answer = self.0.get(url.clone()).send().await.map_err(failed)?;
        let mut answer = answer.error_for_status().map_err(failed)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit {
                let fault = fault(format!("{} is larger than {limit} bytes", place(url)));
                return Err(Broken { fault, again: false });
            }
        }
        Ok(bytes)
    }

    pub(crate) async fn page(&self, url: Url, forms: &str) -> Result<Page, Fault> {
        let at = url.clone();
        let failed = |error: reqwest::Error| broken(&at, error).fault;
        let answer = self.0.get(url).header(ACCEPT, forms).send().await.map_err(failed)?;
        let answer = answer.error_for_status().map_err(failed)?;
        let base = answer.url().clone();
        let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let json = kind.is_some_and(|kind| kind.contains("json"));
        let text = answer.text().await.map_err(failed)?;
        Ok(Page { text, json, base })
    }
}

struct Broken {
    fault: Fault,
    /// Whether the same request may succeed a moment later.
    again: bool,
}

fn broken(url: &Url, error: reqwest::Error) -> Broken {
    let status = error.status();
    let again = status.is_none_or(|status| status.is_server_error() || status.as_u16() == 429);
    let cause = match status.map(|status| status.as_u16()) {
        Some(404 | 410) => Cause::Missing,
        Some(_) => Cause::Refused,
        None => Cause::Unreachable,
    };
    let fault = fault(format!("{}: {}", place(url), plainly(error))).cause(cause);
    Broken { fault, again }
}

/// The address without user, password and query, which a registry's address may contain.
pub(crate) fn place(url: &Url) -> String {
    format!("{}{}", url.host_str().unwrap_or_default(), url.path())
}

/// The error and its causes on one line, without the address.
fn plainly(error: reqwest::Error) -> String {
    with_causes(&error.without_url())
}

pub(crate) fn fault(what: impl Into<String>) -> Fault {
    Fault::new(Layer::Environment, what)
}

/// A non-empty environment variable.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}
