//! Tests every client format with every upstream format: parallel calls, reasoning, usage and
//! streams.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::path::Path;

use proctor_gateway::{GatewayServer, RequestRules};
use proctor_types::{Api, Budget, FieldLossKind};

use super::install;
use crate::common::{Bench, KEY};

const SCRIPT: &str = r#"
[[conversation]]
when = "matrix"
[[conversation.turn]]
reasoning_content = "First look, then think about what was seen."
usage = { input = 100, output = 20, cached = 80, reasoning = 7 }
tool_calls = [
    { name = "list", arguments = { path = "/a" } },
    { name = "list", arguments = { path = "/b" } },
]
[[conversation.turn]]
content = "Grüße: both are listed, said in more than one chunk."
usage = { input = 200, output = 9 }
"#;

const FORMATS: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

/// Tests every client with one upstream format.
async fn test_all_clients(upstream: Api, test_name: &str) {
    let Some(python) = install::installation_or_skip(test_name, install::python_with_clients())
    else {
        return;
    };
    let mut wrong = Vec::new();
    for client in FORMATS {
        // Two turns without streaming and two with. The next request is rejected.
        let budget = Budget { steps: Some(4), ..Budget::default() };
        let bench = Bench::with_model(SCRIPT, budget, |model| {
            model.api = upstream;
            if upstream == Api::Gemini {
                model.base_url = model.base_url.replace("/v1", "/v1beta");
            }
        })
        .await;
        let server =
            GatewayServer::new(bench.trial.clone(), RequestRules::default()).expect("a server");
        let listening = server.listen().await.expect("a free port");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/matrix.py");
        let output = tokio::process::Command::new(python)
            .arg(script)
            .args([&listening.url(), server.token(), client.name()])
            .env("NO_PROXY", "127.0.0.1")
            .kill_on_drop(true)
            .output()
            .await
            .expect("the interpreter starts");
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let tail: Vec<_> = stderr.lines().rev().take(6).collect();
            let tail: Vec<_> = tail.into_iter().rev().collect();
            wrong.push(format!("{client} over {upstream}: {}", tail.join("\n    ")));
            continue;
        }
        let served = bench.served_requests();
        let refused = served.iter().filter(|one| one.status == 402).count();
        assert_eq!(
            (served.len(), refused),
            (5, 1),
            "{client} over {upstream}: one request over the limit"
        );
        let spent = bench.trial.spending();
        assert_eq!((spent.steps, spent.input_tokens, spent.cached_tokens), (4, 600, 160));
        assert!(!spent.estimated, "{client} over {upstream}");
        for one in &served[..4] {
            let answer = one.model_response.as_ref().expect("an answer");
            assert!(
                one.is_delivered && (answer.tool_calls.len() == 2 || !answer.content.is_empty())
            );
            let lost =
                one.losses.iter().filter(|loss| loss.kind != FieldLossKind::Withheld).count();
            assert!(lost == 0 || client != upstream, "nothing is lost without translation");
        }
        assert!(!format!("{served:?} {:?}", bench.attempts()).contains(KEY));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_official_client_holds_a_conversation_over_chat() {
    test_all_clients(Api::Chat, "every_official_client_holds_a_conversation_over_chat").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_official_client_holds_a_conversation_over_responses() {
    test_all_clients(Api::Responses, "every_official_client_holds_a_conversation_over_responses")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_official_client_holds_a_conversation_over_messages() {
    test_all_clients(Api::Messages, "every_official_client_holds_a_conversation_over_messages")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_official_client_holds_a_conversation_over_gemini() {
    test_all_clients(Api::Gemini, "every_official_client_holds_a_conversation_over_gemini").await;
}
