//! Tests that all trials share an endpoint's rate limits, and that waiting for these limits does
//! not count as working time.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fake_llm::{FakeLlm, Script};
use futures_util::future::join_all;
use proctor_gateway::{EndpointRates, Gateway, RatePolicy, TrialGateway};
use proctor_types::Budget;

use crate::common::{RecordingSink, gateway, model, user_request};

struct RateBench {
    server: FakeLlm,
    gateway: Gateway,
}

impl RateBench {
    async fn new(script: &str, configure: impl FnOnce(&mut EndpointRates)) -> Self {
        let script = Script::parse(script).expect("a valid script");
        let server = FakeLlm::start(script).await.expect("a free port");
        let mut table = EndpointRates { base_url: server.base_url(), ..Default::default() };
        configure(&mut table);
        let policy = RatePolicy::shipped().expect("a valid policy");
        Self { gateway: gateway().with_rates(vec![table], policy), server }
    }

    /// Waits until the model has responded once in this run. Later requests are then sent
    /// concurrently.
    async fn after_first_response(self) -> Self {
        self.trial(&Budget::default())
            .0
            .ask(&user_request("warm"))
            .await
            .expect("the first answer");
        self
    }

    fn trial(&self, budget: &Budget) -> (TrialGateway, Arc<RecordingSink>) {
        let kept = Arc::new(RecordingSink::default());
        let model = model(&self.server.base_url());
        (self.gateway.open(&model, budget, kept.clone()).expect("a model"), kept)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trials_share_the_slots_of_an_endpoint() {
    let script = "[default]\ncontent = 'x'\ndelay_seconds = 0.25";
    let run = RateBench::new(script, |table| table.max_concurrent = Some(2))
        .await
        .after_first_response()
        .await;
    let trials: Vec<_> = (0..6).map(|_| run.trial(&Budget::default())).collect();
    let one = user_request("hi");
    let begun = Instant::now();
    for answer in join_all(trials.iter().map(|(trial, _)| trial.ask(&one))).await {
        answer.expect("an answer");
    }
    let took = begun.elapsed().as_secs_f64();
    assert!((0.7..3.0).contains(&took), "three rounds of two: {took}");
    let waits: Vec<f64> = trials.iter().map(|(trial, _)| trial.wait_time().as_secs_f64()).collect();
    let most = waits.iter().copied().fold(0.0, f64::max);
    assert!(most > 0.4, "the last waited for two rounds: {waits:?}");
    // The record has the time in the queue, separately from back-off.
    let queued: f64 = trials.iter().map(|(_, kept)| kept.attempts()[0].queued_seconds).sum();
    assert!((queued - waits.iter().sum::<f64>()).abs() < 0.2, "{queued} {waits:?}");
    assert!(trials.iter().all(|(_, kept)| kept.attempts()[0].wait_seconds == 0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_of_one_trial_delays_others_outside_working_time() {
    // Only the first trial's conversation gets the fault.
    let script = "[[rule]]\nwhen = 'first'\nanswer = { content = 'x', fault = [\
        { kind = 'status', status = 429, retry_after = '2' }] }\n[default]\ncontent = 'x'";
    let run = RateBench::new(script, |_| {}).await.after_first_response().await;
    let budget = Budget { working_seconds: Some(1.0), ..Budget::default() };
    let (first, second) = (run.trial(&budget), run.trial(&budget));
    let begun = Instant::now();
    let (asked, other) = (user_request("first"), user_request("second"));
    let (one, two) = tokio::join!(first.0.ask(&asked), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        second.0.ask(&other).await
    });
    one.expect("after the pause");
    two.expect("the two seconds are not working time, so the limit of one second is not reached");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(second.0.wait_time() >= Duration::from_millis(1500), "{:?}", second.0.wait_time());
    assert_eq!(second.1.attempts().len(), 1, "it was delayed, not rejected");
    assert!(second.1.attempts()[0].queued_seconds >= 1.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_requests_are_retried_until_all_are_answered() {
    let script = "[[rule]]\nwhen = 'warm'\nanswer = { content = 'x' }\n\
        [default]\ncontent = 'x'\ndelay_seconds = 0.02\n\
        fault = [{ kind = 'status', status = 429, times = 12 }]";
    let run = RateBench::new(script, |_| {}).await.after_first_response().await;
    let trials: Vec<_> = (0..16).map(|_| run.trial(&Budget::default())).collect();
    let one = user_request("hi");
    for answer in join_all(trials.iter().map(|(trial, _)| trial.ask(&one))).await {
        answer.expect("an answer");
    }
    let attempts: usize = trials.iter().map(|(_, kept)| kept.attempts().len()).sum();
    assert_eq!(attempts, 16 + 12);
}
