//! Tests every fault class over real HTTP: what is retried, what is not, and what is recorded.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::common::{Bench, KEY, RecordingSink, gateway, model, user_request};
use fake_llm::{FakeLlm, Script};
use proctor_gateway::{GatewayServer, RequestError, RequestRules};
use proctor_types::{Budget, Fault, FaultCause, FaultLayer, ModelSpec};

fn faulty_script(faults: &str) -> String {
    format!("[default]\ncontent = 'At last.'\nfault = [{faults}]")
}

async fn start_bench(faults: &str) -> Bench {
    Bench::new(&faulty_script(faults), Budget::default()).await
}

fn expect_fault(error: RequestError) -> Fault {
    match error {
        RequestError::Fault(fault) => fault,
        other => panic!("not a fault: {other:?}"),
    }
}

#[tokio::test]
async fn transient_faults_are_retried_and_recorded() {
    for (kind, status) in [
        ("{ kind = 'status', status = 408 }", Some(408)),
        ("{ kind = 'status', status = 409 }", Some(409)),
        ("{ kind = 'status', status = 429 }", Some(429)),
        ("{ kind = 'status', status = 500, body = 'oops' }", Some(500)),
        ("{ kind = 'status', status = 529, body = '' }", Some(529)),
        ("{ kind = 'drop' }", None),
        ("{ kind = 'truncate' }", Some(200)),
        ("{ kind = 'malformed' }", Some(200)),
        ("{ kind = 'not_json' }", Some(200)),
        ("{ kind = 'no_choices' }", Some(200)),
    ] {
        let bench = start_bench(kind).await;
        let answer = bench.trial.ask(&user_request("hi")).await.expect(kind);
        assert_eq!(answer.content, "At last.", "{kind}");
        assert_eq!(bench.outcomes(), [(status, true), (Some(200), false)], "{kind}");
        assert_eq!(bench.trial.spending().steps, 1, "{kind}");
        let attempts = bench.attempts();
        assert!(
            attempts[1].wait_seconds > 0.0 && bench.trial.wait_time() > Duration::ZERO,
            "{kind}"
        );
        assert_eq!(attempts[0].request_body, attempts[1].request_body, "{kind}");
    }
}

#[tokio::test]
async fn response_bytes_are_recorded_unchanged() {
    let bench =
        start_bench("{ kind = 'truncate' }, { kind = 'status', status = 503, body = 'd\u{fc}nn' }")
            .await;
    bench.trial.ask(&user_request("hi")).await.expect("an answer");
    let attempts = bench.attempts();
    let (half, whole) = (&attempts[0].response_body, &attempts[2].response_body);
    assert_eq!(half[..], whole[..whole.len() / 2], "half a body is recorded as half");
    assert_eq!(attempts[1].response_body, "d\u{fc}nn");
    let sent: serde_json::Value = serde_json::from_slice(&attempts[0].request_body).expect("JSON");
    assert_eq!(sent, bench.server.requests()[0].body);
}

#[tokio::test]
async fn retry_after_is_honoured_in_seconds_and_as_a_date() {
    for dated in [false, true] {
        // A date has whole seconds, so more than three of these four seconds remain.
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(4));
        let wish = if dated { date } else { "1".into() };
        let bench =
            start_bench(&format!("{{ kind = 'status', status = 429, retry_after = '{wish}' }}"))
                .await;
        bench.trial.ask(&user_request("hi")).await.expect("an answer");
        let waited = bench.trial.wait_time().as_secs_f64();
        assert!((1.0..=4.5).contains(&waited), "{wish}: {waited}");
        assert!(bench.attempts()[1].wait_seconds >= 1.0, "{wish}");
    }
}

#[tokio::test]
async fn overlong_retry_after_ends_the_request_immediately() {
    let bench = start_bench("{ kind = 'status', status = 429, retry_after = '3600' }").await;
    let fault = expect_fault(bench.trial.ask(&user_request("hi")).await.expect_err("an hour"));
    assert!(fault.what.contains("the next wait would be 3"), "{fault}");
    assert_eq!(bench.outcomes().len(), 1);
}

#[tokio::test]
async fn persistent_fault_is_reported_after_the_last_attempt() {
    let bench = start_bench("{ kind = 'status', status = 503, times = 0 }").await;
    let fault = expect_fault(bench.trial.ask(&user_request("hi")).await.expect_err("always 503"));
    assert_eq!((fault.layer, bench.outcomes().len()), (FaultLayer::Model, 4));
    assert!(
        fault.what.contains("after 4 attempts") && fault.what.contains("status 503"),
        "{fault}"
    );
    assert!(fault.hint.is_some());
    assert_eq!(bench.trial.spending().steps, 0);
}

