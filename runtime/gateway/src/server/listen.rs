//! Connections and authentication.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use proctor_types::{Api, Fault, RequestClass, Traffic};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{oneshot, watch},
    task::JoinSet,
};

use super::{
    body::Payload,
    client::Connection,
    client_request::ClientRequest,
    error_response::ErrorResponse,
    local,
    policy::ServerPolicy,
    route::{GeminiTarget, Route, route},
    state::ServerState,
    stored_responses::StoredResponses,
    token::Token,
    traffic::TrafficTracker,
};
use crate::{RequestError, RequestRules, TrialGateway};

/// One trial's gateway over HTTP/1.1. Clones serve the same trial.
#[derive(Debug, Clone)]
pub struct GatewayServer {
    state: Arc<ServerState>,
}

/// A listener on this host. Dropping the handle closes the listener and its connections. Requests
/// in flight are still charged and recorded.
#[derive(Debug)]
pub struct ListenerHandle {
    address: SocketAddr,
    accept_task: tokio::task::JoinHandle<()>,
}

impl ListenerHandle {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's URL without `/v1`, for example `http://127.0.0.1:34567`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

impl GatewayServer {
    /// Creates a server. `rules` distinguish the main conversation from side requests.
    pub fn new(trial: Arc<TrialGateway>, rules: RequestRules) -> Result<Self, Fault> {
        let shared = ServerState {
            trial,
            rules,
            policy: ServerPolicy::shipped()?,
            has_sub_agent_tool: AtomicBool::new(false),
            records_calls: true,
            token: Token::random()?,
            next_request_number: AtomicU64::new(0),
            in_flight: watch::Sender::new((0, true)),
            stop_reason: watch::Sender::new(None),
            tracker: TrafficTracker::default(),
            stored_responses: StoredResponses::default(),
        };
        Ok(Self { state: Arc::new(shared) })
    }

    /// Disables recording of the client's tool calls. Call this before serving if another component
    /// records them.
    #[must_use]
    pub fn without_call_recording(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.state) {
            shared.records_calls = false;
        }
        self
    }

    /// Returns the client's API key. The key gives access to this trial's gateway only. No provider
    /// accepts it.
    pub fn token(&self) -> &str {
        self.state.token.as_str()
    }

    /// Returns the trial that this server belongs to.
    pub fn trial(&self) -> &TrialGateway {
        &self.state.trial
    }

    /// Serves one connection to its end. Dropping the future closes the connection.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let shared = Arc::clone(&self.state);
        let service = service_fn(move |request| respond(Arc::clone(&shared), request));
        // A disconnected client is not an error of the server.
        let _ = http1::Builder::new()
            .preserve_header_case(false)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// Serves all connections to a free port of 127.0.0.1.
    pub async fn listen(&self) -> io::Result<ListenerHandle> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let server = self.clone();
        let accepting = tokio::spawn(async move {
            // Connections belong to this task's set, so aborting the task closes them all.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => {
                            // Send small stream pieces without delay.
                            let _ = stream.set_nodelay(true);
                            let server = server.clone();
                            connections.spawn(async move { server.serve(stream).await });
                        }
                        // The process has most likely run out of file descriptors. Wait, so that
                        // other tasks can close some.
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(ListenerHandle { address, accept_task: accepting })
    }

    /// Resolves when a request is rejected for a reason that ends the trial: a budget, a fault, or
    /// a cancellation. The scaffold that runs the client then stops the client.
    pub async fn wait_until_stopped(&self) -> RequestError {
        let mut stopped = self.state.stop_reason.subscribe();
        match stopped.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or(RequestError::Cancelled),
            // Unreachable: the sender lives as long as `self`.
            Err(_) => RequestError::Cancelled,
        }
    }

    /// Returns the traffic so far, for the code that runs the client.
    pub fn traffic(&self) -> Traffic {
        let in_flight = self.state.in_flight.borrow().0;
        Traffic { requests_in_flight: in_flight, ..self.state.tracker.traffic() }
    }

    /// Returns how the endpoint rejected the last main request, or `None` if that request got a
    /// response.
    pub fn last_rejection(&self) -> Option<RequestError> {
        self.state.tracker.last_rejection()
    }

    /// Admits no further requests. Resolves when all requests in flight have been charged and
    /// recorded.
    pub async fn close(&self) {
        let mut in_flight = self.state.in_flight.subscribe();
        self.state.in_flight.send_modify(|(_, open)| *open = false);
        // The sender lives as long as `self`, so the wait ends only when the count reaches zero.
        let _ = in_flight.wait_for(|(count, _)| *count == 0).await;
    }
}

