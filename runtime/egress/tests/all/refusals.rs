//! Tests that the proxy refuses attempts to bypass it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use proctor_types::{DenyReason, NetworkMode, UrlDecision};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::fixture::ProxyFixture;

/// Creates a proxy that allows all of the upstream's URLs except those that the task blocks.
async fn open_fixture() -> ProxyFixture {
    ProxyFixture::new(
        NetworkMode::OpenExcept,
        &[],
        r#", "blocked_urls": ["https://a.test/secret"], "repo": "acme/widget""#,
    )
    .await
}

/// Sends bytes to the proxy and returns its complete response.
async fn send_raw(fixture: &ProxyFixture, text: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", fixture.port)).await.unwrap();
    stream
        .write_all(text.replace("PORT", &fixture.upstream.port().to_string()).as_bytes())
        .await
        .unwrap();
    let mut said = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut said)).await;
    String::from_utf8_lossy(&said).into_owned()
}

/// Opens a tunnel to `a.test`, and sends this server name in the TLS handshake.
async fn open_tunnel(
    fixture: &ProxyFixture,
    name: &str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(("127.0.0.1", fixture.port)).await?;
    let connect =
        format!("CONNECT a.test:{0} HTTP/1.1\r\nhost: a.test:{0}\r\n\r\n", fixture.upstream.port());
    stream.write_all(connect.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(fixture.bundle()).unwrap() {
        let _ = roots.add(certificate.unwrap());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn send_in_tunnel(fixture: &ProxyFixture, request: &str) -> String {
    let mut stream = open_tunnel(fixture, "a.test").await.unwrap();
    let request = request.replace("PORT", &fixture.upstream.port().to_string());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut said)).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_gives_its_reason_in_status_line_header_and_body() {
    let stage = open_fixture().await;
    let said = send_in_tunnel(
        &stage,
        "GET /secret HTTP/1.1\r\nhost: a.test:PORT\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(
        said.starts_with("HTTP/1.1 403 Blocked by the egress proxy: task_blocked\r\n"),
        "{said}"
    );
    assert!(said.contains("x-proctor-egress: task_blocked\r\n"), "{said}");
    assert!(said.contains("This task blocks this URL.\nGET https://a.test:"), "{said}");
    let (status, body) = stage.curl(&["https://a.test:PORT/x/acme/widget/archive/main.zip"]).await;
    assert_eq!(status, 403);
    assert!(body.contains("task_alias"), "{body}");
    assert!(stage.upstream.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn mismatched_host_names_are_refused() {
    let stage = open_fixture().await;
    for request in [
        "GET /ok/file HTTP/1.1\r\nhost: b.test:PORT\r\n\r\n",
        "GET /ok/file HTTP/1.1\r\nhost: a.test\r\n\r\n",
        "GET /ok/file HTTP/1.1\r\nhost: a.test:PORT\r\nhost: a.test:PORT\r\n\r\n",
        "GET https://b.test:PORT/ok/file HTTP/1.1\r\nhost: a.test:PORT\r\n\r\n",
        "GET http://a.test:PORT/ok/file HTTP/1.1\r\nhost: a.test:PORT\r\n\r\n",
        "GET /ok/file HTTP/1.0\r\n\r\n",
    ] {
        let said =
            send_in_tunnel(&stage, &request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"))
                .await;
        assert!(said.contains("host_mismatch"), "{request}: {said}");
    }
    assert!(open_tunnel(&stage, "b.test").await.is_err(), "the ClientHello names another server");
    let said = send_raw(
        &stage,
        "GET http://a.test:PORT/ok HTTP/1.1\r\nhost: b.test:PORT\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(said.contains("host_mismatch"), "{said}");
    let ledger = stage.wait_for_ledger(8).await;
    assert!(ledger.iter().all(|(_, line)| line.reason == Some(DenyReason::HostMismatch)));
    assert!(stage.upstream.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn non_http_traffic_is_refused() {
    let stage = open_fixture().await;
    let connect = "CONNECT a.test:PORT HTTP/1.1\r\nhost: a.test:PORT\r\n\r\n";
    for text in
        ["SSH-2.0-x\r\n", "GET /secret HTTP/1.1\r\nhost: a.test\r\n\r\n", "\u{16}\u{3}nonsense!"]
    {
        let said = send_raw(&stage, &format!("{connect}{text}")).await;
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("\r\n\r\n"), "{said}");
    }
    let ledger = stage.wait_for_ledger(3).await;
    assert!(ledger.iter().all(|(_, line)| line.reason == Some(DenyReason::NotHttp)));
    for (request, reason) in [
        ("GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n", "bad_request"),
        (
            "GET https://a.test:PORT/ HTTP/1.1\r\nhost: a.test:PORT\r\nconnection: close\r\n\r\n",
            "bad_request",
        ),
        ("GET ftp://a.test/ HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n", "bad_request"),
        ("CONNECT a.test HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n", "bad_request"),
        (
            "TRACE http://a.test:PORT/ HTTP/1.1\r\nhost: a.test:PORT\r\nconnection: close\r\n\r\n",
            "bad_request",
        ),
        (
            "GET http://a.test:PORT/%25252525 HTTP/1.1\r\nhost: a.test:PORT\r\nconnection: close\r\n\r\n",
            "ambiguous_url",
        ),
    ] {
        let said = send_raw(&stage, request).await;
        assert!(said.contains(reason), "{request}: {said}");
    }
    assert!(stage.upstream.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_are_refused_in_every_spelling() {
    let stage = open_fixture().await;
    let mut lines = 0;
    for host in [
        "127.0.0.2",
        "2130706434",
        "0177.0.0.2",
        "0x7f000002",
        "[::ffff:127.0.0.2]",
        "[::1]",
        "0",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00:ec2::254]",
    ] {
        let (status, body) =
            stage.curl(&["--noproxy", "", "-k", &format!("https://{host}:PORT/ok/file")]).await;
        assert_eq!(status, 403, "{host}: {body}");
        assert!(body.contains("private_address"), "{host}: {body}");
        lines += 1;
    }
    let ledger = stage.wait_for_ledger(lines).await;
    for (_, line) in ledger {
        assert_eq!(line.reason, Some(DenyReason::PrivateAddress), "{line:?}");
        assert_eq!(line.decision, UrlDecision::Denied);
    }
    assert!(stage.upstream.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_with_an_invalid_certificate_is_rejected() {
    let blocked = r#", "blocked_urls": ["https://z.test/"]"#;
    let unknown =
        ProxyFixture::with_network(NetworkMode::OpenExcept, &[], blocked, |n| n.ca_file = None)
            .await;
    let misnamed = ProxyFixture::with_network(NetworkMode::OpenExcept, &[], blocked, |network| {
        network.private[0] = network.private[0].replace("a.test", "c.test");
    })
    .await;
    for (stage, host) in [(unknown, "a.test"), (misnamed, "c.test")] {
        let (status, body) = stage.curl(&[&format!("https://{host}:PORT/ok/file")]).await;
        assert_eq!(status, 502, "{body}");
        assert!(body.contains("TLS handshake with the server"), "{body}");
        let ledger = stage.wait_for_ledger(1).await;
        assert_eq!((ledger[0].1.decision, ledger[0].1.status), (UrlDecision::Allowed, Some(502)));
        assert!(stage.upstream.requests().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_head_is_rejected() {
    let stage = open_fixture().await;
    let head = format!("GET http://a.test:PORT/ HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let said = send_raw(&stage, &head).await;
    assert!(!said.contains("200 OK"), "{said}");
    assert!(stage.upstream.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_download_is_recorded_and_a_full_ledger_is_a_fault() {
    let stage = open_fixture().await;
    let mut stream = open_tunnel(&stage, "a.test").await.unwrap();
    let request =
        format!("GET /ok/file HTTP/1.1\r\nhost: a.test:{}\r\n\r\n", stage.upstream.port());
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.read_u8().await.unwrap();
    drop(stream);
    let ledger = stage.wait_for_ledger(1).await;
    assert_eq!(ledger[0].1.status, Some(200));
    stage.ledger.is_full.store(true, Ordering::SeqCst);
    stage.curl(&["https://a.test:PORT/secret"]).await;
    let fault =
        tokio::time::timeout(Duration::from_secs(5), stage.proxy.wait_for_fault()).await.unwrap();
    assert!(fault.what.contains("disk is full"));
    assert!(stage.proxy.close().await.is_err());
}
