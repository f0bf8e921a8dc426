//! Handles the bytes inside a CONNECT tunnel. They must be a TLS connection to the requested host.

use std::sync::Arc;

use http::Request;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use proctor_types::{DenyReason, UrlDecision, UrlRequest};
use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, copy_bidirectional},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    EgressProxy,
    ca::expected_name,
    dial::dial,
    forward::UpstreamSlot,
    streams::{IdleTimeoutStream, PrefixedStream},
    target::Origin,
};

/// The first byte of every TLS connection: the record type for handshakes.
const TLS_HANDSHAKE_RECORD: u8 = 0x16;

impl EgressProxy {
    pub(crate) async fn serve_tunnel<S>(self: &Arc<Self>, origin: &Origin, mut stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let hello = timeout(self.limits.head_timeout(), self.read_client_hello(&mut stream)).await;
        let Ok(Some((name, read))) = hello else {
            return self.close_tunnel(origin, DenyReason::NotHttp, None).await;
        };
        let expected = expected_name(&origin.host);
        if name.as_deref().map(str::to_ascii_lowercase).as_deref() != expected {
            return self.close_tunnel(origin, DenyReason::HostMismatch, None).await;
        }
        let stream = PrefixedStream::new(read, stream);
        match self.policy.uninspected_rule(origin) {
            Some(rule) => self.pass_through(origin, rule, stream).await,
            None => self.inspect_requests(origin, stream).await,
        }
    }

    /// Reads the client's TLS ClientHello message. Returns the server name in it and all bytes
    /// read, or `None` if the bytes are not TLS.
    async fn read_client_hello<S: AsyncRead + Unpin>(
        &self,
        stream: &mut S,
    ) -> Option<(Option<String>, Vec<u8>)> {
        let (mut acceptor, mut read, mut piece) = (Acceptor::default(), Vec::new(), [0; 4096]);
        loop {
            let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
            read.extend_from_slice(&piece[..length]);
            if read.first() != Some(&TLS_HANDSHAKE_RECORD) || read.len() > self.limits.head_bytes {
                return None;
            }
            let mut fresh = &piece[..length];
            while !fresh.is_empty() {
                acceptor.read_tls(&mut fresh).ok()?;
                if let Some(accepted) = acceptor.accept().ok()? {
                    let name = accepted.client_hello().server_name().map(ToOwned::to_owned);
                    return Some((name, read));
                }
            }
        }
    }

    /// Relays bytes in both directions without inspecting them. Used if every URL on the host is
    /// allowed.
    async fn pass_through<S>(self: &Arc<Self>, origin: &Origin, rule: Option<String>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let limit = self.limits.connect_timeout();
        let dialed =
            dial(origin, self.resolver.as_ref(), &self.policy.address_exceptions, limit).await;
        // Report the failure inside the tunnel, because clients show responses only from there.
        let Ok((mut upstream, address)) = dialed else {
            return self.inspect_requests(origin, stream).await;
        };
        let request = UrlRequest {
            method: "CONNECT".into(),
            url: format!("{origin}/"),
            decision: UrlDecision::Allowed,
            rule,
            address: Some(address.to_string()),
            ..UrlRequest::default()
        };
        let Some(mut entry) = self.open_entry(request).await else { return };
        let counted = Arc::clone(entry.byte_counts());
        let mut inside =
            IdleTimeoutStream::with_byte_counts(stream, self.limits.idle_timeout(), counted);
        if let Err(error) = copy_bidirectional(&mut inside, &mut upstream).await {
            entry.request.error = Some(format!("the connection was interrupted: {error}"));
        }
    }

    /// Terminates TLS and checks each request against the policy.
    async fn inspect_requests<S>(self: &Arc<Self>, origin: &Origin, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let config = match self.authority.server_config(&origin.host) {
            Ok(config) => config,
            Err(why) => {
                return self.close_tunnel(origin, DenyReason::BadRequest, Some(why)).await;
            }
        };
        let accepting = TlsAcceptor::from(config).accept(stream);
        let stream = match timeout(self.limits.head_timeout(), accepting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let why = Some(error.to_string());
                return self.close_tunnel(origin, DenyReason::UntrustedProxy, why).await;
            }
            Err(_) => return self.close_tunnel(origin, DenyReason::UntrustedProxy, None).await,
        };
        let upstreams = UpstreamSlot::default();
        let service = service_fn(|request: Request<Incoming>| async {
            Ok::<_, std::convert::Infallible>(
                self.handle_request(request, origin, &upstreams).await,
            )
        });
        let served = self.http_builder().serve_connection(TokioIo::new(stream), service).await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection through the egress proxy was closed");
        }
    }

    /// Records why a tunnel is closed. Only the ledger contains the reason, because a client that
    /// does not use TLS with the proxy cannot receive it.
    async fn close_tunnel(&self, origin: &Origin, reason: DenyReason, error: Option<String>) {
        self.record_request(UrlRequest {
            method: "CONNECT".into(),
            url: format!("{origin}/"),
            decision: UrlDecision::Denied,
            reason: Some(reason),
            error,
            ..UrlRequest::default()
        })
        .await;
    }
}
