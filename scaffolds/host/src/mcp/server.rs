//! Serves MCP over HTTP (the "streamable HTTP" transport). A message is a POST request, and its
//! response is JSON. Nothing is streamed, because the server sends no messages by itself.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use proctor_sandbox_api::{Listener, SandboxStream};
use tokio::task::{JoinHandle, JoinSet};

use super::answer::ToolServer;

/// The path in the server's URL.
pub(super) const SERVER_PATH: &str = "/mcp";

/// A running server. Dropping it stops the server and closes its connections.
pub(super) struct ServerHandle(JoinHandle<()>);

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Accepts connections from a listener until the sandbox is gone. `max_bytes` is the maximum size
/// of a message in bytes.
pub(super) fn serve(mut listener: Listener, tools: ToolServer, max_bytes: usize) -> ServerHandle {
    ServerHandle(tokio::spawn(async move {
        // The task owns the set of connections, so all of them end with the task.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok(incoming) = accepted else { return };
                    connections.spawn(serve_connection(incoming.into_stream(), tools.clone(), max_bytes));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }))
}

async fn serve_connection(stream: SandboxStream, tools: ToolServer, max_bytes: usize) {
    let service = service_fn(move |request| {
        let tools = tools.clone();
        async move { Ok::<_, Infallible>(respond(&tools, request, max_bytes).await) }
    });
    // Ignore errors, because a client may disconnect at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    tools: &ToolServer,
    request: Request<Incoming>,
    max_bytes: usize,
) -> Response<Full<Bytes>> {
    if request.uri().path() != SERVER_PATH {
        return empty_response(StatusCode::NOT_FOUND);
    }
    if request.method() != Method::POST {
        // The other methods are for streams and sessions, which this server does not have.
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Ok(body) = Limited::new(request.into_body(), max_bytes).collect().await else {
        return empty_response(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let Some(answer) = tools.handle_message(&body.to_bytes()).await else {
        return empty_response(StatusCode::ACCEPTED);
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn empty_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
