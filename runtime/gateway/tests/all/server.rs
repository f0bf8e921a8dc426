//! Tests the HTTP server with a raw client: tokens, rejected requests, unchanged bytes, and clients
//! that disconnect.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::time::Duration;

use crate::common::{Bench, KEY};
use proctor_gateway::{GatewayServer, ListenerHandle, RequestError, RequestRules};
use proctor_types::{Api, Budget, BudgetKind, Event, FieldLossKind};
use serde_json::{Value, json};

const SCRIPT: &str = r#"
[[conversation]]
when = "slow"
[[conversation.turn]]
content = "one piece after another, in many chunks of a stream"
chunk_delay_seconds = 0.05
usage = { input = 10, output = 5, cached = 4 }

[[conversation]]
when = "flaky"
[[conversation.turn]]
content = "At last."
fault = [{ kind = "status", status = 503 }, { kind = "drop" }]

[[conversation]]
when = "refused"
[[conversation.turn]]
fault = [{ kind = "status", status = 400, times = 0, body = '{"error":{"message":"sk-test-0123456789 is no key","code":"context_length_exceeded"}}' }]

[default]
content = "Grüße aus dem Skript."
reasoning_content = "First look."
tool_calls = [{ name = "shell", arguments = { command = "ls" } }]
usage = { input = 10, output = 5, cached = 4 }
"#;

pub struct ServerBench {
    pub bench: Bench,
    pub server: GatewayServer,
    pub listener: ListenerHandle,
    pub http: reqwest::Client,
}

impl ServerBench {
    pub async fn new(script: &str, budget: Budget) -> Self {
        let bench = Bench::new(script, budget).await;
        let server =
            GatewayServer::new(bench.trial.clone(), RequestRules::default()).expect("a server");
        let listening = server.listen().await.expect("a free port");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { bench, server, listener: listening, http }
    }

    pub fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.listener.url());
        self.http.post(url).bearer_auth(self.server.token()).body(body)
    }

    pub async fn chat(&self, body: Value) -> (u16, String) {
        let sent = self.post("/v1/chat/completions", body.to_string()).send().await;
        let response = sent.expect("a response");
        (response.status().as_u16(), response.text().await.expect("a whole body"))
    }
}