/// Counts a request in flight until the guard is dropped, even if the request's task is aborted.
struct RequestGuard(Arc<ServerState>);

impl RequestGuard {
    fn new(state: &Arc<ServerState>) -> Option<Self> {
        let entered = state.in_flight.send_if_modified(|(count, open)| {
            *count += usize::from(*open);
            *open
        });
        entered.then(|| Self(Arc::clone(state)))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|(count, _)| *count -= 1);
    }
}

/// Handles one HTTP request. Returns an error only if the request's task panics. All other errors
/// are sent to the client as responses.
async fn respond(
    state: Arc<ServerState>,
    request: Request<Incoming>,
) -> Result<Response<Payload>, RequestError> {
    let (head, body) = request.into_parts();
    state.tracker.count_request();
    let anthropic =
        head.headers.contains_key("anthropic-version") || head.headers.contains_key("x-api-key");
    let found = route(&head.method, head.uri.path(), anthropic);
    let api = match &found {
        Route::Generate { api, .. } | Route::Models { api, .. } => *api,
        Route::CountTokens(api) | Route::WrongMethod(api) | Route::Unknown(api) => *api,
    };
    let refuse = |refusal: &ErrorResponse| Ok(to_http_response(api, refusal));
    if !state.token.authorizes(&head.headers, head.uri.query()) {
        let message = "the API key is not this trial's token";
        state.tracker.count_rejection(None);
        return refuse(&ErrorResponse::new(StatusCode::UNAUTHORIZED, message));
    }
    let path = match found {
        Route::WrongMethod(_) => {
            let message = format!("{} does not support {}", head.uri.path(), head.method);
            return refuse(&ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        Route::Unknown(_) => {
            let message = format!("{} is not supported", head.uri.path());
            return refuse(&ErrorResponse::new(StatusCode::NOT_FOUND, message));
        }
        Route::Models { model_name: one, .. } => {
            let model = &state.trial.route().model;
            return Ok(json_response(
                StatusCode::OK,
                &local::model_list(api, model, one.as_deref()),
            ));
        }
        Route::CountTokens(_) => None,
        Route::Generate { target: path, .. } => Some(path),
    };
    let Ok(body) = Limited::new(body, state.policy.body_limit).collect().await else {
        let message = format!("the request is larger than {} bytes", state.policy.body_limit);
        return refuse(&ErrorResponse::bad_request(message));
    };
    let body = body.to_bytes();
    let Some(named) = path else {
        return Ok(json_response(StatusCode::OK, &local::count_tokens(api, body).await));
    };
    let alt = head.uri.query().is_some_and(|query| query.split('&').any(|one| one == "alt=sse"));
    if named.as_ref().is_some_and(|GeminiTarget { is_streaming: stream, .. }| *stream) && !alt {
        return refuse(&ErrorResponse::bad_request("streamGenerateContent needs ?alt=sse"));
    }
    let Some(guard) = RequestGuard::new(&state) else {
        return refuse(&ErrorResponse::from_error(&RequestError::Cancelled));
    };
    // Invalid JSON is rejected later, so that the request gets a number and a record like any
    // other.
    let asked = serde_json::from_slice::<Value>(&body);
    let stream = match (&named, &asked) {
        (Some(named), _) => named.is_streaming,
        (None, Ok(asked)) => asked["stream"] == true,
        (None, Err(_)) => false,
    };
    let (answer, answered) = oneshot::channel();
    let connection = Connection::new(api, stream, answer, state.policy.head_timeout());
    let call = ClientRequest {
        number: state.next_request_number.fetch_add(1, Ordering::Relaxed) + 1,
        server: state,
        api,
        path: head.uri.path().to_owned(),
        headers: head.headers,
        path_target: named,
        is_streaming: stream,
        body,
        class: RequestClass::default(),
        conversation: None,
        losses: crate::codec::Losses::default(),
        connection,
        reply: super::client_reply::ClientReply::default(),
        tool_results: Vec::new(),
        input_items: Vec::new(),
        rejection: None,
    };
    // Use a separate task, because the request must be charged and recorded even if the client
    // disconnects.
    tokio::spawn(async move {
        call.run(asked).await;
        drop(guard);
    });
    // An error means that the task panicked. Returning an error closes the connection, because
    // there is no response to send.
    answered.await.map_err(|_| RequestError::Cancelled)
}

fn to_http_response(api: Api, error: &ErrorResponse) -> Response<Payload> {
    json_response(error.status, &error.body(api))
}

fn json_response(status: StatusCode, body: &Value) -> Response<Payload> {
    let mut response = Response::new(Payload::from_bytes(body.to_string()));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
