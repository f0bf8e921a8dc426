//! A third-party server with real TLS. It serves the files in a folder under the given names, with
//! a certificate that its own certificate authority has signed, and records all requests.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{io::AsyncWriteExt, net::TcpListener, process::Command, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

pub struct UpstreamServer {
    pub address: SocketAddr,
    /// The certificate of the authority that signed the server's certificate, in PEM format.
    pub ca_certificate: String,
    request_log: Arc<Mutex<Vec<String>>>,
    server_handle: JoinHandle<()>,
}

impl Drop for UpstreamServer {
    fn drop(&mut self) {
        self.server_handle.abort();
    }
}

impl UpstreamServer {
    /// Serves `folder` on a free port of the loopback interface. Uses TLS unless `host_names` is
    /// empty.
    pub async fn start(host_names: &[&str], folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ca, config) = create_certificate(host_names);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, folder) = (Arc::clone(&asked), folder.to_owned());
        let plain = host_names.is_empty();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (kept, folder) = (Arc::clone(&kept), folder.clone());
                let acceptor = TlsAcceptor::from(Arc::clone(&config));
                tokio::spawn(async move {
                    let service = service_fn(|request| serve(request, &folder, &kept));
                    let http = http1::Builder::new();
                    if plain {
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    } else if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        Self { address, ca_certificate: ca, request_log: asked, server_handle: serving }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns `METHOD HOST PATH` for every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.request_log.lock().unwrap().clone()
    }
}

fn create_certificate(host_names: &[&str]) -> (String, Arc<ServerConfig>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // With the default name, OpenSSL would take the server's certificate and the authority's for
    // those of the same issuer.
    params.distinguished_name.push(DnType::CommonName, "an authority of a test");
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let names: Vec<_> = host_names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (to_pem(ca.der()), Arc::new(config))
}

fn to_pem(der: &[u8]) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let encoded = BASE64_STANDARD.encode(der);
    let lines: Vec<_> =
        encoded.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

async fn serve(
    request: Request<Incoming>,
    folder: &Path,
    request_log: &Mutex<Vec<String>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let host = request.headers().get("host").map_or("-", |host| host.to_str().unwrap()).to_owned();
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    request_log.lock().unwrap().push(format!("{method} {host} {path}"));
    if path.contains(".git/") {
        return Ok(serve_git(request, folder).await);
    }
    if method == "POST" {
        let sent = request.into_body().collect().await?.to_bytes().len();
        return Ok(Response::new(Full::from(format!("{sent} bytes"))));
    }
    let place: PathBuf = folder.join(path.trim_start_matches('/'));
    let content = match place.is_dir() {
        true => Ok(index_page(&place).into_bytes()),
        false => std::fs::read(&place),
    };
    let mut response = match content {
        Ok(content) => Response::new(Full::from(content)),
        Err(_) => {
            let mut missing = Response::new(Full::from("nothing here\n"));
            *missing.status_mut() = StatusCode::NOT_FOUND;
            missing
        }
    };
    if place.is_dir() {
        response.headers_mut().insert("content-type", "text/html".parse().unwrap());
    }
    Ok(response)
}

/// Serves a repository through Git's own smart HTTP server, as forges do.
async fn serve_git(request: Request<Incoming>, folder: &Path) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let header =
        |name: &str| head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", head.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = body.collect().await.unwrap().to_bytes();
    let mut stdin = backend.stdin.take().unwrap();
    stdin.write_all(&sent).await.unwrap();
    drop(stdin);
    let output = backend.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::new(Full::from(output[end + 4..].to_vec()));
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        if name == "Status" {
            *response.status_mut() = value[..3].parse().unwrap();
        } else {
            let name: hyper::header::HeaderName = name.parse().unwrap();
            response.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    response
}

/// Returns a page with links to the files in a folder, like a page of a simple package index.
fn index_page(folder: &Path) -> String {
    let mut links = String::from("<!DOCTYPE html><html><body>\n");
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        links.push_str(&format!("<a href=\"{name}\">{name}</a>\n"));
    }
    links + "</body></html>\n"
}
