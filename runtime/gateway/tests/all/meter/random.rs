//! Property tests with random limits, random requests and random orders.

use std::time::Duration;

use futures_util::future::join_all;
use proctor_gateway::{SharedMeter, TrialGateway};
use proctor_types::{Budget, BudgetScope, RequestClass, SharedLimits, Spending, Usage};
use proptest::{collection::vec, prelude::*};

use super::common::{End, Log, Request, WINDOW, client, trial};

fn limits() -> impl Strategy<Value = SharedLimits> {
    let tokens = || proptest::option::weighted(0.4, 0_u64..3000);
    let steps = proptest::option::weighted(0.4, 0_u64..25);
    let cost = proptest::option::weighted(0.4, 0.0_f64..4.0);
    (steps, tokens(), tokens(), tokens(), tokens(), cost).prop_map(
        |(steps, input_tokens, output_tokens, total_tokens, uncached_input_tokens, cost_usd)| {
            SharedLimits {
                steps,
                input_tokens,
                output_tokens,
                total_tokens,
                uncached_input_tokens,
                cost_usd,
            }
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let class = prop_oneof![3 => Just(RequestClass::Main), 1 => Just(RequestClass::Side)];
    let end = prop_oneof![
        4 => Just(End::Delivered), 1 => Just(End::Billed), 1 => Just(End::Dropped)];
    let usage = (0_u64..400, 0_u64..200, 0.0_f64..1.0).prop_map(|(input, output, cached)| Usage {
        input,
        output,
        cached: (input as f64 * cached) as u64,
        ..Usage::default()
    });
    (class, usage, (0_u64..200, 0_u64..200), any::<bool>(), (0_u8..6, 0_u8..6), end).prop_map(
        |(class, usage, spare, named_limit, turns, end)| Request {
            class,
            usage,
            extra_reservation: spare,
            sets_output_limit: named_limit,
            yields: turns,
            end,
        },
    )
}

fn clients() -> impl Strategy<Value = Vec<Vec<Request>>> {
    vec(vec(request(), 0..12), 1..17)
}

/// Runs every client to its end. The clock advances only if no client can proceed, so a deadlock is
/// detected immediately.
fn run(trials: &[TrialGateway], clients: &[Vec<Request>], log: &Log) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let each = clients.iter().enumerate();
        let all = each.map(|(at, requests)| client(&trials[at % trials.len()], requests, log));
        let ended = tokio::time::timeout(Duration::from_secs(3600), join_all(all)).await;
        ended.expect("no client waits forever");
    });
}

/// Checks that a limit is exceeded by less than the last admitted response.
fn check_limits(
    limits: &SharedLimits,
    spending: &Spending,
    last_usage: &Usage,
    cost: f64,
) -> Result<(), String> {
    let total = spending.input_tokens + spending.output_tokens;
    let counts = [
        ("steps", limits.steps, spending.steps, 0),
        ("input", limits.input_tokens, spending.input_tokens, last_usage.input),
        ("output", limits.output_tokens, spending.output_tokens, last_usage.output),
        ("total", limits.total_tokens, total, last_usage.input + last_usage.output),
        (
            "uncached",
            limits.uncached_input_tokens,
            spending.uncached_input_tokens(),
            last_usage.input - last_usage.cached,
        ),
    ];
    for (kind, limit, spent, last) in counts {
        if limit.is_some_and(|limit| spent > limit + last) {
            return Err(format!("{kind}: {spent} of {limit:?}, the last answer took {last}"));
        }
    }
    match limits.cost_usd {
        Some(limit) if spending.cost_usd > limit + cost + 1e-9 => {
            Err(format!("cost: {} of {limit}, the last answer cost {cost}", spending.cost_usd))
        }
        _ => Ok(()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn trial_exceeds_limits_by_at_most_the_last_response(
        limits in limits(), clients in clients()) {
        let one = [trial(&limits.to_budget(), &[])];
        let log = Log::default();
        run(&one, &clients, &log);
        let (last, spent) = (log.with_state(|seen| seen.last), one[0].spending());
        let cost = one[0].cost(&last).unwrap_or_default();
        prop_assert_eq!(check_limits(&limits, &spent, &last, cost), Ok(()));
        prop_assert!(!spent.outgrown, "every answer was within its reserve");
    }

    #[test]
    fn run_exceeds_limits_by_at_most_the_last_response(
        limits in limits(), own in limits(), clients in clients()) {
        let run_meter = SharedMeter::new(BudgetScope::Run, &limits, Spending::default());
        let trials: Vec<_> =
            (0..3).map(|_| trial(&own.to_budget(), std::slice::from_ref(&run_meter))).collect();
        let log = Log::default();
        run(&trials, &clients, &log);
        let last = log.with_state(|seen| seen.last);
        prop_assert!(last.output <= WINDOW);
        let cost = trials[0].cost(&last).unwrap_or_default();
        let all = run_meter.spending();
        prop_assert_eq!(check_limits(&limits, &all, &last, cost), Ok(()));
        let sum = |of: fn(&Spending) -> u64| trials.iter().map(|one| of(&one.spending())).sum::<u64>();
        prop_assert_eq!(all.steps, sum(|spent| spent.steps));
        prop_assert_eq!(all.input_tokens, sum(|spent| spent.input_tokens));
        prop_assert_eq!(all.side_output_tokens, sum(|spent| spent.side_output_tokens));
    }

    #[test]
    fn steps_are_exact_whatever_the_endpoint_reports(
        steps in 0_u64..40, lie in 0_u64..100_000, clients in clients()) {
        // Responses far larger than their reservation, and clients that send requests until one is
        // rejected.
        let mut clients = clients;
        for request in clients.iter_mut().flatten() {
            (request.class, request.end) = (RequestClass::Main, End::Delivered);
        }
        let asked = clients.iter().map(Vec::len).sum::<usize>() as u64;
        let budget = Budget { steps: Some(steps), total_tokens: Some(u64::MAX), ..Budget::default() };
        let one = [trial(&budget, &[])];
        for request in clients.iter_mut().flatten() {
            request.extra_reservation = (0, 0);
            request.sets_output_limit = true;
        }
        let log = Log::default();
        let reported: Vec<Vec<Request>> = clients.clone();
        run_with_longer_responses(&one[0], &reported, lie, &log);
        prop_assert_eq!(one[0].spending().steps, asked.min(steps));
    }
}

/// Like [`run`], with responses that are `lie` tokens longer than their reservation.
fn run_with_longer_responses(trial: &TrialGateway, clients: &[Vec<Request>], lie: u64, log: &Log) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(join_all(clients.iter().map(|requests| async move {
        for request in requests {
            let Ok(admission) = trial.admit(request.bounds()).await else { return };
            log.with_state(|seen| {
                seen.in_flight += 1;
                if trial.spending().outgrown {
                    assert_eq!(
                        seen.in_flight, 1,
                        "after an understated reservation, requests run alone"
                    );
                }
            });
            tokio::task::yield_now().await;
            log.with_state(|seen| seen.in_flight -= 1);
            let usage = Usage { output: request.usage.output + lie, ..request.usage };
            admission.settle(&usage, trial.cost(&usage), true);
        }
    })));
}
