//! The server: an accept loop, and one task per connection.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, StatusCode, Uri, header};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tower::ServiceExt;

use crate::{
    Answer, Fault, FaultKind, Script, chat::Reply, check, format::Format, matching::RequestKey,
};

/// A request that the server received.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceivedRequest {
    /// The parsed body, or null if the body is not JSON.
    pub body: Value,
    /// The exact bytes of the body. Not included in responses over HTTP.
    #[serde(skip)]
    pub bytes: Bytes,
    /// The request path.
    pub path: String,
    /// The API key: the `Authorization` header, or the header that another API uses instead. Not
    /// included in responses over HTTP.
    #[serde(skip)]
    pub authorization: Option<String>,
    /// The part of the script that provided the response, or the fault that was returned.
    pub answered: String,
    /// Time of arrival, in seconds since the server started.
    pub seconds: f64,
}

/// A running server. Dropping the value stops the server and closes every connection.
#[derive(Debug)]
pub struct FakeLlm {
    address: SocketAddr,
    state: Arc<ServerState>,
    serve_task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeLlm {
    fn drop(&mut self) {
        self.serve_task.abort();
    }
}

impl FakeLlm {
    /// Serves `script` on a free port of 127.0.0.1. Call this within a tokio runtime.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::listen(script, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Serves `script` on `address`.
    pub async fn listen(script: Script, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(ServerState { script, start: Instant::now(), log: Mutex::default() });
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/v1/responses", post(complete))
            .route("/v1/messages", post(complete))
            .route("/v1/models/{action}", post(complete))
            .route("/v1beta/models/{action}", post(complete))
            .route("/v1/models", get(models))
            .route("/requests", get(requests))
            .with_state(state.clone());
        let serving = tokio::spawn(serve(listener, router));
        Ok(Self { address, state, serve_task: serving })
    }

    /// Returns the base URL for clients, such as `http://127.0.0.1:34567/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns every completion request received so far, in order of arrival.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.lock().requests.clone()
    }

    /// Waits until the server stops.
    pub async fn wait_until_stopped(mut self) {
        // Ignore the result, because the task only ends when it is aborted.
        let _ = (&mut self.serve_task).await;
    }
}

#[derive(Debug)]
struct ServerState {
    script: Script,
    start: Instant,
    log: Mutex<RequestLog>,
}

#[derive(Debug, Default)]
struct RequestLog {
    requests: Vec<ReceivedRequest>,
    /// Number of requests for each response. The key is the response's location in the script and
    /// the text before the first assistant message.
    request_counts: HashMap<(String, String), u64>,
}

impl ServerState {
    fn lock(&self) -> MutexGuard<'_, RequestLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a response that must not be sent. The connection is closed instead.
#[derive(Debug, Clone)]
struct Hangup;

#[derive(Debug, thiserror::Error)]
#[error("the script ends the connection here")]
struct ScriptedDisconnect;

async fn serve(listener: TcpListener, router: Router) {
    // This task owns the set, so aborting the task closes all connections.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // The process is probably out of file descriptors. Wait until other connections
                    // are closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
        };
        let router = router.clone();
        // Don't use `axum::serve`, because its handlers cannot close a connection without a
        // response.
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let answered = router.clone().oneshot(request.map(Body::new));
            async move {
                let response = answered.await.unwrap_or_else(|never: Infallible| match never {});
                match response.extensions().get::<Hangup>() {
                    Some(_) => Err(ScriptedDisconnect),
                    None => Ok(response),
                }
            }
        });
        connections.spawn(async move {
            // Ignore errors, because a client may disconnect at any time.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn models(State(state): State<Arc<ServerState>>) -> Json<Value> {
    let id = &state.script.model;
    let model = json!({"id": id, "object": "model", "created": 0, "owned_by": "script"});
    Json(json!({"object": "list", "data": [model]}))
}

async fn requests(State(state): State<Arc<ServerState>>) -> Json<Vec<ReceivedRequest>> {
    Json(state.lock().requests.clone())
}

async fn complete(
    State(state): State<Arc<ServerState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let key = [header::AUTHORIZATION.as_str(), "x-api-key", "x-goog-api-key"];
    let authorization = key.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let authorization = authorization.map(ToOwned::to_owned);
    let path = uri.path().to_owned();
    let seconds = state.start.elapsed().as_secs_f64();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let note = |answered: String| {
        state.lock().requests.push(ReceivedRequest {
            body: asked.clone(),
            bytes: body.clone(),
            path: path.clone(),
            authorization: authorization.clone(),
            answered,
            seconds,
        });
    };
    let action = path.rsplit_once(':').map(|(_, action)| action);
    let (format, streamed) = match (path.as_str(), action) {
        (_, Some(action)) => (Format::Gemini, action == "streamGenerateContent"),
        ("/v1/responses", _) => (Format::Responses, asked["stream"] == true),
        ("/v1/messages", _) => (Format::Messages, asked["stream"] == true),
        _ => (Format::Chat, asked["stream"] == true),
    };
    let refuse = |status: StatusCode, why: String, kind: &str| {
        note(format!("refused: {why}"));
        (status, Json(format.error(&why, kind))).into_response()
    };
    let mut request = match format.to_chat_request(&asked) {
        Ok(request) => request,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why, "invalid_request_error"),
    };
    if format == Format::Gemini {
        let named = path.rsplit_once('/').and_then(|(_, last)| last.split_once(':'));
        request["model"] = named.map(|(model, _)| model).into();
    }
    if let Some(why) = check::rejection_reason(&request, state.script.strict) {
        return refuse(StatusCode::BAD_REQUEST, why, "invalid_request_error");
    }
    let heard = RequestKey::new(&request);
    let Some(found) = state.script.find_match(&heard) else {
        let why =
            format!("the script has no response for turn {} of this conversation", heard.turn);
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, why, "script_exhausted");
    };
    let reply = Reply::new(found.answer, &request, &heard, &state.script.model);
    let with_usage = asked["stream_options"]["include_usage"] == true;
    let fault = {
        let key = (found.location.clone(), heard.opening_text.clone());
        let mut inner = state.lock();
        let count = inner.request_counts.entry(key).or_default();
        let index = *count;
        *count += 1;
        fault_for_request(&found.answer.faults, index)
    };
    match fault {
        Some(fault) => {
            note(format!("{}: {:?}", found.location, fault.kind));
            fault_response(fault, format, &reply, streamed).await
        }
        None => {
            note(found.location.clone());
            scripted_response(found.answer, format, &reply, streamed.then_some(with_usage)).await
        }
    }
}

