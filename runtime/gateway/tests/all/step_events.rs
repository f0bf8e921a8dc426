//! Tests the order of a request's events, and when a step ends.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use proctor_gateway::{ExchangeSink, GatewayServer, RequestRules};
use proctor_types::{Budget, Event, Fault};
use serde_json::json;

use crate::common::{Bench, gateway, model, start_fake_llm, user_request};

/// Checks the order of a request's events: first the events under the current step, then the event
/// under the request's own step.
#[tokio::test]
async fn settle_assigns_the_step_and_records_attempt_times() {
    let script = "[default]\ncontent = 'one piece after another'\nchunk_delay_seconds = 0.05\n\
        fault = [{ kind = 'status', status = 503 }]";
    let bench = Bench::new(script, Budget::default()).await;
    for _ in 0..2 {
        bench.trial.ask(&user_request("hi")).await.expect("an answer");
    }
    let kinds: Vec<_> = bench
        .sink
        .events()
        .into_iter()
        .map(|(step, event)| {
            let kind = serde_json::to_value(event).expect("JSON")["kind"].clone();
            (step, kind.as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let kinds: Vec<_> = kinds.iter().map(|(step, kind)| (*step, kind.as_str())).collect();
    let wanted = [
        (0, "model_asked"),
        (0, "model_attempted"),
        (0, "model_attempted"),
        (1, "model_answered"),
        (1, "model_asked"),
        (1, "model_attempted"),
        (2, "model_answered"),
    ];
    assert_eq!(kinds, wanted);
    let answered = &bench.attempts()[1];
    let first = answered.first_byte_seconds.expect("bytes came");
    assert!(first + 0.1 < answered.seconds, "{first} of {}", answered.seconds);
}

/// The previous step ends when the next main request arrives, over HTTP as well as in process. A
/// side request does not end a step.
#[tokio::test]
async fn main_request_ends_the_previous_step() {
    #[derive(Default)]
    struct StepLog(Mutex<Vec<&'static str>>);
    #[async_trait]
    impl ExchangeSink for StepLog {
        async fn store_body(&self, _: &[u8]) -> Result<String, Fault> {
            Ok(String::new())
        }

        async fn record_event(&self, _: u64, event: Event) -> Result<(), Fault> {
            if matches!(event, Event::ModelAnswered { .. }) {
                self.0.lock().expect("no panic").push("answered");
            }
            Ok(())
        }

        async fn on_step_end(&self) -> Result<(), Fault> {
            self.0.lock().expect("no panic").push("ends");
            Ok(())
        }
    }
    let fake = start_fake_llm("[default]\ncontent = 'x'").await;
    let ends = Arc::new(StepLog::default());
    let spec = model(&fake.base_url());
    let trial = gateway().open(&spec, &Budget::default(), ends.clone()).expect("usable");
    let trial = Arc::new(trial);
    let rules: RequestRules =
        serde_json::from_value(json!({"rules": [{"class": "side", "max_tokens_up_to": 16}]}))
            .expect("rules");
    let server = GatewayServer::new(trial.clone(), rules).expect("a server");
    let listening = server.listen().await.expect("a port");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for most in [100, 8, 100] {
        let body = json!({"model": "m", "max_tokens": most,
            "messages": [{"role": "user", "content": "x"}]});
        let url = format!("{}/v1/chat/completions", listening.url());
        let sent = http.post(url).bearer_auth(server.token()).body(body.to_string()).send().await;
        assert_eq!(sent.expect("a response").status(), 200);
    }
    trial.ask(&user_request("hi")).await.expect("an answer");
    server.close().await;
    let seen = ends.0.lock().expect("no panic").clone();
    assert_eq!(seen, ["ends", "answered", "ends", "answered", "ends", "answered"]);
}
