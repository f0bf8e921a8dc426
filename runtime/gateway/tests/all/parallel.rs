//! Tests sixteen concurrent clients: step limits are exact, and limits on tokens and cost are never
//! exceeded by more than one response.

use futures_util::future::join_all;
use proctor_gateway::{RequestBounds, RequestError};
use proctor_types::{Budget, BudgetKind, RequestClass, Usage};

use crate::{
    common::{Bench, user_request},
    server::ServerBench,
};
use serde_json::json;

const CLIENT_COUNT: usize = 16;

/// 0.018 dollars per response.
const PAID_SCRIPT: &str = "[default]\ncontent = 'x'\ndelay_seconds = 0.01\nusage = { input = 10, output = 5, cached = 4 }";

/// Sixteen clients send requests until each is rejected. Returns the number of responses.
async fn send_until_rejected(bench: &Bench, kind: BudgetKind) -> u64 {
    let client = || async {
        let mut came = 0;
        loop {
            match bench.trial.ask(&user_request("hi")).await {
                Ok(_) => came += 1,
                Err(error) => {
                    assert_eq!(error, RequestError::Budget(kind));
                    return came;
                }
            }
        }
    };
    join_all((0..CLIENT_COUNT).map(|_| client())).await.into_iter().sum()
}

async fn start_bench(budget: Budget, max_output: Option<u64>) -> Bench {
    Bench::with_model(PAID_SCRIPT, budget, |model| model.max_output_tokens = max_output).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_clients_get_exactly_the_step_limit() {
    for max_output in [None, Some(5)] {
        let bench = start_bench(Budget { steps: Some(50), ..Budget::default() }, max_output).await;
        assert_eq!(send_until_rejected(&bench, BudgetKind::Steps).await, 50);
        assert_eq!(bench.trial.spending().steps, 50);
        assert_eq!(bench.server.requests().len(), 50, "no request is wasted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_clients_exceed_limits_by_at_most_one_response() {
    let none = Budget::default;
    for max_output in [None, Some(5), Some(1000)] {
        for (budget, kind, answers) in [
            (Budget { input_tokens: Some(601), ..none() }, BudgetKind::InputTokens, 61),
            (Budget { output_tokens: Some(299), ..none() }, BudgetKind::OutputTokens, 60),
            (Budget { total_tokens: Some(900), ..none() }, BudgetKind::TotalTokens, 60),
            (Budget { cost_usd: Some(1.09), ..none() }, BudgetKind::Cost, 61),
        ] {
            let bench = start_bench(budget.clone(), max_output).await;
            // As many as a single client would get: only the last response exceeds the limit.
            assert_eq!(
                send_until_rejected(&bench, kind).await,
                answers,
                "{budget:?} {max_output:?}"
            );
        }
    }
}

#[tokio::test]
async fn side_requests_are_charged_without_a_step() {
    let budget = Budget { steps: Some(1), total_tokens: Some(60), ..Budget::default() };
    let bench = start_bench(budget, Some(5)).await;
    bench.trial.ask(&user_request("hi")).await.expect("step 1");
    let side = RequestBounds { class: RequestClass::Side, input_estimate: 10, max_output: Some(5) };
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    // The tools of step 1 may still run and send requests.
    let admission = bench.trial.admit(side).await.expect("a side request after the last step");
    admission.settle(&usage, bench.trial.cost(&usage), true);
    drop(bench.trial.admit(side).await.expect("an attempt without a response"));
    let spent = bench.trial.spending();
    assert_eq!((spent.steps, spent.side_requests), (1, 1));
    assert_eq!(
        (spent.input_tokens, spent.side_input_tokens, spent.side_output_tokens),
        (20, 10, 5)
    );
    assert_eq!(
        bench.trial.ask(&user_request("hi")).await,
        Err(RequestError::Budget(BudgetKind::Steps))
    );
    // The trial is over, for side requests too.
    let refused = bench.trial.admit(side).await.expect_err("over");
    assert_eq!(refused, RequestError::Budget(BudgetKind::Steps));
}

/// Sixteen raw connections to the HTTP server each send requests until one is rejected. Every other
/// connection streams. Returns the number of responses.
async fn send_to_server_until_rejected(server_bench: &ServerBench, max_tokens: Option<u64>) -> u64 {
    let client = |at: usize| async move {
        let mut came = 0;
        loop {
            let body = json!({
                "model": "m", "messages": [{"role": "user", "content": "hi"}],
                "max_tokens": max_tokens, "stream": at.is_multiple_of(2),
            });
            match server_bench.chat(body).await {
                (200, body) if !body.contains("budget_") => came += 1,
                (status, body) => {
                    assert!(status == 402 || body.contains("budget_"), "{status}: {body}");
                    return came;
                }
            }
        }
    };
    join_all((0..CLIENT_COUNT).map(client)).await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_raw_connections_get_exactly_the_step_limit() {
    for max_tokens in [None, Some(5)] {
        let served =
            ServerBench::new(PAID_SCRIPT, Budget { steps: Some(40), ..Budget::default() }).await;
        assert_eq!(send_to_server_until_rejected(&served, max_tokens).await, 40);
        assert_eq!(served.bench.trial.spending().steps, 40);
        assert_eq!(served.bench.server.requests().len(), 40, "no request is wasted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_connections_exceed_limits_by_at_most_one_response() {
    let script = "[default]\ncontent = 'x'\ndelay_seconds = 0.02\n\
        usage = { input = 500, output = 100, cached = 0 }";
    for budget in [
        Budget { total_tokens: Some(20_100), ..Budget::default() },
        Budget { input_tokens: Some(17_001), ..Budget::default() },
        Budget { output_tokens: Some(3_333), ..Budget::default() },
        // 0.7 dollars per response.
        Budget { cost_usd: Some(23.05), ..Budget::default() },
    ] {
        let served = ServerBench::new(script, budget.clone()).await;
        send_to_server_until_rejected(&served, Some(100)).await;
        let spent = served.bench.trial.spending();
        // The first response that reaches the limit is the last, as for a single client.
        let limits = [budget.total_tokens, budget.input_tokens, budget.output_tokens];
        let reach = limits.into_iter().zip([600, 500, 100]);
        let reach = reach.filter_map(|(limit, one)| Some(limit?.div_ceil(one))).next();
        let reach = reach.unwrap_or(33);
        assert_eq!(spent.steps, reach, "{budget:?}");
        assert!(!spent.outgrown);
    }
}
