//! Tests the hub client over real HTTP: revisions, redirects, tokens, checksums, the cache.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use pretty_assertions::assert_eq;
use proctor_datasets::{Hub, load_with_hub};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::{classic_row, with_fields};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const DATASET_NAME: &str = "SWE-bench/SWE-bench_Lite";

/// The server's files, and the requests it received.
#[derive(Default)]
struct Server {
    /// Path, content, and whether the file is in LFS.
    files: Vec<(String, Vec<u8>, bool)>,
    token: Option<String>,
    is_corrupt: bool,
    /// Number of requests that fail before requests succeed.
    failure_count: usize,
    requests: Vec<String>,
}

type SharedServer = Arc<Mutex<Server>>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn next_rejection(server: &mut Server, headers: &HeaderMap, request: String) -> Option<StatusCode> {
    server.requests.push(request);
    if server.failure_count > 0 {
        server.failure_count -= 1;
        return Some(StatusCode::BAD_GATEWAY);
    }
    let said = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    let wanted = server.token.as_ref().map(|token| format!("Bearer {token}"));
    (wanted.is_some() && said != wanted).then_some(StatusCode::UNAUTHORIZED)
}

async fn serve_info(
    State(server): State<SharedServer>,
    headers: HeaderMap,
    Path((owner, name, revision)): Path<(String, String, String)>,
) -> Response {
    let mut server = server.lock().unwrap();
    if let Some(status) = next_rejection(&mut server, &headers, format!("info {revision}")) {
        return status.into_response();
    }
    if format!("{owner}/{name}") != DATASET_NAME
        || !["main", "v1", COMMIT].contains(&revision.as_str())
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    let siblings: Vec<Value> = server
        .files
        .iter()
        .map(|(path, bytes, lfs)| {
            let blob = hex(&Sha1::digest([format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()));
            let mut sibling = json!({"rfilename": path, "size": bytes.len(), "blobId": blob});
            if *lfs {
                sibling["lfs"] = json!({"sha256": hex(&Sha256::digest(bytes)), "size": bytes.len(), "pointerSize": 130});
            }
            sibling
        })
        .collect();
    json!({"id": DATASET_NAME, "sha": COMMIT, "siblings": siblings}).to_string().into_response()
}

/// Redirects LFS files to another URL, as the hub does. The token must not be sent to that URL.
async fn serve_file(
    State(server): State<SharedServer>,
    headers: HeaderMap,
    Path((_, _, commit, path)): Path<(String, String, String, String)>,
) -> Response {
    let mut server = server.lock().unwrap();
    if let Some(status) = next_rejection(&mut server, &headers, format!("resolve {commit} {path}"))
    {
        return status.into_response();
    }
    let Some((_, bytes, lfs)) = server.files.iter().find(|(known, ..)| *known == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if *lfs {
        Redirect::temporary(&format!("/cdn/{path}")).into_response()
    } else {
        bytes.clone().into_response()
    }
}

async fn serve_cdn(State(server): State<SharedServer>, Path(path): Path<String>) -> Response {
    let server = server.lock().unwrap();
    let mut bytes = server.files.iter().find(|(known, ..)| *known == path).unwrap().1.clone();
    if server.is_corrupt {
        bytes[0] ^= 1;
    }
    bytes.into_response()
}

async fn start_server(server: Server) -> (String, SharedServer) {
    let shared = Arc::new(Mutex::new(server));
    let router = Router::new()
        .route("/api/datasets/{owner}/{name}/revision/{revision}", get(serve_info))
        .route("/datasets/{owner}/{name}/resolve/{commit}/{*path}", get(serve_file))
        .route("/cdn/{*path}", get(serve_cdn))
        .with_state(Arc::clone(&shared));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, shared)
}

fn server_files() -> Vec<(String, Vec<u8>, bool)> {
    let row = |id: &str| with_fields(classic_row(), &[("instance_id", json!(id))]).to_string();
    vec![
        ("README.md".into(), b"# card".to_vec(), false),
        ("data/test-00000-of-00002.jsonl".into(), row("a").into_bytes(), true),
        ("data/test-00001-of-00002.jsonl".into(), row("b").into_bytes(), false),
        ("data/dev-00000-of-00001.jsonl".into(), row("c").into_bytes(), false),
    ]
}

async fn load_tasks(
    pattern: &str,
    hub: &Hub,
) -> Result<Vec<(String, Option<String>, Option<String>)>, String> {
    let dir = TempDir::new().unwrap();
    let loaded = load_with_hub(&[pattern.to_owned()], dir.path(), hub).await;
    let loaded = loaded.map_err(|error| error.to_string())?;
    assert_eq!(loaded.bad_rows, []);
    Ok(loaded
        .tasks
        .into_iter()
        .map(|task| {
            let benchmark = task.benchmark.unwrap();
            (task.id.0, benchmark.split, benchmark.revision)
        })
        .collect())
}

#[tokio::test]
async fn hub_files_are_verified_and_downloaded_once() {
    let server = Server {
        files: server_files(),
        token: Some("secret".into()),
        failure_count: 1,
        ..Server::default()
    };
    let (address, shared) = start_server(server).await;
    let cache = TempDir::new().unwrap();
    let hub = Hub::new(&format!("{address}/"), Some("secret\n".into()), cache.path());
    let found = load_tasks(&format!("hf://{DATASET_NAME}@v1"), &hub).await.unwrap();
    let of =
        |id: &str, split: &str| (id.to_owned(), Some(split.to_owned()), Some(COMMIT.to_owned()));
    assert_eq!(found, [of("a", "lite"), of("b", "lite")]);
    let requests = shared.lock().unwrap().requests.clone();
    assert_eq!(requests[..2], ["info v1", "info v1"], "a failed request is retried");
    assert_eq!(requests.len(), 4);

    // Another revision of the same commit, and the commit itself, need no download.
    assert_eq!(load_tasks(&format!("hf://{DATASET_NAME}"), &hub).await.unwrap().len(), 2);
    assert_eq!(load_tasks(&format!("hf://{DATASET_NAME}@{COMMIT}"), &hub).await.unwrap().len(), 2);
    let requests = shared.lock().unwrap().requests.clone();
    assert_eq!(requests[4..], ["info main"], "a cached commit needs no request");
    assert_eq!(
        load_tasks(&format!("hf://{DATASET_NAME}@{COMMIT}/dev"), &hub).await.unwrap(),
        [of("c", "lite")]
    );
}

#[tokio::test]
async fn hub_rejections_have_hints() {
    let server =
        Server { files: server_files(), token: Some("secret".into()), ..Server::default() };
    let (address, shared) = start_server(server).await;
    let cache = TempDir::new().unwrap();
    let anonymous = Hub::new(&address, None, cache.path());
    let error = load_tasks(&format!("hf://{DATASET_NAME}"), &anonymous).await.unwrap_err();
    assert!(error.contains("set HF_TOKEN"), "{error}");
    let hub = Hub::new(&address, Some("secret".into()), cache.path());
    let error = load_tasks(&format!("hf://{DATASET_NAME}@absent"), &hub).await.unwrap_err();
    assert!(error.contains("no such dataset or revision"), "{error}");
    let error = load_tasks(&format!("hf://{DATASET_NAME}/train"), &hub).await.unwrap_err();
    assert!(error.contains("has no split `train`; its splits are dev, test"), "{error}");
    shared.lock().unwrap().is_corrupt = true;
    let error = load_tasks(&format!("hf://{DATASET_NAME}"), &hub).await.unwrap_err();
    assert!(error.contains("but the hub reports"), "{error}");
    shared.lock().unwrap().is_corrupt = false;
    assert_eq!(
        load_tasks(&format!("hf://{DATASET_NAME}"), &hub).await.unwrap().len(),
        2,
        "a corrupt file was kept"
    );
}
