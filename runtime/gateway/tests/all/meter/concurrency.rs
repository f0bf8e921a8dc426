//! Tests cases that random orders do not cover: whether requests really run in parallel, and which
//! request waits for which.

use std::{slice, time::Duration};

use futures_util::future::join_all;
use proctor_gateway::{RequestBounds, RequestError, SharedMeter};
use proctor_types::{Budget, BudgetKind, BudgetScope, RequestClass, SharedLimits, Spending, Usage};
use tokio::time::timeout;

use super::common::{End, Log, Request, client, trial};

const MAIN: RequestBounds =
    RequestBounds { class: RequestClass::Main, input_estimate: 100, max_output: Some(50) };

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn request(sets_output_limit: bool) -> Request {
    let (usage, end) = (usage(100, 50), End::Delivered);
    Request {
        class: RequestClass::Main,
        usage,
        extra_reservation: (0, 0),
        sets_output_limit,
        yields: (0, 3),
        end,
    }
}

async fn max_in_flight(
    budget: Budget,
    shared_meters: &[SharedMeter],
    sets_output_limit: bool,
) -> usize {
    let (one, log) = (trial(&budget, shared_meters), Log::default());
    let requests = [request(sets_output_limit)];
    join_all((0..16).map(|_| client(&one, &requests, &log))).await;
    log.with_state(|seen| seen.max_in_flight)
}

#[tokio::test]
async fn bounded_requests_run_together_and_unbounded_ones_alone() {
    let ample = || Budget { total_tokens: Some(16 * 150), ..Budget::default() };
    assert_eq!(max_in_flight(ample(), &[], true).await, 16);
    assert_eq!(max_in_flight(ample(), &[], false).await, 1);
    // No limit depends on output, so requests don't need an output limit to run together.
    let steps = Budget { steps: Some(16), input_tokens: Some(1600), ..Budget::default() };
    assert_eq!(max_in_flight(steps, &[], false).await, 16);
    let half = Budget { total_tokens: Some(8 * 150), ..Budget::default() };
    assert_eq!(max_in_flight(half, &[], true).await, 8);
}

#[tokio::test]
async fn run_limit_bounds_unlimited_output_by_the_context_window() {
    let run = |total_tokens| {
        let limits = SharedLimits { total_tokens: Some(total_tokens), ..Default::default() };
        [SharedMeter::new(BudgetScope::Run, &limits, Spending::default())]
    };
    // 100 in, at most 600 out: ten fit into 7000, although none sets an output limit.
    assert_eq!(max_in_flight(Budget::default(), &run(7000), false).await, 10);
}

#[tokio::test]
async fn large_request_is_not_overtaken_by_small_ones() {
    let one = trial(&Budget { total_tokens: Some(1000), ..Budget::default() }, &[]);
    let in_flight = one.admit(MAIN).await.expect("the first");
    let large = RequestBounds { input_estimate: 900, ..MAIN };
    let (mut large, mut small) = (Box::pin(one.admit(large)), Box::pin(one.admit(MAIN)));
    let soon = Duration::from_millis(20);
    assert!(timeout(soon, &mut large).await.is_err(), "it does not fit next to the first");
    assert!(timeout(soon, &mut small).await.is_err(), "it would fit, but it came later");
    in_flight.settle(&usage(100, 0), None, true);
    let alone = timeout(soon, large).await.expect("its turn").expect("not reached");
    assert!(timeout(soon, &mut small).await.is_err());
    drop(alone);
    drop(timeout(soon, small).await.expect("its turn").expect("not reached"));
}

#[tokio::test]
async fn no_request_starts_while_another_runs_alone() {
    let one = trial(&Budget { total_tokens: Some(1000), ..Budget::default() }, &[]);
    let unnamed = RequestBounds { max_output: None, ..MAIN };
    let alone = one.admit(unnamed).await.expect("the first");
    let soon = Duration::from_millis(20);
    let mut second = Box::pin(one.admit(MAIN));
    assert!(timeout(soon, &mut second).await.is_err(), "it needs only 150 of 900, but it waits");
    alone.settle(&usage(100, 890), None, true);
    drop(timeout(soon, second).await.expect("its turn").expect("10 are left"));
}

