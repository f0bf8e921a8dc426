//! Tests limits: a step limit is exact, the first response that reaches a token or cost limit is
//! the last, and time limits cancel requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{Bench, RecordingSink, gateway, model, user_request};
use proctor_gateway::RequestError;
use proctor_types::{Budget, BudgetKind, FaultCause, Spending};

/// 10 input tokens (4 of them cached), 5 output tokens: 0.006 + 0.002 + 0.010 = 0.018 dollars.
const PAID_SCRIPT: &str =
    "[default]\ncontent = 'x'\nusage = { input = 10, output = 5, cached = 4 }";

/// Sends requests until the budget is used up. Returns the number of responses.
async fn exhaust_budget(bench: &Bench, kind: BudgetKind) -> u64 {
    for answers in 0..100 {
        match bench.trial.ask(&user_request("hi")).await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, RequestError::Budget(kind));
                assert_eq!(bench.trial.reached_limit(), Some(kind));
                assert_eq!(bench.server.requests().len() as u64, answers, "no request is wasted");
                return answers;
            }
        }
    }
    panic!("no limit after 100 answers");
}

#[tokio::test]
async fn step_limit_of_n_allows_n_responses() {
    for steps in [1, 2, 7] {
        let bench =
            Bench::new(PAID_SCRIPT, Budget { steps: Some(steps), ..Budget::default() }).await;
        assert_eq!(exhaust_budget(&bench, BudgetKind::Steps).await, steps);
    }
    let bench = Bench::new(PAID_SCRIPT, Budget { steps: Some(0), ..Budget::default() }).await;
    assert_eq!(exhaust_budget(&bench, BudgetKind::Steps).await, 0);
}

#[tokio::test]
async fn concurrent_requests_stay_within_the_step_limit() {
    let bench = Bench::new(PAID_SCRIPT, Budget { steps: Some(2), ..Budget::default() }).await;
    let one = user_request("hi");
    let trial = &bench.trial;
    let answers = tokio::join!(trial.ask(&one), trial.ask(&one), trial.ask(&one), trial.ask(&one));
    let came = [answers.0, answers.1, answers.2, answers.3].iter().filter(|a| a.is_ok()).count();
    assert_eq!((came, bench.server.requests().len()), (2, 2));
}

#[tokio::test]
async fn first_response_that_reaches_a_limit_is_the_last() {
    let none = Budget::default;
    for (budget, kind, answers) in [
        (Budget { input_tokens: Some(20), ..none() }, BudgetKind::InputTokens, 2),
        (Budget { input_tokens: Some(21), ..none() }, BudgetKind::InputTokens, 3),
        (Budget { output_tokens: Some(14), ..none() }, BudgetKind::OutputTokens, 3),
        (Budget { total_tokens: Some(30), ..none() }, BudgetKind::TotalTokens, 2),
        (Budget { uncached_input_tokens: Some(13), ..none() }, BudgetKind::UncachedInputTokens, 3),
        (Budget { cost_usd: Some(0.0359), ..none() }, BudgetKind::Cost, 2),
        (Budget { cost_usd: Some(0.0361), ..none() }, BudgetKind::Cost, 3),
    ] {
        let bench = Bench::new(PAID_SCRIPT, budget.clone()).await;
        assert_eq!(exhaust_budget(&bench, kind).await, answers, "{budget:?}");
    }
}

#[tokio::test]
async fn spending_adds_up_and_is_kept_on_resume() {
    let budget = Budget { steps: Some(3), ..Budget::default() };
    let bench = Bench::new(PAID_SCRIPT, budget.clone()).await;
    let answer = bench.trial.ask(&user_request("hi")).await.expect("an answer");
    assert!((answer.cost_usd.expect("a price") - 0.018).abs() < 1e-12);
    let spent = bench.trial.spending();
    let wanted =
        Spending { steps: 1, input_tokens: 10, output_tokens: 5, cached_tokens: 4, ..spent };
    assert_eq!(spent, wanted);
    let again = gateway()
        .open(&model(&bench.server.base_url()), &budget, Arc::new(RecordingSink::default()))
        .expect("a model")
        .resume_from(Spending { steps: 2, ..spent });
    again.ask(&user_request("hi")).await.expect("the third answer");
    assert_eq!(again.spending().input_tokens, 20);
    assert_eq!(again.reached_limit(), Some(BudgetKind::Steps));
}

