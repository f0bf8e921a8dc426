//! Tests for the server over real HTTP.

#![expect(clippy::expect_used, reason = "a failed step of a test is a failed test")]

use std::sync::Once;

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

async fn start_server() -> FakeLlm {
    static TLS: Once = Once::new();
    TLS.call_once(|| {
        rustls::crypto::ring::default_provider().install_default().expect("first provider");
    });
    let script = Script::parse(include_str!("../../check_script.toml")).expect("a valid script");
    FakeLlm::start(script).await.expect("a free port")
}

async fn post(server: &FakeLlm, body: Value) -> reqwest::Result<(u16, String)> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/chat/completions", server.base_url());
    let response = client.post(url).body(body.to_string()).send().await?;
    let status = response.status().as_u16();
    Ok((status, response.text().await?))
}

fn user_request(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn response_depends_only_on_the_request() {
    let server = start_server().await;
    let ask = json!({"messages": [
        {"role": "user", "content": "react"},
        {"role": "assistant", "content": "Ready."},
        {"role": "user", "content": "3 passed, 2 failed"},
    ]});
    let (first, second) = tokio::join!(post(&server, ask.clone()), post(&server, ask));
    let (first, second) = (first.expect("an answer"), second.expect("an answer"));
    assert_eq!(first, second);
    let answer: Value = serde_json::from_str(&first.1).expect("JSON");
    assert_eq!(answer["choices"][0]["message"]["content"], "I see failures.");
    let first_turn = post(&server, user_request("react")).await.expect("an answer").1;
    assert!(first_turn.contains("Ready."), "{first_turn}");
}

#[tokio::test]
async fn unknown_conversation_is_rejected() {
    let server = start_server().await;
    let (status, body) = post(&server, user_request("nobody wrote this")).await.expect("an answer");
    assert_eq!(status, 422);
    assert!(body.contains("the script has no response for turn 0"), "{body}");
}

#[tokio::test]
async fn faults_occur_in_order_and_then_stop() {
    let server = start_server().await;
    let torn = post(&server, user_request("torn")).await;
    assert!(torn.is_err(), "a truncated body must not be read as complete: {torn:?}");
    let (status, half) = post(&server, user_request("torn")).await.expect("a whole body");
    assert_eq!(status, 200);
    assert!(serde_json::from_str::<Value>(&half).is_err(), "{half}");
    let (_, page) = post(&server, user_request("torn")).await.expect("a whole body");
    assert!(page.starts_with("<html>"), "{page}");
    let (_, whole) = post(&server, user_request("torn")).await.expect("a whole body");
    assert!(whole.contains("At last."), "{whole}");
    // Faults are counted separately for another conversation.
    assert!(post(&server, user_request("torn, again")).await.is_err());
}

#[tokio::test]
async fn received_requests_can_be_inspected() {
    let server = start_server().await;
    post(&server, user_request("plain")).await.expect("an answer");
    let url = server.base_url().replace("/v1", "/requests");
    #[expect(clippy::disallowed_methods, reason = "a test on loopback")]
    let told = reqwest::get(url).await.expect("a list").text().await.expect("a body");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told[0]["body"]["messages"][0]["content"], "plain");
    assert_eq!(told[0]["answered"], "conversation 0 turn 0");
    assert_eq!(server.requests()[0].authorization, None);
}

#[tokio::test]
async fn dropping_the_server_stops_it() {
    let server = start_server().await;
    let address = server.base_url().replace("http://", "").replace("/v1", "");
    drop(server);
    for _ in 0..100 {
        if tokio::net::TcpStream::connect(&address).await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{address} still listens");
}

#[test]
fn script_error_names_an_unknown_key() {
    let error = Script::parse("[[rule]]\nwhn = 'x'\nanswer = {}").expect_err("a typo");
    assert!(error.to_string().contains("whn"), "{error}");
    let error = Script::parse("[default]\nfault = [{ kind = 'status' }]").expect_err("no status");
    assert!(error.to_string().contains("needs a `status` from 100"), "{error}");
}