fn user_body(text: &str) -> Value {
    json!({"model": "asked", "messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn server_rejects_other_keys_in_each_apis_format() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    for (path, kind) in [
        ("/v1/chat/completions", "/error/type"),
        ("/v1/responses", "/error/type"),
        ("/v1/messages", "/error/type"),
        ("/v1/messages/count_tokens", "/error/type"),
        ("/v1beta/models/m:generateContent", "/error/status"),
    ] {
        for key in ["", "wrong", KEY] {
            let url = format!("{}{path}", served.listener.url());
            let sent = served.http.post(url).bearer_auth(key).body("{}").send().await;
            let response = sent.expect("a response");
            assert_eq!(response.status(), 401, "{path}");
            let body: Value =
                serde_json::from_str(&response.text().await.expect("a body")).expect("JSON");
            let received = body.pointer(kind).and_then(Value::as_str).unwrap_or_default();
            assert!(["authentication_error", "UNAUTHENTICATED"].contains(&received), "{body}");
        }
    }
    assert!(served.bench.server.requests().is_empty(), "no request was sent");
}

#[tokio::test]
async fn server_forwards_the_same_format_unchanged_except_the_model_name() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    let body = "{ \"messages\" : [ {\"role\":\"user\",\"content\":\"gr\\u00fc\\u00dfe\"} ],\n \
        \"temperature\": 1.0e0, \"model\" :\"asked\", \"x_vendor\": {\"b\":1,  \"a\":2} }";
    let sent = served.post("/v1/chat/completions", body).header("x-trace", "t").send().await;
    let response = sent.expect("a response");
    assert_eq!(response.status(), 200);
    let given = response.bytes().await.expect("a body");
    let attempts = served.bench.attempts();
    assert_eq!(attempts.len(), 1);
    let sent = String::from_utf8(attempts[0].request_body.to_vec()).expect("text");
    assert_eq!(sent, body.replace("\"asked\"", "\"priced\""));
    assert_eq!(given, attempts[0].response_body);
    let record = &served.bench.served_requests()[0];
    assert_eq!((&record.request[..], &record.response), (body.as_bytes(), &given));
    assert!(record.is_delivered && record.losses.is_empty());
    let answer = record.model_response.as_ref().expect("an answer");
    assert_eq!(answer.content, "Grüße aus dem Skript.");
    assert_eq!(answer.tool_calls[0].arguments, r#"{"command":"ls"}"#);
    assert_eq!(answer.extra["reasoning_content"], "First look.");
    assert_eq!((answer.usage.input, answer.usage.cached), (10, 4));
    assert!((answer.cost_usd.expect("a price") - 0.018).abs() < 1e-12);
    assert_eq!(served.bench.trial.spending().steps, 1);
    assert_eq!(served.bench.server.requests()[0].authorization, Some(format!("Bearer {KEY}")));
}

#[tokio::test]
async fn server_forwards_streams_unchanged_without_unrequested_usage() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    for asks in [true, false] {
        let mut body = user_body("hi");
        body["stream"] = true.into();
        if asks {
            body["stream_options"] = json!({"include_usage": true});
        }
        let (status, text) = served.chat(body).await;
        assert_eq!(status, 200);
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        let attempt = served.bench.attempts().pop().expect("an attempt");
        let came = String::from_utf8(attempt.response_body.to_vec()).expect("text");
        let usage = came.split_inclusive("\n\n").find(|event| event.contains("\"choices\":[]"));
        let usage = usage.expect("the endpoint was asked for usage");
        assert_eq!(text, if asks { came.clone() } else { came.replace(usage, "") });
        assert_eq!(attempt.usage.expect("usage").input, 10);
    }
    let spent = served.bench.trial.spending();
    assert_eq!((spent.steps, spent.input_tokens, spent.cached_tokens), (2, 20, 8));
}

#[tokio::test]
async fn exhausted_budget_returns_402_and_ends_the_trial() {
    let served = ServerBench::new(SCRIPT, Budget { steps: Some(1), ..Budget::default() }).await;
    assert_eq!(served.chat(user_body("hi")).await.0, 200);
    for (path, body, at) in [
        ("/v1/chat/completions", user_body("hi"), "/error/type"),
        ("/chat/completions", json!({"messages": [], "stream": true}), "/error/type"),
    ] {
        let sent = served.post(path, body.to_string()).send().await.expect("a response");
        assert_eq!(sent.status(), 402, "{path}");
        assert_eq!(sent.headers()["content-type"], "application/json");
        let received: Value =
            serde_json::from_str(&sent.text().await.expect("a body")).expect("JSON");
        assert_eq!(received.pointer(at), Some(&"insufficient_quota".into()), "{received}");
    }
    assert_eq!(served.server.wait_until_stopped().await, RequestError::Budget(BudgetKind::Steps));
    assert_eq!(served.bench.server.requests().len(), 1);
    let statuses: Vec<_> = served.bench.served_requests().iter().map(|one| one.status).collect();
    assert_eq!(statuses, [200, 402, 402], "refusals are recorded");
}

#[tokio::test]
async fn sixteen_connections_get_exactly_the_step_limit() {
    let served = ServerBench::new(SCRIPT, Budget { steps: Some(20), ..Budget::default() }).await;
    let served = std::sync::Arc::new(served);
    let hammers: Vec<_> = (0..16)
        .map(|_| {
            let served = served.clone();
            tokio::spawn(async move {
                let mut came = 0;
                loop {
                    match served.chat(user_body("hi")).await.0 {
                        200 => came += 1,
                        402 => return came,
                        other => panic!("status {other}"),
                    }
                }
            })
        })
        .collect();
    let mut came = 0;
    for hammer in hammers {
        came += hammer.await.expect("no panic");
    }
    assert_eq!((came, served.bench.server.requests().len()), (20, 20));
}