#[tokio::test]
async fn unreachable_endpoint_is_reported_after_few_attempts() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let kept = Arc::new(RecordingSink::default());
    let model = model(&format!("http://{address}/v1"));
    let trial = gateway().open(&model, &Budget::default(), kept).expect("a model");
    let fault = expect_fault(trial.ask(&user_request("hi")).await.expect_err("the port is closed"));
    assert!(fault.what.contains("after 2 attempts"), "{fault}");
    assert!(fault.what.contains(&address.to_string()), "{fault}");
    assert!(fault.what.to_lowercase().contains("refused"), "{fault}");
}

#[tokio::test]
async fn unusable_endpoint_is_a_fault_with_a_hint() {
    for (status, hint) in [
        (401, "TEST_KEY"),
        (402, "credit"),
        (403, "may use"),
        (404, "base_url"),
        (302, "redirects"),
    ] {
        let bench =
            start_bench(&format!("{{ kind = 'status', status = {status}, times = 0 }}")).await;
        let fault = expect_fault(bench.trial.ask(&user_request("hi")).await.expect_err("unusable"));
        assert_eq!(
            (fault.layer, bench.outcomes()),
            (FaultLayer::Model, vec![(Some(status), true)])
        );
        assert!(fault.hint.as_deref().is_some_and(|text| text.contains(hint)), "{fault}");
    }
}

#[tokio::test]
async fn account_without_credit_is_not_retried() {
    let body = r#"{"error": {"code": "insufficient_quota"}}"#;
    let bench = start_bench(&format!("{{ kind = 'status', status = 429, body = '{body}' }}")).await;
    let fault = expect_fault(bench.trial.ask(&user_request("hi")).await.expect_err("no credit"));
    assert!(fault.hint.as_deref().is_some_and(|text| text.contains("credit")), "{fault}");
    assert_eq!(bench.outcomes().len(), 1);
}

#[tokio::test]
async fn rejection_is_returned_after_retries() {
    for status in [400, 413, 422] {
        let faults =
            format!("{{ kind = 'status', status = {status}, body = 'too odd', times = 3 }}");
        let bench = start_bench(&faults).await;
        let error = bench.trial.ask(&user_request("hi")).await.expect_err("rejected");
        let rejected =
            RequestError::Rejected { status, body: "too odd".into(), caused_by_model: false };
        assert_eq!(error, rejected);
        // Another backend of a router may accept the request, so the gateway repeats it before the
        // trial ends.
        assert_eq!(bench.outcomes(), [(Some(status), true); 3]);
        // The next request of the same trial succeeds.
        bench.trial.ask(&user_request("hi")).await.expect("an answer");
    }
}

#[tokio::test]
async fn key_is_sent_and_never_shown() {
    let faults = format!(
        "{{ kind = 'status', status = 500, body = 'key {KEY} is fine' }},
         {{ kind = 'status', status = 400, body = 'wrong key: {KEY}', times = 3 }}"
    );
    let bench = start_bench(&faults).await;
    let error = bench.trial.ask(&user_request("hi")).await.expect_err("rejected");
    let requests = bench.server.requests();
    assert_eq!(requests[0].authorization.as_deref(), Some(&*format!("Bearer {KEY}")));
    let shown = format!("{:?} {error:?} {:?}", bench.trial, bench.attempts());
    assert!(!shown.contains(KEY), "{shown}");
    assert_eq!(bench.attempts()[0].response_body, "key [key] is fine");
}

#[tokio::test]
async fn no_authorization_header_without_key_env() {
    let bench = Bench::with_model("default = { content = 'ok' }", Budget::default(), |model| {
        model.key_env = None
    })
    .await;
    bench.trial.ask(&user_request("hi")).await.expect("an answer");
    assert_eq!(bench.server.requests()[0].authorization, None);
}

#[tokio::test]
async fn missing_key_fault_names_its_variable() {
    let mut model = model("http://127.0.0.1:9/v1");
    model.key_env = Some("NOT_SET_KEY".into());
    let opened = gateway().open(&model, &Budget::default(), Arc::new(RecordingSink::default()));
    let fault = opened.expect_err("no key");
    assert!(fault.what.contains("NOT_SET_KEY"), "{fault}");
    assert!(fault.hint.is_some_and(|hint| hint.contains("export NOT_SET_KEY=")));
}

