//! A trial's proxy: an HTTP proxy that checks every request against the trial's policy.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use http::{Method, Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::{TokioIo, TokioTimer};
use proctor_types::{DenyReason, Fault, UrlDecision, UrlRequest};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
};

use crate::{
    Ledger, Policy, Resolver, Target,
    ca::CertificateAuthority,
    forward::{Connector, UpstreamSlot},
    ledger::{LedgerEntry, LedgerLine},
    responses::{self, AnyBody},
    settings::{Limits, Settings},
    streams::IdleTimeoutStream,
    target::{Origin, Scheme},
};

type LedgerQueue = mpsc::UnboundedSender<LedgerLine>;

/// A trial's proxy. It serves any number of byte streams concurrently.
pub struct EgressProxy {
    pub(crate) policy: Policy,
    pub(crate) authority: Arc<CertificateAuthority>,
    pub(crate) tls_config: Arc<ClientConfig>,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) limits: Limits,
    ledger: Arc<dyn Ledger>,
    connection_slots: Semaphore,
    requests: AtomicU64,
    /// Number of response bytes that are currently buffered for the ledger.
    buffered_bytes: Arc<AtomicUsize>,
    queue: Mutex<Option<LedgerQueue>>,
    writer_task: Mutex<Option<JoinHandle<()>>>,
    fault_sender: watch::Sender<Option<Fault>>,
}

impl EgressProxy {
    pub(crate) fn new(
        policy: Policy,
        authority: Arc<CertificateAuthority>,
        tls_config: Arc<ClientConfig>,
        resolver: Arc<dyn Resolver>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, String> {
        let limits = Settings::shipped()?.limits;
        let (queue, mut entries) = mpsc::unbounded_channel::<LedgerLine>();
        let (fault, _) = watch::channel(None);
        let (writing, failing) = (Arc::clone(&ledger), fault.clone());
        let writer = tokio::spawn(async move {
            while let Some((step, mut request, held)) = entries.recv().await {
                let body = held.into_bytes();
                if !body.is_empty()
                    && let Err(fault) = writing.receive_body(&mut request, body).await
                {
                    failing.send_replace(Some(fault));
                }
                if let Err(fault) = writing.record(step, request).await {
                    failing.send_replace(Some(fault));
                }
            }
        });
        Ok(Self {
            policy,
            authority,
            tls_config,
            resolver,
            limits,
            ledger,
            connection_slots: Semaphore::new(limits.connections),
            requests: AtomicU64::new(0),
            buffered_bytes: Arc::default(),
            queue: Mutex::new(Some(queue)),
            writer_task: Mutex::new(Some(writer)),
            fault_sender: fault,
        })
    }

    /// Serves one connection until it ends. Dropping the future closes the connection, but its
    /// requests in progress are still recorded in the ledger.
    pub async fn serve<S>(self: &Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Ok(_permit) = self.connection_slots.acquire().await else { return };
        let tunnel: Mutex<Option<(Origin, OnUpgrade)>> = Mutex::new(None);
        let upstreams = UpstreamSlot::default();
        let io = TokioIo::new(IdleTimeoutStream::new(stream, self.limits.idle_timeout()));
        let service = service_fn(|request: Request<Incoming>| async {
            Ok::<_, std::convert::Infallible>(
                self.handle_proxy_request(request, &tunnel, &upstreams).await,
            )
        });
        let served = self.http_builder().serve_connection(io, service).with_upgrades().await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection to the egress proxy was closed");
        }
        let tunnel = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((origin, upgrade)) = tunnel
            && let Ok(upgraded) = upgrade.await
        {
            self.serve_tunnel(&origin, TokioIo::new(upgraded)).await;
        }
    }

    /// Resolves when writing to the ledger fails, which invalidates the try.
    pub async fn wait_for_fault(&self) -> Fault {
        let mut fault = self.fault_sender.subscribe();
        loop {
            if let Some(fault) = fault.borrow_and_update().clone() {
                return fault;
            }
            if fault.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until everything is recorded. Call this after every `serve` future has ended or was
    /// dropped.
    pub async fn close(&self) -> Result<(), Fault> {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer_task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.await;
        }
        self.fault_sender.borrow().clone().map_or(Ok(()), Err)
    }

    pub(crate) fn http_builder(&self) -> http1::Builder {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout())
            .max_buf_size(self.limits.head_bytes);
        http
    }

    /// Handles a request to the proxy itself: a request for a tunnel, or for a URL without TLS.
    async fn handle_proxy_request(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        tunnel: &Mutex<Option<(Origin, OnUpgrade)>>,
        upstreams: &UpstreamSlot,
    ) -> Response<AnyBody> {
        let uri = request.uri().clone();
        if request.method() == Method::CONNECT {
            let origin = uri
                .authority()
                .filter(|authority| authority.port().is_some())
                .and_then(|authority| Origin::parse(Scheme::Https, authority.as_str()).ok());
            let Some(origin) = origin else {
                return self.reject(DenyReason::BadRequest, "CONNECT", &uri.to_string()).await;
            };
            // Send refusals inside the tunnel, because clients only show responses that come from
            // there.
            let upgrade = hyper::upgrade::on(&mut request);
            *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some((origin, upgrade));
            return responses::empty_response();
        }
        let origin = match (uri.scheme_str(), uri.authority()) {
            (Some("http"), Some(authority)) => Origin::parse(Scheme::Http, authority.as_str()).ok(),
            _ => None,
        };
        match origin {
            Some(origin) => self.handle_request(request, &origin, upstreams).await,
            None => {
                let method = request.method().to_string();
                self.reject(DenyReason::BadRequest, &method, &uri.to_string()).await
            }
        }
    }