#[tokio::test]
async fn server_retries_endpoint_failures_itself() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    for stream in [false, true] {
        let text = if stream { "flaky stream" } else { "flaky" };
        let mut body = user_body(text);
        body["stream"] = stream.into();
        let (status, received) = served.chat(body).await;
        assert_eq!(status, 200, "{received}");
        assert!(received.contains("At last") || stream, "{received}");
    }
    let attempts = [(Some(503), true), (None, true), (Some(200), false)];
    assert_eq!(served.bench.outcomes(), [attempts, attempts].concat());
    assert_eq!(served.bench.trial.spending().steps, 2);
}

#[tokio::test]
async fn server_forwards_endpoint_rejections_without_the_key() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    let (status, received) = served.chat(user_body("refused")).await;
    assert_eq!(status, 400);
    let wanted = r#"{"error":{"message":"[key] is no key","code":"context_length_exceeded"}}"#;
    assert_eq!(received, wanted);
    assert_eq!(served.bench.trial.spending().steps, 0);
}

#[tokio::test]
async fn disconnected_client_is_charged_without_a_step() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    let mut body = user_body("slow");
    body["stream"] = true.into();
    let sent = served.post("/v1/chat/completions", body.to_string()).send().await;
    let mut response = sent.expect("a response");
    response.chunk().await.expect("a piece").expect("not the end");
    drop(response);
    served.server.close().await;
    let spent = served.bench.trial.spending();
    assert_eq!((spent.steps, spent.input_tokens, spent.output_tokens), (0, 10, 5));
    assert!(!spent.estimated, "the stream was read to its end");
    let record = served.bench.served_requests().pop().expect("a record");
    assert!(!record.is_delivered);
    assert_eq!(record.model_response.expect("a complete response").content.len(), 51);
    // Requests after the close are refused.
    assert_eq!(served.chat(user_body("hi")).await.0, 402);
}

#[tokio::test]
async fn server_streams_piece_by_piece() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    let mut body = user_body("slow");
    body["stream"] = true.into();
    let begun = std::time::Instant::now();
    let sent = served.post("/v1/chat/completions", body.to_string()).send().await;
    let mut response = sent.expect("a response");
    response.chunk().await.expect("a piece").expect("not the end");
    let first = begun.elapsed();
    while response.chunk().await.expect("a piece").is_some() {}
    let all = begun.elapsed();
    assert!(all >= Duration::from_millis(250) && first < all / 2, "{first:?} of {all:?}");
}

#[tokio::test]
async fn server_withholds_and_records_provider_tools() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    let mut body = user_body("hi");
    body["web_search_options"] = json!({"search_context_size": "low"});
    assert_eq!(served.chat(body).await.0, 200);
    assert_eq!(served.bench.server.requests()[0].body.get("web_search_options"), None);
    let losses = &served.bench.served_requests()[0].losses;
    assert_eq!(losses.len(), 1);
    assert_eq!(
        (losses[0].kind, losses[0].field.as_str()),
        (FieldLossKind::Withheld, "web_search_options")
    );
}

#[tokio::test]
async fn key_never_appears_in_responses_or_records() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    let mut received = String::new();
    for text in ["hi", "refused", "flaky"] {
        let sent = served.post("/v1/chat/completions", user_body(text).to_string()).send().await;
        let response = sent.expect("a response");
        received += &format!("{:?}", response.headers());
        received += &response.text().await.expect("a body");
    }
    received += &format!(
        "{:?} {:?} {:?}",
        served.bench.served_requests(),
        served.bench.attempts(),
        served.server
    );
    assert!(!received.contains(KEY) && !received.contains(served.server.token()), "{received}");
}