#[tokio::test]
async fn cancel_ends_the_request_in_flight() {
    let bench = start_bench("{ kind = 'hang', times = 0 }").await;
    let asked = user_request("hi");
    let (answer, ()) = tokio::join!(bench.trial.ask(&asked), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        bench.trial.cancel();
    });
    assert_eq!(answer, Err(RequestError::Cancelled));
    assert_eq!(bench.attempts()[0].error.as_deref(), Some("cancelled"));
    assert_eq!(bench.trial.ask(&asked).await, Err(RequestError::Cancelled));
}

/// If one trial finds a key or a model unusable, no other trial of the gateway tries it again.
#[tokio::test]
async fn rejected_key_is_not_tried_by_another_trial() {
    let script = "[[rule]]\nlast = \"hi\"\nanswer = { fault = [{ kind = \"status\", status = 401, times = 0 }] }\n[default]\ncontent = 'ok'\n";
    let server = FakeLlm::start(Script::parse(script).expect("valid")).await.expect("a port");
    let (gateway, spec) = (gateway(), model(&server.base_url()));
    let open = |spec: &ModelSpec| {
        gateway.open(spec, &Budget::default(), Arc::new(RecordingSink::default())).expect("usable")
    };
    let (first, second) = (open(&spec), open(&spec));
    assert!(gateway.halt_reason(&spec, false).is_none() && gateway.halt_faults().is_empty());
    let fault = first.ask(&user_request("hi")).await.expect_err("no such key");
    let again = second.ask(&user_request("another")).await.expect_err("the same key");
    assert_eq!(fault.to_string(), again.to_string());
    assert_eq!(server.requests().len(), 1);
    assert!(gateway.halt_reason(&spec, false).is_some() && gateway.halt_faults().len() == 1);
    // Another key at the same URL is unaffected.
    let keyless = ModelSpec { key_env: None, ..spec };
    open(&keyless).ask(&user_request("another")).await.expect("an answer");
}

/// The same applies to HTTP clients: after one client finds the problem, neither another client nor
/// an in-process loop tries again.
#[tokio::test]
async fn key_rejected_over_http_is_not_tried_again() {
    let script = "[default]\nfault = [{ kind = \"status\", status = 401, times = 0 }]\n";
    let server = FakeLlm::start(Script::parse(script).expect("valid")).await.expect("a port");
    let (gateway, spec) = (gateway(), model(&server.base_url()));
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for _ in 0..2 {
        let kept = Arc::new(RecordingSink::default());
        let trial = gateway.open(&spec, &Budget::default(), kept.clone()).expect("usable");
        let server =
            GatewayServer::new(Arc::new(trial), RequestRules::default()).expect("a server");
        let listening = server.listen().await.expect("a port");
        let asked = http
            .post(format!("{}/v1/chat/completions", listening.url()))
            .bearer_auth(server.token())
            .body(r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}]}"#);
        let answered = asked.send().await.expect("a response");
        assert_eq!(answered.status(), 403, "401 would look like a wrong client token");
        assert!(answered.text().await.expect("a body").contains("401"));
        assert!(
            matches!(server.wait_until_stopped().await, RequestError::Fault(fault) if fault.cause == FaultCause::Refused)
        );
    }
    assert_eq!(server.requests().len(), 1);
    let third = gateway
        .open(&spec, &Budget::default(), Arc::new(RecordingSink::default()))
        .expect("usable");
    third.ask(&user_request("hi")).await.expect_err("the same key");
    assert_eq!(server.requests().len(), 1);
}

/// Some endpoints return 403 for text that they reject, so a key that has received responses stays
/// in use.
#[tokio::test]
async fn status_403_after_a_response_does_not_halt_the_key() {
    let script = "[[rule]]\nlast = \"bad\"\nanswer = { fault = [{ kind = \"status\", status = 403, times = 0 }] }\n[default]\ncontent = 'ok'\n";
    let bench = Bench::new(script, Budget::default()).await;
    bench.trial.ask(&user_request("good")).await.expect("an answer");
    bench.trial.ask(&user_request("bad")).await.expect_err("a rejected text");
    bench.trial.ask(&user_request("good")).await.expect("an answer");
    assert_eq!(bench.server.requests().len(), 3);
}

/// Some endpoints return 403 for a request whose form they reject.
#[tokio::test]
async fn status_403_is_final_after_the_repair_that_it_asks_for() {
    let body = r#"{"error": {"message": "stream_options is forbidden"}}"#;
    let faults = format!("{{ kind = 'status', status = 403, times = 0, body = '{body}' }}");
    let bench = start_bench(&faults).await;
    let fault = expect_fault(bench.trial.ask(&user_request("hi")).await.expect_err("forbidden"));
    assert_eq!(fault.cause, FaultCause::Refused);
    assert_eq!(bench.outcomes(), [(Some(403), true); 2]);
}
