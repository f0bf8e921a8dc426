//! One way to fetch a file: patient, bounded, and telling no address that may hold a password.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use proctor_types::{Cause, Fault, Layer, with_causes};
use reqwest::{Certificate, Client, Url, header::ACCEPT};

/// How often a transfer is begun before it is given up, and the pause before each further time.
const PAUSES: [u64; 3] = [0, 1, 4];

/// A client with the certificates that a registry asks for.
#[derive(Debug, Clone)]
pub struct Http(Client);

/// An answer, as far as anybody here needs it.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) json: bool,
    /// Where it came from in the end: links in it start there.
    pub(crate) base: Url,
}

impl Http {
    /// `cert` is a bundle of certificates to be trusted beside the machine's.
    ///
    /// # Errors
    /// The file of certificates cannot be read.
    pub fn new(cert: Option<&Path>) -> Result<Self, Fault> {
        // Two users of the same provider may meet here; the second finds it installed.
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
        let client = builder.build().map_err(|error| fault(format!("no HTTP client: {error}")))?;
        Ok(Self(client))
    }

    /// The file at an address, of at most `limit` bytes. A transfer that broke is begun again.
    ///
    /// # Errors
    /// A fault that says host and path, never user, password or query.
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
    /// Whether the same may succeed a moment later.
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

/// The address without user, password and query, which an address of a registry may carry.
pub(crate) fn place(url: &Url) -> String {
    format!("{}{}", url.host_str().unwrap_or_default(), url.path())
}

/// The error and its causes in one line, without the address.
fn plainly(error: reqwest::Error) -> String {
    with_causes(&error.without_url())
}

pub(crate) fn fault(what: impl Into<String>) -> Fault {
    Fault::new(Layer::Environment, what)
}

/// A variable of the environment, where it says something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The user's own folder.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}
