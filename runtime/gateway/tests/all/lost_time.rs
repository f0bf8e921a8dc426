//! Tests that a time limit that only the endpoint used up is not the model's result.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use proctor_gateway::{Gateway, GatewayServer, RequestError, RequestRules, TrialGateway};
use proctor_types::{Budget, BudgetKind, FaultLayer};
use serde_json::json;

use crate::{
    common::{
        Bench, RecordingSink, expect_fault, gateway, model, open_trial, start_fake_llm,
        user_request,
    },
    raw_endpoint::{OK_RESPONSE, start_raw_endpoint},
};

/// Runs a trial with a wall limit of one second against these responses, until the limit.
async fn run_to_wall_limit(texts: &'static [&'static str]) -> (TrialGateway, u64) {
    let (url, _) = start_raw_endpoint(texts).await;
    let budget = Budget { wall_seconds: Some(1.0), ..Budget::default() };
    let kept = Arc::new(RecordingSink::default());
    let trial = gateway().open(&model(&url), &budget, kept).expect("usable");
    loop {
        match trial.ask(&user_request("hi")).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(RequestError::Budget(BudgetKind::Wall)) => {
                let steps = trial.spending().steps;
                return (trial, steps);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn hang_until_the_wall_limit_is_an_endpoint_fault() {
    // The endpoint is silent from the first request on, or after two responses.
    for (texts, answers) in [(&[""][..], 0), (&[OK_RESPONSE, OK_RESPONSE, ""][..], 2)] {
        let (trial, steps) = run_to_wall_limit(texts).await;
        assert_eq!(steps, answers);
        let fault = trial.lost_time_fault(BudgetKind::Wall).expect("the endpoint's fault");
        assert_eq!(fault.layer, FaultLayer::Model);
        assert!(fault.what.contains("did not start"), "{fault}");
    }
    // If a model is merely slow to respond, the time counts against the model.
    let (trial, steps) = run_to_wall_limit(&[OK_RESPONSE]).await;
    assert!(steps > 3 && trial.lost_time_fault(BudgetKind::Wall).is_none());
}

#[tokio::test]
async fn request_dropped_at_the_limit_counts_as_silent() {
    let (url, _) = start_raw_endpoint(&[""]).await;
    let budget = Budget { wall_seconds: Some(0.5), ..Budget::default() };
    let kept = Arc::new(RecordingSink::default());
    let trial = gateway().open(&model(&url), &budget, kept).expect("usable");
    // The code that runs the trial also watches the limit, and may cancel the request first.
    let asked = user_request("hi");
    let first = tokio::time::timeout(Duration::from_millis(450), trial.ask(&asked)).await;
    assert!(first.is_err());
    assert!(trial.lost_time_fault(BudgetKind::Wall).is_some());
}

#[tokio::test]
async fn failures_until_the_wall_limit_are_an_endpoint_fault() {
    let script = "[default]\nfault = [{ kind = 'status', status = 429, retry_after = '15' }]";
    let budget = Budget { wall_seconds: Some(1.0), ..Budget::default() };
    let bench = Bench::new(script, budget).await;
    let error = bench.trial.ask(&user_request("hi")).await.expect_err("too long");
    assert_eq!(error, RequestError::Budget(BudgetKind::Wall));
    let fault = bench.trial.lost_time_fault(BudgetKind::Wall).expect("no fault of the model");
    assert!(fault.what.contains("429 the script says so"), "{fault}");
}

#[tokio::test]
async fn idle_timeout_restarts_with_progress() {
    let quick = |idle: f64| {
        let mut policy = proctor_gateway::RetryPolicy::shipped().expect("valid");
        (policy.idle_seconds, policy.attempt_seconds, policy.first_seconds) = (idle, idle, 0.01);
        Gateway::with_policy(proctor_gateway::PriceTable::default(), policy)
            .expect("a gateway")
            .with_key_lookup(|_| Some("sk-test-0123456789".into()))
    };
    let (url, count) = start_raw_endpoint(&[""]).await;
    let trial = open_trial(&quick(0.3), &model(&url));
    let begun = Instant::now();
    let fault = expect_fault(trial.ask(&user_request("hi")).await.expect_err("silence"));
    assert!(fault.what.contains("no event for"), "{fault}");
    assert_eq!(count.load(Ordering::Relaxed), 2, "two silent attempts, not twelve");
    assert!(begun.elapsed() < Duration::from_secs(5));

    // The response takes longer than the limit in total, but is never silent for that long.
    let slow = start_fake_llm(
        "[default]\ncontent = 'one piece after another, in many chunks of one stream'\n\
         chunk_delay_seconds = 0.15",
    )
    .await;
    let trial = Arc::new(open_trial(&quick(0.6), &model(&slow.base_url())));
    let server = GatewayServer::new(trial, RequestRules::default()).expect("a server");
    let listening = server.listen().await.expect("a port");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let begun = Instant::now();
    let url = format!("{}/v1/chat/completions", listening.url());
    let sent = http.post(url).bearer_auth(server.token()).body(body.to_string()).send().await;
    let said = sent.expect("a response").text().await.expect("a whole stream");
    assert!(said.ends_with("data: [DONE]\n\n"), "{said}");
    assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
}