#[tokio::test]
async fn cancelled_wait_does_not_block_other_requests() {
    let one = trial(&Budget { steps: Some(2), ..Budget::default() }, &[]);
    let (first, second) = (one.admit(MAIN).await, one.admit(MAIN).await);
    let soon = Duration::from_millis(20);
    assert!(timeout(soon, one.admit(MAIN)).await.is_err(), "both steps are reserved");
    drop(first);
    let third = timeout(soon, one.admit(MAIN)).await.expect("room for one").expect("not reached");
    third.settle(&usage(1, 1), None, true);
    second.expect("it flies").settle(&usage(1, 1), None, true);
    assert_eq!(one.admit(MAIN).await.err(), Some(RequestError::Budget(BudgetKind::Steps)));
}

#[tokio::test]
async fn reached_run_limit_rejects_every_trial_and_names_the_run() {
    let limits = SharedLimits { cost_usd: Some(0.3), ..Default::default() };
    // The spending of an earlier invocation of the runtime counts.
    let before = Spending { cost_usd: 0.2, ..Spending::default() };
    let run = SharedMeter::new(BudgetScope::Run, &limits, before);
    let trials = [0, 1].map(|_| trial(&Budget::default(), slice::from_ref(&run)));
    assert_eq!(run.reached_limit(), None);
    let usage = usage(100, 50);
    let cost = trials[0].cost(&usage);
    trials[0].admit(MAIN).await.expect("0.1 is left").settle(&usage, cost, true);
    assert_eq!(run.reached_limit(), Some(BudgetKind::Cost));
    for one in &trials {
        let refused = one.admit(MAIN).await.expect_err("spent");
        let (scope, kind) = (BudgetScope::Run, BudgetKind::Cost);
        assert_eq!(refused, RequestError::SharedBudget { scope, kind });
        assert_eq!(one.reached_limit(), None, "the trial's own limits are not reached");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_tool_limit_resolves_at_the_total_tool_time() {
    let one = trial(&Budget { tool_seconds: Some(10.0), ..Budget::default() }, &[]);
    let meter = one.meter();
    for _ in 0..2 {
        meter.note_tool_start();
        tokio::time::advance(Duration::from_secs(3)).await;
        meter.note_tool_end();
        // The model is thinking, which does not count as tool time.
        tokio::time::advance(Duration::from_secs(100)).await;
    }
    assert_eq!((meter.tool_time(), one.reached_limit()), (Duration::from_secs(6), None));
    let begun = tokio::time::Instant::now();
    let (kind, ()) = tokio::join!(meter.wait_for_tool_limit(), async {
        // Two concurrent tools count twice.
        meter.note_tool_start();
        meter.note_tool_start();
    });
    assert_eq!(kind, BudgetKind::Tools);
    let took = begun.elapsed().as_secs_f64();
    assert!((2.0..2.01).contains(&took), "{took}");
    assert_eq!(one.admit(MAIN).await.err(), Some(RequestError::Budget(BudgetKind::Tools)));
}

#[tokio::test]
async fn grace_response_counts_towards_no_limit_of_the_trial() {
    let limits = SharedLimits { total_tokens: Some(10_000), ..Default::default() };
    let run = SharedMeter::new(BudgetScope::Run, &limits, Spending::default());
    let one = trial(&Budget { steps: Some(0), ..Budget::default() }, slice::from_ref(&run));
    assert_eq!(one.admit(MAIN).await.err(), Some(RequestError::Budget(BudgetKind::Steps)));
    // The endpoint is down: the request is admitted and fails with a fault.
    let ask = proctor_types::ModelRequest { messages: Vec::new(), tools: Vec::new() };
    assert!(matches!(one.ask_after_limit(&ask).await, Err(RequestError::Fault(_))));
    assert_eq!((one.spending(), run.spending()), (Spending::default(), Spending::default()));
}
