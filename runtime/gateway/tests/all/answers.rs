//! Tests the content of a response (usage, vendor fields, calls, refusals), and that the gateway
//! sends it back to the endpoint unchanged.

use crate::common::{Bench, user_request};
use proctor_types::{Api, Budget, Message, ModelRequest, ToolSpec};
use serde_json::json;

#[tokio::test]
async fn vendor_fields_and_malformed_calls_are_sent_back_unchanged() {
    let script = r#"
[[conversation]]
[[conversation.turn]]
reasoning_content = "First think."
extra = { thinking_blocks = [{ signature = "abc" }] }
tool_calls = [
    { name = "shell", arguments = { command = "ls" } },
    { name = "shell", arguments = '{"command": ' },
]
[[conversation.turn]]
content = "Done."
"#;
    let bench = Bench::new(script, Budget::default()).await;
    let tool = ToolSpec {
        name: "shell".into(),
        description: "Runs a command.".into(),
        parameters: json!({"type": "object"}),
    };
    let mut asked = ModelRequest { tools: vec![tool], ..user_request("go") };
    let answer = bench.trial.ask(&asked).await.expect("an answer");
    assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
    assert_eq!(answer.tool_calls.len(), 2);
    assert_eq!(answer.tool_calls[0].arguments, r#"{"command":"ls"}"#);
    assert_eq!(answer.tool_calls[1].arguments, r#"{"command": "#);
    assert_eq!(answer.extra["reasoning_content"], "First think.");

    asked.messages.push(answer.to_message());
    for call in &answer.tool_calls {
        let content = "done".into();
        asked.messages.push(Message::Tool { call_id: call.id.clone(), content });
    }
    // The script is strict: it rejects an inconsistent conversation.
    let second = bench.trial.ask(&asked).await.expect("an answer");
    assert_eq!(second.content, "Done.");
    // The gateway repeated the request with the broken call without streaming, so this is the third
    // request.
    let back = &bench.server.requests()[2].body["messages"][1];
    assert_eq!(back["reasoning_content"], "First think.");
    assert_eq!(back["thinking_blocks"], json!([{"signature": "abc"}]));
    assert_eq!(back["tool_calls"][1]["function"]["arguments"], r#"{"command": "#);
    assert_eq!(back.get("refusal"), None, "a null field is not sent back");
}

#[tokio::test]
async fn usage_comes_from_the_endpoint() {
    let script = "[default]\ncontent = 'x'\n\
        usage = { input = 100, output = 20, cached = 80, reasoning = 7 }";
    let bench = Bench::new(script, Budget::default()).await;
    let usage = bench.trial.ask(&user_request("hi")).await.expect("an answer").usage;
    assert_eq!((usage.input, usage.output, usage.cached, usage.reasoning), (100, 20, 80, 7));
    assert!(!usage.estimated);
    assert_eq!(bench.attempts()[0].usage, Some(usage));
}

#[tokio::test]
async fn missing_usage_is_estimated_and_labelled() {
    let script = "[default]\ncontent = 'hello world'\nusage = false";
    let budget = Budget { output_tokens: Some(2), ..Budget::default() };
    let bench = Bench::new(script, budget).await;
    let answer = bench.trial.ask(&user_request("hello world")).await.expect("an answer");
    assert!(answer.usage.estimated);
    assert_eq!((answer.usage.input, answer.usage.output), (9, 2));
    assert!(bench.trial.reached_limit().is_some(), "an estimate counts against the limit");
}

#[tokio::test]
async fn parameters_and_vendor_fields_reach_the_endpoint() {
    let bench = Bench::with_model("default = { content = 'ok' }", Budget::default(), |model| {
        model.temperature = Some(0.2);
        model.max_output_tokens = Some(64);
        model.extra_body.insert("provider".into(), json!({"order": ["a"]}));
        model.extra_body.insert("temperature".into(), json!(0.7));
    })
    .await;
    bench.trial.ask(&user_request("hi")).await.expect("an answer");
    let sent = &bench.server.requests()[0].body;
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(64), &json!(0.7)));
    assert_eq!(sent["provider"], json!({"order": ["a"]}));
    // Streaming shows progress, but then usage must be requested.
    assert_eq!(sent["stream"], true);
    assert_eq!(sent["stream_options"], json!({"include_usage": true}));
}

#[tokio::test]
async fn refusal_is_a_response_marked_as_refused() {
    let bench = Bench::new("[default]\nrefusal = 'I will not.'", Budget::default()).await;
    let answer = bench.trial.ask(&user_request("hi")).await.expect("an answer");
    assert!(answer.refused);
    assert_eq!(answer.extra["refusal"], "I will not.");
    assert_eq!(bench.trial.spending().steps, 1);
}

#[tokio::test]
async fn in_process_requests_work_with_endpoints_of_every_format() {
    let script = r#"
[[conversation]]
[[conversation.turn]]
content = "I look."
reasoning_content = "First think."
tool_calls = [{ name = "shell", arguments = { command = "ls" } }]
usage = { input = 100, output = 20, cached = 80 }
[[conversation.turn]]
content = "Done."
"#;
    for api in [Api::Responses, Api::Messages, Api::Gemini] {
        let bench = Bench::with_model(script, Budget::default(), |model| model.api = api).await;
        let tool = ToolSpec {
            name: "shell".into(),
            description: "Runs a command.".into(),
            parameters: json!({"type": "object"}),
        };
        let mut asked = ModelRequest { tools: vec![tool], ..user_request("go") };
        let answer = bench.trial.ask(&asked).await.expect("an answer");
        assert_eq!(answer.content, "I look.", "{api}");
        assert_eq!(answer.tool_calls[0].arguments, r#"{"command":"ls"}"#);
        assert_eq!(answer.extra["reasoning_content"], "First think.");
        assert_eq!((answer.usage.input, answer.usage.output, answer.usage.cached), (100, 20, 80));
        asked.messages.push(answer.to_message());
        let call_id = answer.tool_calls[0].id.clone();
        asked.messages.push(Message::Tool { call_id, content: "done".into() });
        // The script rejects a signature that was not returned unchanged.
        let answer = bench.trial.ask(&asked).await.expect("a consistent conversation");
        assert_eq!(answer.content, "Done.", "{api}");
    }
}
