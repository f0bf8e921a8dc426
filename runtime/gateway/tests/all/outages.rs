//! Tests that an endpoint that is down or wrong is detected only once per run, and reported with its
//! reason.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use proctor_gateway::{Gateway, RequestError};
use proctor_types::{Budget, BudgetKind, FaultCause, FaultLayer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    common::{
        RecordingSink, expect_fault, gateway, model, open_trial, start_fake_llm, user_request,
    },
    raw_endpoint::{
        BUSY_RESPONSE, OK_RESPONSE, WEB_PAGE_RESPONSE, start_raw_endpoint, start_trickling_endpoint,
    },
};

#[tokio::test]
async fn web_page_instead_of_a_response_means_a_wrong_base_url() {
    // The server returns a web page, or a JSON object that is not a model response.
    const OTHER_SERVER_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"message\":\"welcome\"}";
    for (text, said) in
        [(WEB_PAGE_RESPONSE, "a web page, \"Open WebUI\""), (OTHER_SERVER_RESPONSE, "welcome")]
    {
        let texts: &'static [&'static str] = Box::leak(Box::new([text]));
        let (url, count) = start_raw_endpoint(texts).await;
        let gateway = gateway();
        let fault = expect_fault(
            open_trial(&gateway, &model(&url)).ask(&user_request("hi")).await.expect_err("a page"),
        );
        assert!(fault.what.contains(said) && fault.what.contains(&url), "{fault}");
        let hint = fault.hint.as_deref().expect("a hint");
        assert!(hint.contains("base_url") && hint.contains(&format!("{url}/v1")), "{hint}");
        assert_eq!(count.load(Ordering::Relaxed), 2);
        // Another trial makes no further attempt.
        let again = open_trial(&gateway, &model(&url))
            .ask(&user_request("hi"))
            .await
            .expect_err("the same");
        assert_eq!(again.to_string(), fault.to_string());
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(
            gateway.halt_reason(&model(&url), false).is_some() && fault.cause != FaultCause::Other
        );
    }
    // An endpoint that has responded is not a wrong URL: it gets the normal retries.
    let (url, count) = start_raw_endpoint(&[
        OK_RESPONSE,
        WEB_PAGE_RESPONSE,
        WEB_PAGE_RESPONSE,
        WEB_PAGE_RESPONSE,
        OK_RESPONSE,
    ])
    .await;
    let trial = open_trial(&gateway(), &model(&url));
    for _ in 0..2 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!(count.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn outage_halts_the_model_unless_other_trials_get_responses() {
    // The endpoint is down after its first response.
    let answered = start_fake_llm(
        "[[rule]]\nlast = 'hi'\nanswer = { content = 'x' }\n\
         [default]\nfault = [{ kind = 'status', status = 503, times = 0 }]",
    )
    .await;
    let gateway = gateway();
    let spec = model(&answered.base_url());
    let (first, second) = (open_trial(&gateway, &spec), open_trial(&gateway, &spec));
    first.ask(&user_request("hi")).await.expect("an answer");
    let fault_of_first =
        expect_fault(first.ask(&user_request("more")).await.expect_err("an outage"));
    assert!(fault_of_first.cause != FaultCause::Other, "{fault_of_first}");
    let asked = answered.requests().len();
    second.ask(&user_request("other")).await.expect_err("the same outage");
    assert_eq!(answered.requests().len(), asked, "no further request in this run");

    // While other trials receive responses, a request that always fails does not halt the model.
    let mixed = start_fake_llm(
        "[[rule]]\nlast = 'hi'\nanswer = { content = 'x' }\n\
         [default]\nfault = [{ kind = 'status', status = 503, times = 0 }]",
    )
    .await;
    let spec = model(&mixed.base_url());
    let (fails, works) = (open_trial(&gateway, &spec), open_trial(&gateway, &spec));
    let mut failing = tokio::spawn(async move { fails.ask(&user_request("never")).await });
    let fault_alone = loop {
        tokio::select! {
            failed = &mut failing => {
                break expect_fault(failed.expect("no panic").expect_err("always 503"));
            }
            () = tokio::time::sleep(Duration::from_millis(3)) => {
                works.ask(&user_request("hi")).await.expect("an answer");
            }
        }
    };
    assert!(
        fault_alone.cause == FaultCause::Other && gateway.halt_reason(&spec, false).is_none(),
        "{fault_alone}"
    );
}

/// Starts trials together, each with its own connection, and returns their errors.
async fn run_trials_together(
    gateway: &Gateway,
    url: &str,
    budget: &Budget,
    trial_count: usize,
) -> Vec<RequestError> {
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..trial_count {
        let trial =
            gateway.open(&model(url), budget, Arc::new(RecordingSink::default())).expect("usable");
        asked.spawn(async move {
            let error = trial.ask(&user_request("hi")).await.expect_err("no response");
            match error {
                RequestError::Budget(kind) => {
                    trial.lost_time_fault(kind).map_or(error, RequestError::Fault)
                }
                other => other,
            }
        });
    }
    asked.join_all().await
}

#[tokio::test]
async fn silent_endpoint_is_tried_by_only_one_trial() {
    let mut policy = proctor_gateway::RetryPolicy::shipped().expect("valid");
    (policy.first_seconds, policy.silent_attempts) = (0.01, 2);
    (policy.idle_seconds, policy.attempt_seconds) = (0.3, 0.3);
    let policy = || policy.clone();
    // The endpoint is always silent, is always overloaded, or always returns a web page. In total,
    // the trials make only as many attempts as one request would.
    for (texts, attempts) in
        [(&[""][..], 2), (&[BUSY_RESPONSE][..], 12), (&[WEB_PAGE_RESPONSE][..], 4)]
    {
        let (url, count) = start_raw_endpoint(texts).await;
        let gateway = Gateway::with_policy(proctor_gateway::PriceTable::default(), policy())
            .expect("a gateway")
            .with_key_lookup(|_| Some("sk-test-0123456789".into()));
        let errors = run_trials_together(&gateway, &url, &Budget::default(), 20).await;
        assert_eq!(count.load(Ordering::Relaxed), attempts, "{texts:?}");
        for error in errors {
            let RequestError::Fault(fault) = error else { panic!("{error:?}") };
            assert_eq!(
                (fault.layer, fault.cause),
                (FaultLayer::Model, FaultCause::Silent),
                "{fault}"
            );
        }
    }
}

#[tokio::test]
async fn wall_limit_below_the_idle_timeout_ends_the_round() {
    let (url, count) = start_raw_endpoint(&[""]).await;
    let budget = Budget { wall_seconds: Some(0.5), ..Budget::default() };
    let gateway = gateway();
    for error in run_trials_together(&gateway, &url, &budget, 5).await {
        let RequestError::Fault(fault) = error else { panic!("{error:?}") };
        assert_eq!(fault.cause, FaultCause::Silent, "{fault}");
    }
    let asked = count.load(Ordering::Relaxed);
    assert!(asked < 5, "each trial in flight asked: {asked}");
    // Trials that start later get the fault immediately.
    let started = Instant::now();
    let late = run_trials_together(&gateway, &url, &budget, 3).await;
    assert!(late.iter().all(|error| matches!(error, RequestError::Fault(_))), "{late:?}");
    assert!(started.elapsed() < Duration::from_millis(400), "a limit was waited for");
    assert_eq!(count.load(Ordering::Relaxed), asked);
}

#[tokio::test]
async fn keepalive_is_not_a_response() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let budget = Budget { wall_seconds: Some(0.5), ..Budget::default() };
    for (head, byte) in [(json, " "), (json, "\n"), (events, "\n"), (events, ": wait\n\n")] {
        let url = start_trickling_endpoint(head, byte).await;
        for error in run_trials_together(&gateway(), &url, &budget, 2).await {
            let RequestError::Fault(fault) = error else { panic!("{byte:?}: {error:?}") };
            assert_eq!(fault.cause, FaultCause::Silent, "{byte:?}: {fault}");
        }
    }
}