#[tokio::test]
async fn server_lists_models_and_counts_tokens_without_the_model() {
    let served = ServerBench::new(SCRIPT, Budget { steps: Some(0), ..Budget::default() }).await;
    let get = |path: &str, header: &'static str| {
        let url = format!("{}{path}", served.listener.url());
        served.http.get(url).header(header, served.server.token()).send()
    };
    for (path, header, at) in [
        ("/v1/models", "authorization", "/data/0/id"),
        ("/v1/models", "x-api-key", "/data/0/display_name"),
        ("/v1beta/models", "x-goog-api-key", "/models/0/name"),
    ] {
        let value = format!("Bearer {}", served.server.token());
        let response = if header == "authorization" {
            let url = format!("{}{path}", served.listener.url());
            served.http.get(url).header(header, value).send().await
        } else {
            get(path, header).await
        };
        let body = response.expect("a response").text().await.expect("a body");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let received = body.pointer(at).and_then(Value::as_str).unwrap_or_default();
        assert!(received.ends_with("priced"), "{body}");
    }
    let body = json!({"messages": [{"role": "user", "content": "hello world"}]}).to_string();
    let sent = served.post("/v1/messages/count_tokens", body).send().await.expect("a count");
    assert_eq!(sent.text().await.expect("a body"), r#"{"input_tokens":3}"#);
    assert!(served.bench.server.requests().is_empty());
    assert_eq!(served.bench.attempts().len(), 0);
}

#[tokio::test]
async fn server_rejects_unreadable_requests_before_they_cost_anything() {
    let served = ServerBench::new(SCRIPT, Budget::default()).await;
    for body in ["", "{", "[]", "{\"n\": 2, \"messages\": []}"] {
        let sent = served.post("/v1/chat/completions", body).send().await.expect("a response");
        assert_eq!(sent.status(), 400, "{body}");
    }
    assert_eq!(served.bench.served_requests().len(), 4);
    assert_eq!(served.bench.served_requests()[0].client, Api::Chat);
    assert!(served.bench.server.requests().is_empty());
}

#[tokio::test]
async fn aborted_stream_is_charged_and_not_retried() {
    let script = "[default]\ncontent = 'one piece after another, and then no more of it'\n\
        fault = [{ kind = 'truncate', times = 0 }]";
    let served = ServerBench::new(script, Budget::default()).await;
    let mut body = user_body("hi");
    body["stream"] = true.into();
    let (status, received) = served.chat(body).await;
    assert_eq!(status, 200, "the head was already sent");
    assert!(received.contains("aborted") && !received.contains("[DONE]"), "{received}");
    assert_eq!(served.bench.outcomes(), [(Some(200), true)], "one attempt");
    let spent = served.bench.trial.spending();
    assert!(spent.steps == 0 && spent.output_tokens > 0 && spent.estimated, "{spent:?}");
    // If the client exits now, the endpoint is the cause.
    match served.server.last_rejection() {
        Some(RequestError::Fault(fault)) => assert!(fault.what.contains("aborted"), "{fault}"),
        other => panic!("{other:?}"),
    }
}

/// A client that compacts its conversation sends tool results only in a side request.
#[tokio::test]
async fn results_returned_in_a_side_request_are_recorded_once() {
    let bench = Bench::new(SCRIPT, Budget::default()).await;
    let rules = json!({"rules": [{"class": "side", "tools": false}]});
    let rules: RequestRules = serde_json::from_value(rules).expect("rules");
    let server = GatewayServer::new(bench.trial.clone(), rules).expect("a server");
    let listening = server.listen().await.expect("a free port");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let served = ServerBench { bench, server, listener: listening, http };
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "shell", "arguments": "{\"command\":\"ls\"}"}});
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        {"role": "user", "content": "Summarise what happened."},
    ]});
    for _ in 0..2 {
        assert_eq!(served.chat(body.clone()).await.0, 200);
    }
    let events = served.bench.sink.events();
    let shown = events.iter().filter_map(|(_, event)| match event {
        Event::ToolReturned { shown, .. } => Some(shown.as_str()),
        _ => None,
    });
    assert_eq!(shown.collect::<Vec<_>>(), ["a.py"]);
    assert_eq!(served.bench.trial.spending().steps, 0);
}