/// Returns the fault for the `index`-th request for a response, if there is one.
fn fault_for_request(faults: &[Fault], index: u64) -> Option<&Fault> {
    let mut end = 0;
    faults.iter().find(|fault| {
        end += fault.times;
        fault.times == 0 || index < end
    })
}

/// Builds the HTTP response. `stream_includes_usage` is `Some` for a stream. The value says whether
/// the stream reports its usage.
async fn scripted_response(
    answer: &Answer,
    format: Format,
    reply: &Reply<'_>,
    stream_includes_usage: Option<bool>,
) -> Response {
    pause(answer.delay_seconds).await;
    let Some(with_usage) = stream_includes_usage else {
        return Json(format.response_body(reply)).into_response();
    };
    let gap = answer.chunk_delay_seconds;
    let lines = format.events(reply, with_usage);
    let body = stream::iter(lines).then(move |line| async move {
        pause(gap).await;
        Ok::<_, Infallible>(line)
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

async fn fault_response(
    fault: &Fault,
    format: Format,
    reply: &Reply<'_>,
    is_streaming: bool,
) -> Response {
    pause(fault.delay_seconds).await;
    let json = [(header::CONTENT_TYPE, "application/json")];
    let given = |otherwise: String| fault.body.clone().unwrap_or(otherwise);
    match fault.kind {
        FaultKind::Status => {
            let status = fault.status.and_then(|code| StatusCode::from_u16(code).ok());
            let body = given(format.error("the script says so", "scripted_fault").to_string());
            let mut response =
                (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), json, body).into_response();
            if let Some(Ok(value)) = fault.retry_after.as_ref().map(|text| text.parse()) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
            response
        }
        FaultKind::Drop => {
            let mut response = StatusCode::OK.into_response();
            response.extensions_mut().insert(Hangup);
            response
        }
        FaultKind::Truncate => {
            let events = [(header::CONTENT_TYPE, "text/event-stream")];
            let (kind, whole) = match is_streaming {
                true => (events, given(format.events(reply, true).concat()).into_bytes()),
                false => (json, given(format.response_body(reply).to_string()).into_bytes()),
            };
            let half = Bytes::copy_from_slice(&whole[..whole.len() / 2]);
            // The pause lets the first half arrive before the connection is closed.
            let end = stream::once(async {
                pause(0.05).await;
                Err(ScriptedDisconnect)
            });
            let body = Body::from_stream(stream::iter([Ok(half)]).chain(end));
            (kind, body).into_response()
        }
        FaultKind::Malformed => {
            let whole = format.response_body(reply).to_string();
            let half = String::from_utf8_lossy(&whole.as_bytes()[..whole.len() / 2]).into_owned();
            (json, given(half)).into_response()
        }
        FaultKind::NotJson => {
            let page = given("<html><body>Bad gateway</body></html>".into());
            ([(header::CONTENT_TYPE, "text/html")], page).into_response()
        }
        FaultKind::NoChoices => {
            (json, given(format.empty_response(reply).to_string())).into_response()
        }
        FaultKind::Hang => std::future::pending().await,
    }
}

async fn pause(seconds: f64) {
    if let Ok(time) = Duration::try_from_secs_f64(seconds)
        && !time.is_zero()
    {
        tokio::time::sleep(time).await;
    }
}
