//! Tests what the gateway reports about waiting requests.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use proctor_gateway::{ExchangeSink, Gateway, WaitNotice};
use proctor_types::{Budget, Event, Fault};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    common::{model, user_request},
    raw_endpoint::{BUSY_RESPONSE, OK_RESPONSE, start_raw_endpoint},
};

/// A sink that keeps reported waits.
#[derive(Default)]
struct WaitLog(Mutex<Vec<WaitNotice>>);

#[async_trait]
impl ExchangeSink for WaitLog {
    async fn store_body(&self, _: &[u8]) -> Result<String, Fault> {
        Ok(String::new())
    }

    async fn record_event(&self, _: u64, _: Event) -> Result<(), Fault> {
        Ok(())
    }

    fn report_wait(&self, notice: WaitNotice) {
        self.0.lock().expect("no panic in a sink").push(notice);
    }
}

/// Covers silence before the first byte and in the middle of a response.
#[tokio::test]
async fn silence_is_reported_at_growing_intervals() {
    const STALLED_RESPONSE: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\ndata: ";
    let mut policy = proctor_gateway::RetryPolicy::shipped().expect("valid");
    (policy.notice_seconds, policy.silent_attempts) = (0.02, 1);
    (policy.idle_seconds, policy.attempt_seconds) = (0.5, 0.5);
    let quick = Gateway::with_policy(proctor_gateway::PriceTable::default(), policy)
        .expect("a gateway")
        .with_key_lookup(|_| Some("sk-test-0123456789".into()));
    let (silent, _) = start_raw_endpoint(&[""]).await;
    // The head and a chunk arrive. After that, the connection stays open, but nothing more arrives.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let stalled = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut vec![0; 65_536]).await;
            let _ = stream.write_all(STALLED_RESPONSE.as_bytes()).await;
            held.push(stream);
        }
    });
    for url in [silent, stalled] {
        let sink = Arc::new(WaitLog::default());
        let reported = Arc::clone(&sink);
        let trial = quick.open(&model(&url), &Budget::default(), sink).expect("usable");
        trial.ask(&user_request("hi")).await.expect_err("silence");
        let reported = reported.0.lock().expect("no panic in a sink").clone();
        let silences: Vec<_> = reported
            .iter()
            .filter_map(|waiting| match waiting {
                WaitNotice::Silent { model, elapsed: so_far } => {
                    Some((model.as_str(), so_far.as_millis()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(silences[..3], [("priced", 20), ("priced", 40), ("priced", 80)], "{reported:?}");
    }
}

#[tokio::test]
async fn retry_reports_its_reason_and_number() {
    let (url, _) = start_raw_endpoint(&[BUSY_RESPONSE, BUSY_RESPONSE, OK_RESPONSE]).await;
    let wait_log = Arc::new(WaitLog::default());
    let mut policy = proctor_gateway::RetryPolicy::shipped().expect("valid");
    policy.attempts = 8;
    (policy.first_seconds, policy.longest_seconds) = (2.0, 2.0);
    let gateway = Gateway::with_policy(proctor_gateway::PriceTable::default(), policy)
        .expect("a gateway")
        .with_key_lookup(|_| Some("sk-test-0123456789".into()));
    let trial = gateway.open(&model(&url), &Budget::default(), wait_log.clone()).expect("usable");
    trial.ask(&user_request("hi")).await.expect("an answer at last");
    let reported = wait_log.0.lock().expect("no panic").clone();
    for (waiting, number) in reported.iter().zip(1..) {
        let WaitNotice::BackOff { attempt, max_attempts: attempts, reason: why, pause } = waiting
        else {
            panic!("{waiting:?}")
        };
        assert_eq!((*attempt, *attempts, why.as_str()), (number, 8, "503 overloaded, sorry"));
        assert!(*pause >= Duration::from_secs(1));
    }
    assert_eq!(reported.len(), 2);
}
