//! Tests that allowed requests from real clients work.

use std::sync::atomic::Ordering;

use proctor_types::{DenyReason, NetworkMode, UrlDecision};

use crate::fixture::{ProxyFixture, run};
use crate::not_run::not_run;

#[tokio::test(flavor = "multi_thread")]
async fn allowed_path_passes_and_other_paths_are_denied() {
    let stage = ProxyFixture::new(NetworkMode::Allow, &["GET https://a.test:PORT/ok/**"], "").await;
    stage.ledger.step.store(7, Ordering::SeqCst);
    let (status, body) = stage.curl(&["https://a.test:PORT/ok/file"]).await;
    assert_eq!((status, body.len()), (200, 100_000));
    stage.ledger.step.store(8, Ordering::SeqCst);
    let (status, body) = stage.curl(&["https://a.test:PORT/secret"]).await;
    assert_eq!(status, 403);
    assert!(body.contains("not_allowed") && body.contains("not on the list"), "{body}");
    let (status, _) = stage.curl(&["-d", "x", "https://a.test:PORT/ok/file"]).await;
    assert_eq!(status, 403, "the method is part of the rule");
    let ledger = stage.wait_for_ledger(3).await;
    let (step, first) = &ledger[0];
    assert_eq!((*step, first.method.as_str(), first.status), (7, "GET", Some(200)));
    assert_eq!((first.decision, first.bytes_down), (UrlDecision::Allowed, 100_000));
    assert_eq!(first.address, Some(stage.upstream.address.to_string()));
    assert!(first.rule.as_ref().unwrap().starts_with("GET https://a.test:"));
    assert_eq!((ledger[1].0, ledger[1].1.reason), (8, Some(DenyReason::NotAllowed)));
    assert_eq!(stage.upstream.requests().len(), 1, "denied requests are never sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn fully_allowed_host_passes_uninspected() {
    let stage = ProxyFixture::new(NetworkMode::Allow, &["https://a.test:PORT"], "").await;
    // The client sees the upstream's own certificate, not the proxy's.
    let ca = stage.dir.path().join("upstream.pem");
    let ca = ca.to_str().unwrap();
    let (status, body) = stage.curl(&["--cacert", ca, "https://a.test:PORT/ok/file"]).await;
    assert_eq!((status, body.len()), (200, 100_000));
    let (status, body) = stage.curl(&["--cacert", ca, "https://b.test:PORT/ok/file"]).await;
    assert_eq!(status, 0, "{body}");
    let ledger = stage.wait_for_ledger(2).await;
    assert_eq!(ledger[0].1.method, "CONNECT");
    assert!(ledger[0].1.bytes_down > 100_000);
    assert_eq!(ledger[1].1.reason, Some(DenyReason::UntrustedProxy));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_pass_both_ways_and_connections_are_reused() {
    let stage =
        ProxyFixture::new(NetworkMode::OpenExcept, &[], r#", "blocked_urls": ["x.test/y"]"#).await;
    let big = stage.dir.path().join("big");
    std::fs::write(&big, vec![b'z'; 3 << 20]).unwrap();
    let data = format!("@{}", big.display());
    let url = "https://b.test:PORT/up";
    let (status, body) = stage.curl(&["--data-binary", &data, url, url]).await;
    assert!(body.contains("3145728 bytes"), "{status} {body}");
    let ledger = stage.wait_for_ledger(2).await;
    assert_eq!((ledger[0].1.bytes_up, ledger[1].1.bytes_up), (3 << 20, 3 << 20));
    let plain = crate::upstream::UpstreamServer::start(&[], stage.dir.path()).await;
    let url = format!("http://127.0.0.1:{}/", plain.port());
    let (status, _) = stage.curl(&["--noproxy", "", &url]).await;
    assert_eq!(status, 403, "loopback without an exception");
    assert!(plain.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_allows_requests_and_records_the_reason() {
    let stage = ProxyFixture::with_network(
        NetworkMode::Allow,
        &["https://a.test:PORT/ok/**"],
        r#", "blocked_urls": ["https://a.test/secret"]"#,
        |network| network.audit = true,
    )
    .await;
    assert_eq!(stage.curl(&["https://a.test:PORT/ok/file"]).await.0, 200);
    assert_eq!(stage.curl(&["https://a.test:PORT/other"]).await.0, 404);
    assert_eq!(stage.curl(&["https://a.test:PORT/secret"]).await.0, 403);
    let ledger = stage.wait_for_ledger(3).await;
    let said: Vec<_> = ledger.iter().map(|(_, line)| (line.decision, line.reason)).collect();
    assert_eq!(
        said,
        [
            (UrlDecision::Allowed, None),
            (UrlDecision::Audited, Some(DenyReason::NotAllowed)),
            (UrlDecision::Denied, Some(DenyReason::TaskBlocked)),
        ]
    );
}

/// Each client uses only the sandbox's environment variables to find the proxy and its certificate.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_many_kinds_trust_the_proxy() {
    let stage = ProxyFixture::new(NetworkMode::Allow, &["GET https://a.test:PORT/ok/**"], "").await;
    let url = format!("https://a.test:{}/ok/file", stage.upstream.port());
    let python = format!("import urllib.request as r; print(len(r.urlopen('{url}').read()))");
    let node = format!("fetch('{url}').then(r => r.text()).then(t => console.log(t.length))");
    // Node's `fetch` supports proxies since version 22.21.
    let old_node = !std::process::Command::new("node")
        .args([
            "-e",
            "const [a, b] = process.versions.node.split('.').map(Number);
             process.exit(a > 22 || (a == 22 && b >= 21) ? 0 : 1)",
        ])
        .status()
        .is_ok_and(|status| status.success());
    let java = stage.dir.path().join("Get.java");
    std::fs::write(
        &java,
        format!(
            "class Get {{ public static void main(String[] a) throws Exception {{
               System.out.println(new java.net.URL(\"{url}\").openStream().readAllBytes().length);
            }} }}"
        ),
    )
    .unwrap();
    let java = java.to_str().unwrap();
    let mut asked = 0;
    for (program, args) in [
        ("/usr/bin/python3", vec!["-c", python.as_str()]),
        ("node", vec!["-e", &node]),
        ("java", vec![java]),
    ] {
        let mut command = stage.command(program);
        command.args(&args);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
        let Ok(output) = output else {
            let test = "clients_of_many_kinds_trust_the_proxy";
            not_run(test, "CLIENTS", format!("no {program}"));
            continue;
        };
        if program == "node" && old_node {
            // A client without proxy support cannot reach any server.
            assert!(!output.status.success(), "an old node reached {url}");
            continue;
        }
        asked += 1;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("100000"), "{program}: {said} {error}");
        assert!(output.status.success(), "{program}: {error}");
    }
    assert!(asked > 0, "no client was tested");
    let mut git = stage.command("git");
    git.args(["ls-remote", &url]);
    let output = run(git).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!error.contains("certificate"), "git trusts the proxy: {error}");
}