    /// Checks a request for a known origin, and forwards the request if the policy allows it.
    pub(crate) async fn handle_request(
        self: &Arc<Self>,
        request: Request<Incoming>,
        origin: &Origin,
        upstreams: &UpstreamSlot,
    ) -> Response<AnyBody> {
        let method = request.method().to_string();
        let written = request.uri().path_and_query().map_or("/", |written| written.as_str());
        let url = format!("{origin}{written}");
        let made = self.requests.fetch_add(1, Ordering::Relaxed);
        if made >= self.limits.requests {
            // Record only the first request over the limit, because a flood of entries would fill
            // the disk.
            if made == self.limits.requests {
                return self.reject(DenyReason::TooMany, &method, &url).await;
            }
            return responses::denial_response(DenyReason::TooMany, &url);
        }
        if request.method() == Method::CONNECT || request.method() == Method::TRACE {
            return self.reject(DenyReason::BadRequest, &method, &url).await;
        }
        if !host_matches_origin(&request, origin) {
            return self.reject(DenyReason::HostMismatch, &method, &url).await;
        }
        let target = match Target::new(origin.clone(), written) {
            Ok(target) => target,
            Err(crate::TargetError::Ambiguous) => {
                return self.reject(DenyReason::AmbiguousUrl, &method, &url).await;
            }
            Err(_) => return self.reject(DenyReason::BadRequest, &method, &url).await,
        };
        let verdict = self.policy.judge(&method, &target);
        let mut entry = UrlRequest {
            method,
            url: target.to_string(),
            decision: verdict.decision,
            rule: verdict.rule,
            reason: verdict.reason,
            ..UrlRequest::default()
        };
        if let (UrlDecision::Denied, Some(reason)) = (verdict.decision, verdict.reason) {
            return self.deny(reason, entry).await;
        }
        entry.decision = verdict.decision;
        let Some(entry) = self.open_entry(entry).await else {
            return responses::failure_response(&url, "the trial has ended");
        };
        upstreams.forward(self.connector(), request, &target, entry).await
    }

    fn connector(&self) -> Connector<'_> {
        Connector {
            resolver: self.resolver.as_ref(),
            exceptions: &self.policy.address_exceptions,
            tls_config: &self.tls_config,
            limits: &self.limits,
        }
    }

    /// Records and refuses a request that is refused under any policy.
    pub(crate) async fn reject(
        &self,
        reason: DenyReason,
        method: &str,
        url: &str,
    ) -> Response<AnyBody> {
        let url = url.chars().take(2048).collect();
        let entry = UrlRequest { method: method.to_owned(), url, ..UrlRequest::default() };
        self.deny(reason, entry).await
    }

    /// Records a refusal, then returns the response to send.
    async fn deny(&self, reason: DenyReason, mut entry: UrlRequest) -> Response<AnyBody> {
        entry.decision = UrlDecision::Denied;
        entry.reason = Some(reason);
        entry.status = Some(403);
        let asked = format!("{} {}", entry.method, entry.url);
        self.record_request(entry).await;
        responses::denial_response(reason, &asked)
    }

    /// Records a request that the proxy does not forward.
    pub(crate) async fn record_request(&self, entry: UrlRequest) {
        let step = self.ledger.current_step().await;
        if let Err(fault) = self.ledger.record(step, entry).await {
            self.fault_sender.send_replace(Some(fault));
        }
    }

    /// Opens a ledger entry for a request that is about to be forwarded. Returns `None` if the
    /// proxy has been closed.
    pub(crate) async fn open_entry(&self, request: UrlRequest) -> Option<LedgerEntry> {
        let step = self.ledger.current_step().await;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(LedgerEntry::new(
            step,
            request,
            queue,
            (self.ledger.body_limits(), &self.buffered_bytes),
        ))
    }
}

/// Whether there is exactly one `Host` header and it names the origin. If the request target is
/// absolute, the target must name the origin, too.
fn host_matches_origin(request: &Request<Incoming>, origin: &Origin) -> bool {
    let same = |authority: &str| Origin::parse(origin.scheme, authority).as_ref() == Ok(origin);
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().is_ok_and(same),
        _ => false,
    };
    let target = match (request.uri().scheme_str(), request.uri().authority()) {
        (None, None) => true,
        (Some(scheme), Some(authority)) => {
            scheme == origin.scheme.name() && same(authority.as_str())
        }
        _ => false,
    };
    named && target
}
