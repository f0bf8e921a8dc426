//! Tests an endpoint that repeats the key in responses with status 200. No client may receive the
//! key, and no record may contain it.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use crate::{
    common::{Bench, KEY, SHORT_KEY, user_request},
    server::ServerBench,
};
use proctor_gateway::{GatewayServer, RequestRules};
use proctor_types::{Api, Budget, ModelSpec};
use serde_json::{Value, json};

/// An endpoint's response that repeats the `Authorization` header.
const ECHO_SCRIPT: &str = r#"
[default]
content = "You sent Bearer sk-test-0123456789."
reasoning_content = "It is sk-test-0123456789"
tool_calls = [{ name = "shell", arguments = { command = "echo sk-test-0123456789 \\ \"sk-test-0123456789\"" } }]
usage = { input = 10, output = 5 }
"#;

const APIS: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

fn has_key(text: &str) -> bool {
    text.contains(KEY) || text.contains("0123456789") || text.contains(SHORT_KEY)
}

fn check_record(bench: &Bench) {
    assert!(bench.server.requests().iter().all(|seen| seen.authorization.is_some()));
    for attempt in bench.attempts() {
        assert_eq!(attempt.error, None);
        for body in [&attempt.request_body, &attempt.response_body] {
            assert!(!has_key(&String::from_utf8_lossy(body)), "{attempt:?}");
        }
    }
    for served in bench.served_requests() {
        assert!(!has_key(&String::from_utf8_lossy(&served.response)), "{served:?}");
        let answer = served.model_response.expect("an answer");
        assert!(!has_key(&format!("{answer:?}")), "{answer:?}");
    }
}

#[tokio::test]
async fn in_process_response_never_contains_the_key() {
    for api in APIS {
        let bench =
            Bench::with_model(ECHO_SCRIPT, Budget::default(), |model| model.api = api).await;
        let answer = bench.trial.ask(&user_request("hi")).await.expect("an answer");
        assert_eq!(answer.content, "You sent Bearer [key].", "{api}");
        let call: Value = serde_json::from_str(&answer.tool_calls[0].arguments).expect("JSON");
        assert_eq!(call, json!({"command": "echo [key] \\ \"[key]\""}), "{api}");
        assert!(!has_key(&format!("{answer:?}")), "{api}: {answer:?}");
        check_record(&bench);
    }
}

async fn serve_once(script: &str, api: Api, key_env: &str, stream: bool) -> (ServerBench, String) {
    let set = |model: &mut ModelSpec| (model.api, model.key_env) = (api, Some(key_env.into()));
    let bench = Bench::with_model(script, Budget::default(), set).await;
    let server =
        GatewayServer::new(bench.trial.clone(), RequestRules::default()).expect("a server");
    let listening = server.listen().await.expect("a free port");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let served = ServerBench { bench, server, listener: listening, http };
    let body = json!({"model": "m", "stream": stream,
        "messages": [{"role": "user", "content": "hi"}]});
    let (status, given) = served.chat(body).await;
    assert_eq!((status, served.bench.served_requests().len()), (200, 1), "{api}: {given}");
    (served, given)
}

#[tokio::test]
async fn http_client_never_receives_the_key() {
    for api in APIS {
        let (served, given) = serve_once(ECHO_SCRIPT, api, "TEST_KEY", false).await;
        assert!(!has_key(&given), "{api}: {given}");
        assert!(given.contains("Bearer [key]") && given.contains("echo [key]"), "{api}: {given}");
        check_record(&served.bench);
    }
}

/// The scripted model sends chunks of twelve bytes, so one of them contains the whole key.
const STREAM_SCRIPT: &str = r#"
[default]
content = "k3y-4711 seen"
reasoning_content = "k3y-4711 it is"
tool_calls = [{ name = "shell", arguments = { command = "k3y-4711" } }]
usage = { input = 10, output = 5 }
"#;

#[tokio::test]
async fn no_stream_event_contains_the_key() {
    for api in APIS {
        let (served, given) = serve_once(STREAM_SCRIPT, api, "SHORT_KEY", true).await;
        assert!(!has_key(&given), "{api}: {given}");
        assert!(given.contains("[key] see") && given.contains("[key]\\\"}"), "{api}: {given}");
        check_record(&served.bench);
    }
}

#[tokio::test]
async fn recorded_response_omits_a_key_split_across_events() {
    let split = STREAM_SCRIPT.replace("k3y-4711 seen", "the key is k3y-4711");
    for api in APIS {
        let (served, _) = serve_once(&split, api, "SHORT_KEY", true).await;
        let answer = served.bench.served_requests()[0].model_response.clone().expect("an answer");
        assert_eq!(answer.content, "the key is [key]", "{api}");
    }
}
