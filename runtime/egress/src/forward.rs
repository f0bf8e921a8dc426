//! Forwards an allowed request: connects, sends the request, and relays the response.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, Version, header};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use proctor_types::{DenyReason, UrlDecision};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::{
    AddressException, Resolver, Target,
    dial::{DialError, dial},
    ledger::LedgerEntry,
    responses::{self, AnyBody, CountedBody},
    settings::Limits,
    target::{Origin, Scheme},
};

/// Headers that are not forwarded, because they apply to a single connection or offer another
/// protocol.
const DROPPED_HEADERS: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::ALT_SVC,
];

/// The upstream connection that belongs to a client connection. It is reused as long as the
/// requests go to the same origin.
#[derive(Default)]
pub(crate) struct UpstreamSlot(Mutex<Option<Upstream>>);

struct Upstream {
    origin: Origin,
    address: SocketAddr,
    sender: http1::SendRequest<AnyBody>,
}

/// Everything needed to connect to an origin.
#[derive(Clone, Copy)]
pub(crate) struct Connector<'a> {
    pub(crate) resolver: &'a dyn Resolver,
    /// Private addresses that the proxy may connect to.
    pub(crate) exceptions: &'a [AddressException],
    pub(crate) tls_config: &'a Arc<ClientConfig>,
    pub(crate) limits: &'a Limits,
}

impl UpstreamSlot {
    pub(crate) async fn forward(
        &self,
        connector: Connector<'_>,
        request: Request<Incoming>,
        target: &Target,
        mut entry: LedgerEntry,
    ) -> Response<AnyBody> {
        let asked = format!("{} {target}", request.method());
        let mut kept = self.0.lock().await;
        let mut upstream = kept.take().filter(|kept| kept.origin == target.origin);
        if let Some(old) = &mut upstream
            && old.sender.ready().await.is_err()
        {
            upstream = None;
        }
        let mut request = match to_upstream_request(request, target, &entry) {
            Ok(request) => request,
            Err(why) => return fail_request(entry, &asked, &why),
        };
        loop {
            let (mut sending, fresh) = match upstream.take() {
                Some(kept) => (kept, false),
                None => match connector.connect(&target.origin).await {
                    Ok(made) => (made, true),
                    Err(DialError::Failed(why)) => return fail_request(entry, &asked, &why),
                    Err(DialError::NotPublic(address)) => {
                        entry.request.address = Some(address.to_string());
                        entry.request.decision = UrlDecision::Denied;
                        entry.request.reason = Some(DenyReason::PrivateAddress);
                        entry.request.status = Some(403);
                        return responses::denial_response(DenyReason::PrivateAddress, &asked);
                    }
                },
            };
            entry.request.address = Some(sending.address.to_string());
            let sent = timeout(
                connector.limits.response_timeout(),
                sending.sender.try_send_request(request),
            )
            .await;
            match sent {
                Ok(Ok(response)) => {
                    *kept = Some(sending);
                    return to_client_response(response, entry);
                }
                Ok(Err(mut error)) => match error.take_message() {
                    // The server closed the reused connection before anything was sent, so retry on
                    // a new one.
                    Some(unsent) if !fresh => request = unsent,
                    _ => {
                        return fail_request(
                            entry,
                            &asked,
                            &format!("no response: {}", error.error()),
                        );
                    }
                },
                Err(_) => return fail_request(entry, &asked, "the server did not respond in time"),
            }
        }
    }
}

impl Connector<'_> {
    async fn connect(&self, origin: &Origin) -> Result<Upstream, DialError> {
        let limit = self.limits.connect_timeout();
        let (stream, address) = dial(origin, self.resolver, self.exceptions, limit).await?;
        let sender = match origin.scheme {
            Scheme::Http => self.http_handshake(stream).await?,
            Scheme::Https => {
                let stream = timeout(limit, self.tls_handshake(origin, stream)).await;
                let late =
                    |_| DialError::Failed("the TLS handshake with the server timed out".into());
                self.http_handshake(stream.map_err(late)??).await?
            }
        };
        Ok(Upstream { origin: origin.clone(), address, sender })
    }

    /// Performs the TLS handshake and verifies the upstream's certificate as any client on the host
    /// would.
    async fn tls_handshake(
        &self,
        origin: &Origin,
        stream: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialError> {
        let name = ServerName::try_from(origin.host.clone())
            .map_err(|error| DialError::Failed(error.to_string()))?;
        let connector = TlsConnector::from(Arc::clone(self.tls_config));
        let failed = |error| DialError::Failed(format!("TLS handshake with the server: {error}"));
        connector.connect(name, stream).await.map_err(failed)
    }

    async fn http_handshake<S>(&self, stream: S) -> Result<http1::SendRequest<AnyBody>, DialError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut http = http1::Builder::new();
        http.max_buf_size(self.limits.head_bytes);
        let (sender, connection) = http
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| DialError::Failed(error.to_string()))?;
        // This task ends when its sender is dropped, which happens when the client's connection
        // ends.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an upstream connection of the egress proxy was closed");
            }
        });
        Ok(sender)
    }
}

/// Returns the request to send upstream: in origin form, with the origin's `Host` header, and
/// without headers that apply to a single connection.
fn to_upstream_request(
    request: Request<Incoming>,
    target: &Target,
    entry: &LedgerEntry,
) -> Result<Request<AnyBody>, String> {
    let (mut parts, body) = request.into_parts();
    parts.uri = target.path_and_query.parse::<Uri>().map_err(|error| error.to_string())?;
    parts.version = Version::HTTP_11;
    remove_hop_headers(&mut parts.headers);
    parts.headers.remove(header::EXPECT);
    let host =
        target.origin.authority().parse().map_err(|_| "the host is not valid in a header")?;
    parts.headers.insert(header::HOST, host);
    parts.extensions = http::Extensions::default();
    Ok(Request::from_parts(parts, CountedBody::for_request(body, Arc::clone(entry.byte_counts()))))
}

fn to_client_response(response: Response<Incoming>, mut entry: LedgerEntry) -> Response<AnyBody> {
    let (mut parts, body) = response.into_parts();
    remove_hop_headers(&mut parts.headers);
    entry.request.status = Some(parts.status.as_u16());
    if !parts.headers.get_all(header::CONTENT_ENCODING).iter().all(is_decodable) {
        entry.stop_buffering();
    }
    Response::from_parts(parts, CountedBody::for_response(body, entry))
}

/// Whether this content coding can be recognized from its first bytes and decoded. Other bodies
/// cannot be compared with the hidden solution.
fn is_decodable(coding: &HeaderValue) -> bool {
    let known = ["identity", "gzip", "x-gzip", "deflate", "zstd"];
    coding.to_str().is_ok_and(|coding| {
        coding
            .split(',')
            .all(|one| known.iter().any(|known| one.trim().eq_ignore_ascii_case(known)))
    })
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&DROPPED_HEADERS) {
        headers.remove(name);
    }
}

fn fail_request(mut entry: LedgerEntry, request_line: &str, reason: &str) -> Response<AnyBody> {
    entry.request.status = Some(502);
    entry.request.error = Some(reason.to_owned());
    responses::failure_response(request_line, reason)
}
