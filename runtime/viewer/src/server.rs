//! Serves runs as read-only pages on the loopback interface. Every page is created on request, so a
//! page about a running run shows its current state.

use std::{
    convert::Infallible,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task};

use crate::{Page, Pages, ViewError};

/// Pause after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Number of random bytes in the token: enough to make the token unguessable.
const TOKEN_BYTES: usize = 16;

/// A server on 127.0.0.1 that shows runs.
pub struct Server {
    site: Arc<Site>,
    listener: TcpListener,
}

impl Server {
    /// Opens the runs and starts listening. With port 0, the system picks a free port.
    ///
    /// # Errors
    /// Fails if a path is not a run directory, if no run can be read, or if the port cannot be
    /// used.
    pub async fn bind(runs: &[PathBuf], port: u16) -> Result<Self, ViewError> {
        let pages = Pages::open(runs)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|source| ViewError::Port { port, source })?;
        let address = listener.local_addr()?;
        Ok(Self { site: Arc::new(Site { pages, token: generate_token()?, address }), listener })
    }

    /// Returns the errors of the runs that cannot be read.
    pub fn unreadable_runs(&self) -> Vec<String> {
        self.site.pages.unreadable_runs()
    }

    /// Returns the home page's URL, which contains an unguessable token.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.site.address, self.site.token)
    }

    /// Serves pages until `shutdown` completes.
    pub async fn serve(self, shutdown: impl Future) {
        let Self { site, listener } = self;
        // Start reading before a client requests the home page, because ten thousand trials take a
        // while.
        let ahead = Arc::clone(&site);
        std::thread::spawn(move || ahead.pages.preload());
        tokio::pin!(shutdown);
        loop {
            let stream = tokio::select! {
                _ = &mut shutdown => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // Either the client disconnected, or the process has run out of file
                    // descriptors. In the second case, `accept` would fail again immediately
                    // without a pause.
                    Err(_) => {
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                },
            };
            let site = Arc::clone(&site);
            task::spawn(async move {
                let service = service_fn(|request: Request<Incoming>| {
                    let (site, method) = (Arc::clone(&site), request.method().clone());
                    let uri = request.uri().clone();
                    let host = request.headers().get(header::HOST).cloned();
                    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
                    async move {
                        let made = task::spawn_blocking(move || {
                            site.respond(&method, &uri, host.as_ref())
                                .or_not_modified(known.as_ref())
                        });
                        let answer = made.await.unwrap_or_else(|_| {
                            PageResponse::plain_text(StatusCode::INTERNAL_SERVER_ERROR, "")
                        });
                        Ok::<_, Infallible>(answer.into_response())
                    }
                });
                // Ignore errors. A client may disconnect at any time during a response.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

fn generate_token() -> io::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled != TOKEN_BYTES {
        return Err(io::Error::other("failed to get random bytes from the kernel"));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

struct Site {
    pages: Pages,
    token: String,
    address: SocketAddr,
}

struct PageResponse {
    status: StatusCode,
    media_type: &'static str,
    body: Vec<u8>,
    own_style: Option<String>,
    /// The entity tag. It changes whenever the content changes.
    etag: Option<HeaderValue>,
}

impl PageResponse {
    fn plain_text(status: StatusCode, body: &str) -> Self {
        let media_type = "text/plain; charset=utf-8";
        let body = body.as_bytes().to_owned();
        Self { status, media_type, body, own_style: None, etag: None }
    }

    /// Returns status 304 if the client already has this content. As a result, an open page can
    /// poll for changes cheaply.
    fn or_not_modified(mut self, client_etag: Option<&HeaderValue>) -> Self {
        if self.status == StatusCode::OK {
            let mut hasher = DefaultHasher::new();
            self.body.hash(&mut hasher);
            self.etag = HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).ok();
            if client_etag.is_some() && client_etag == self.etag.as_ref() {
                self.status = StatusCode::NOT_MODIFIED;
                self.body.clear();
            }
        }
        self
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        set_headers(response.headers_mut(), self.media_type, self.own_style.as_deref());
        if let Some(tag) = self.etag {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// Sets a content security policy that allows only the page's own content, the viewer's script and
/// style sheet, and requests to this server. A self-contained page may only use its own style
/// sheet.
fn set_headers(map: &mut HeaderMap, media_type: &'static str, own_style: Option<&str>) {
    let viewer_policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
    );
    let own_policy = own_style.and_then(|source| {
        let policy = format!(
            "default-src 'none'; style-src {source}; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        HeaderValue::try_from(policy).ok()
    });
    let policy = own_policy.unwrap_or(viewer_policy);
    map.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (header::CONTENT_TYPE, media_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        map.insert(name, HeaderValue::from_static(value));
    }
}

impl Site {
    fn respond(&self, method: &Method, uri: &Uri, host: Option<&HeaderValue>) -> PageResponse {
        // Prevent DNS rebinding: if a foreign page's host name resolves to this server, the browser
        // sends that name in the `Host` header.
        if !self.is_own_host(host) {
            return PageResponse::plain_text(StatusCode::FORBIDDEN, "unknown host name\n");
        }
        let mut parts = uri.path().trim_start_matches('/').splitn(2, '/');
        if !constant_time_eq(parts.next().unwrap_or_default(), &self.token) {
            return PageResponse::plain_text(
                StatusCode::FORBIDDEN,
                "invalid token: open the URL that `proctor view` printed\n",
            );
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return PageResponse::plain_text(StatusCode::METHOD_NOT_ALLOWED, "read only\n");
        }
        let root = format!("/{}/", self.token);
        let (path, query) = (parts.next().unwrap_or_default(), uri.query().unwrap_or_default());
        match self.pages.page(path, query, &root) {
            Ok(Some(Page { media_type, body, own_style })) => {
                PageResponse { status: StatusCode::OK, media_type, body, own_style, etag: None }
            }
            Ok(None) => PageResponse::plain_text(StatusCode::NOT_FOUND, "page not found\n"),
            Err(error) => {
                let message = proctor_types::escape_unprintable(&error.to_string()).into_owned();
                PageResponse::plain_text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{message}\n"))
            }
        }
    }

    fn is_own_host(&self, host: Option<&HeaderValue>) -> bool {
        let port = self.address.port();
        let names = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
        host.and_then(|host| host.to_str().ok())
            .is_some_and(|host| names.iter().any(|name| name == host))
    }
}

/// Compares two strings in constant time.
fn constant_time_eq(a: &str, b: &str) -> bool {
    let different = a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && different == 0
}