#[tokio::test]
async fn unusable_billed_response_is_charged_without_a_step_or_a_limit() {
    let script = format!("{PAID_SCRIPT}\nfault = [{{ kind = 'no_choices' }}]");
    let bench = Bench::new(&script, Budget::default()).await;
    bench.trial.ask(&user_request("hi")).await.expect("an answer");
    let spent = bench.trial.spending();
    assert_eq!((spent.steps, spent.input_tokens, spent.output_tokens), (1, 20, 10));
    assert_eq!((spent.failed.input_tokens, spent.failed.output_tokens), (10, 5));
    // The trial's own limit counts only the delivered response.
    for (limit, answers) in [(15, 1), (16, 2)] {
        let budget = Budget { total_tokens: Some(limit), ..Budget::default() };
        let bench = Bench::new(&script, budget).await;
        for _ in 0..answers {
            assert_eq!(bench.trial.reached_limit(), None);
            bench.trial.ask(&user_request("hi")).await.expect("an answer");
        }
        assert_eq!(bench.trial.reached_limit(), Some(BudgetKind::TotalTokens));
        assert_eq!(bench.trial.spending().steps, answers);
    }
}

#[tokio::test]
async fn limit_reached_only_by_inflated_counts_is_a_fault_and_halts_the_model() {
    // (reported input of a request with about 10 tokens, the limit, whether it is a fault)
    for (input, limit, is_fault) in [(30_000, 60_000, true), (100, 200, false)] {
        let script = format!("[default]\ncontent = 'x'\nusage = {{ input = {input}, output = 5 }}");
        for (budget, kind) in [
            (Budget { input_tokens: Some(limit), ..Budget::default() }, BudgetKind::InputTokens),
            (Budget { total_tokens: Some(limit), ..Budget::default() }, BudgetKind::TotalTokens),
            (
                Budget { cost_usd: Some(limit as f64 / 1000.0), ..Budget::default() },
                BudgetKind::Cost,
            ),
        ] {
            let bench = Bench::new(&script, budget).await;
            for _ in 0..2 {
                bench.trial.ask(&user_request("hi")).await.expect("an answer");
            }
            assert_eq!(bench.trial.reached_limit(), Some(kind));
            let fault = bench.trial.limit_fault(kind).await;
            assert_eq!(fault.is_some(), is_fault, "{kind}: {fault:?}");
            let Some(fault) = fault else { continue };
            assert_eq!(fault.cause, FaultCause::Invalid);
            assert!(fault.what.contains("counts more input than it received"), "{fault}");
            let error = bench.trial.ask(&user_request("hi")).await.expect_err("halted");
            assert_eq!(error, RequestError::Fault(fault));
        }
    }
}

#[tokio::test]
async fn cost_limit_without_a_price_is_rejected() {
    let mut model = model("http://127.0.0.1:9/v1");
    model.name = "unlisted".into();
    let budget = Budget { cost_usd: Some(1.0), ..Budget::default() };
    let opened = gateway().open(&model, &budget, Arc::new(RecordingSink::default()));
    let fault = opened.expect_err("no price");
    assert!(fault.hint.is_some_and(|hint| hint.contains("`price`")));
}

#[tokio::test]
async fn time_limits_cancel_a_request_in_flight() {
    let script = "[default]\ncontent = 'late'\ndelay_seconds = 30";
    for (budget, kind) in [
        (Budget { wall_seconds: Some(0.3), ..Budget::default() }, BudgetKind::Wall),
        (Budget { working_seconds: Some(0.3), ..Budget::default() }, BudgetKind::Working),
    ] {
        let bench = Bench::new(script, budget).await;
        let begun = Instant::now();
        let error = bench.trial.ask(&user_request("hi")).await.expect_err("too late");
        assert_eq!(error, RequestError::Budget(kind));
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(bench.outcomes(), [(None, true)], "the cancelled attempt is recorded");
        assert_eq!(bench.trial.reached_limit(), Some(kind));
    }
}

#[tokio::test]
async fn retry_wait_ends_at_the_wall_limit_and_is_not_working_time() {
    let script = "[default]\nfault = [{ kind = 'status', status = 429, retry_after = '15' }]";
    let budget =
        Budget { wall_seconds: Some(1.6), working_seconds: Some(1.0), ..Budget::default() };
    let bench = Bench::new(script, budget).await;
    let error = bench.trial.ask(&user_request("hi")).await.expect_err("too long");
    assert_eq!(error, RequestError::Budget(BudgetKind::Wall));
    assert!(bench.trial.wait_time() >= Duration::from_millis(600));
}

#[tokio::test]
async fn wait_for_a_rate_limit_extends_the_wall_limit() {
    let script =
        "[default]\ncontent = 'x'\nfault = [{ kind = 'status', status = 429, retry_after = '1' }]";
    let bench = Bench::new(script, Budget { wall_seconds: Some(0.8), ..Budget::default() }).await;
    let begun = Instant::now();
    bench.trial.ask(&user_request("hi")).await.expect("the wait does not count");
    assert!(begun.elapsed() > Duration::from_millis(900));
    assert_eq!(bench.trial.reached_limit(), None);
}