#[tokio::test]
async fn endpoint_text_cannot_control_the_terminal() {
    const BINARY: &str =
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\x1b[2J\x1b]0;title\x07\0\u{9b}31m bytes";
    const ERROR: &str =
        "HTTP/1.1 401 No\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"a\\u001b[2Jb\"}}";
    for texts in [&[BINARY][..], &[ERROR][..]] {
        let (url, _) = start_raw_endpoint(texts).await;
        for error in run_trials_together(&gateway(), &url, &Budget::default(), 1).await {
            let RequestError::Fault(fault) = error else { panic!("{error:?}") };
            assert!(
                !fault.to_string().contains(|c: char| c.is_control() && c != '\n'),
                "{fault:?}"
            );
        }
    }
}

#[tokio::test]
async fn consecutive_stalled_trials_are_an_outage() {
    let (url, _) = start_raw_endpoint(&[OK_RESPONSE, ""]).await;
    let budget = Budget { wall_seconds: Some(0.2), ..Budget::default() };
    let gateway = gateway();
    let line =
        || gateway.open(&model(&url), &budget, Arc::new(RecordingSink::default())).expect("usable");
    line().ask(&user_request("hi")).await.expect("the one answer");
    for cause in [FaultCause::Other, FaultCause::Other, FaultCause::Outage] {
        let trial = line();
        let error = trial.ask(&user_request("hi")).await.expect_err("silence");
        assert_eq!(error, RequestError::Budget(BudgetKind::Wall));
        let fault = trial.lost_time_fault(BudgetKind::Wall).expect("the endpoint's fault");
        assert_eq!(fault.cause, cause, "{fault}");
    }
    let RequestError::Fault(fault) = line().ask(&user_request("hi")).await.expect_err("halted")
    else {
        panic!("no fault")
    };
    assert_eq!(fault.cause, FaultCause::Outage);
}

#[tokio::test]
async fn first_event_of_a_response_releases_all_trials() {
    // The head and the first event of this response arrive, but the rest never does.
    const FIRST_EVENT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"x\"},\"index\":0}]}\n\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut vec![0; 65_536]).await;
            if held.is_empty() {
                let _ = stream.write_all(FIRST_EVENT.as_bytes()).await;
                held.push(stream);
                continue;
            }
            let _ = stream.write_all(OK_RESPONSE.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let gateway = gateway();
    let line = || {
        gateway
            .open(&model(&url), &Budget::default(), Arc::new(RecordingSink::default()))
            .expect("usable")
    };
    let first = line();
    let asked = user_request("hi");
    tokio::select! {
        ended = first.ask(&asked) => panic!("it never ends: {ended:?}"),
        answered = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            line().ask(&asked).await
        } => drop(answered.expect("the second need not wait for the end of the first")),
    }
}
