//! Tests endpoint errors that affect the cost or the tools: uncounted output, dropped tools, and
//! calls returned as text. Also tests that the responder is recorded.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::sync::Arc;

use crate::{
    common::{Bench, RecordingSink, gateway, model, user_request},
    server::ServerBench,
};
use proctor_gateway::{ExchangeSink, Gateway, RequestError, TrialGateway, tokens};
use proctor_types::{
    Api, Budget, BudgetKind, Event, Fault, FaultCause, Message, ModelRequest, ModelSpec, ToolSpec,
};
use serde_json::json;

/// A call in Hermes format, as a server without a parser returns it.
const CALL_AS_TEXT: &str =
    "<tool_call>\\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\\n</tool_call>";

const APIS: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

fn shell() -> ToolSpec {
    let words =
        "Runs a command in the sandbox and returns what it prints, in the order of its coming. ";
    ToolSpec {
        name: "shell".into(),
        description: words.repeat(20),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    }
}

fn request_with_tools(text: &str) -> ModelRequest {
    ModelRequest { tools: vec![shell()], ..user_request(text) }
}

fn with_api(api: Api) -> impl FnOnce(&mut ModelSpec) {
    move |model| {
        model.api = api;
        model.max_output_tokens = Some(500);
    }
}

fn open_trial(gateway: &Gateway, model: &ModelSpec) -> TrialGateway {
    let sink: Arc<dyn ExchangeSink> = Arc::new(RecordingSink::default());
    gateway.open(model, &Budget::default(), sink).expect("a usable model")
}

fn expect_fault(error: RequestError) -> Fault {
    match error {
        RequestError::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn uncounted_output_reaches_the_limit() {
    let text = "one two three four ".repeat(105);
    for (api, reported) in APIS.into_iter().flat_map(|api| [0, 1].map(|reported| (api, reported))) {
        let script = format!(
            "[default]\ncontent = '{text}'\nusage = {{ input = 100, output = {reported} }}"
        );
        let budget = Budget { output_tokens: Some(300), ..Budget::default() };
        let bench = Bench::with_model(&script, budget, with_api(api)).await;
        let answer = bench.trial.ask(&user_request("hi")).await.expect("the first answer");
        assert!(answer.usage.estimated && answer.usage.output > 300, "{api}: {:?}", answer.usage);
        assert_eq!(answer.usage.input, 100, "{api}");
        let refused = bench.trial.ask(&user_request("hi")).await.expect_err("the limit");
        assert_eq!(refused, RequestError::Budget(BudgetKind::OutputTokens), "{api}");
        let spent = bench.trial.spending();
        assert!(spent.estimated && spent.output_tokens == answer.usage.output, "{api}: {spent:?}");
    }
}

#[tokio::test]
async fn call_as_text_halts_requests_with_tools_and_names_the_setting() {
    for api in APIS {
        let script = format!("[default]\ncontent = \"{}\"\n", CALL_AS_TEXT.replace('"', "\\\""));
        let bench = Bench::with_model(&script, Budget::default(), with_api(api)).await;
        let said =
            expect_fault(bench.trial.ask(&request_with_tools("go")).await.expect_err("no parser"));
        assert!(
            said.cause == FaultCause::Refused && said.what.contains("`shell` as text"),
            "{said}"
        );
        let hint = said.hint.as_deref().unwrap_or_default();
        for part in ["--tool-call-parser hermes", "--jinja", "scaffold = \"bash\""] {
            assert!(hint.contains(part), "{api}: {hint}");
        }
        // The response is billed and recorded with the reason, but does not count as a step.
        let attempts = bench.attempts();
        assert!(attempts[0].usage.is_some() && attempts[0].error.is_some(), "{attempts:?}");
        assert_eq!(bench.trial.spending().steps, 0, "{api}");
        // Only the first request is sent, and only requests with tools are halted.
        bench.trial.ask(&request_with_tools("again")).await.expect_err("halted");
        assert_eq!(bench.server.requests().len(), 1, "{api}");
        bench.trial.ask(&user_request("plain")).await.expect("an answer without tools");
    }
}

#[tokio::test]
async fn call_as_text_after_a_real_call_is_requested_again_without_a_step() {
    let script = format!(
        "[[conversation]]\n[[conversation.turn]]\ntool_calls = [{{ name = \"shell\", arguments = {{ command = \"ls\" }} }}]\n\
         [[conversation.turn]]\ncontent = \"{}\"\n",
        CALL_AS_TEXT.replace('"', "\\\"")
    );
    let bench = Bench::new(&script, Budget::default()).await;
    let mut asked = request_with_tools("go");
    let answer = bench.trial.ask(&asked).await.expect("a call");
    asked.messages.push(answer.to_message());
    let call_id = answer.tool_calls[0].id.clone();
    asked.messages.push(Message::Tool { call_id, content: "a file".into() });
    let said = expect_fault(bench.trial.ask(&asked).await.expect_err("an unparsed call"));
    assert!(said.what.contains("`shell` as text"), "{said}");
    assert!(said.hint.is_some_and(|hint| hint.contains("--tool-call-parser hermes")));
    assert_eq!(bench.trial.spending().steps, 1);
    // The second attempt is not streamed, and it does not halt other trials.
    let streams: Vec<_> =
        bench.server.requests().iter().map(|request| request.body["stream"] == true).collect();
    assert_eq!(streams[..3], [true, true, false]);
    bench.trial.ask(&request_with_tools("go")).await.expect("a call");
}

#[tokio::test]
async fn dropped_tools_are_detected_by_the_prompt_count() {
    let text = "Repair the parser of dates. ".repeat(40);
    let asked = request_with_tools(&text);
    let alone = tokens::count_messages(&asked.messages);
    let schema = tokens::count(&asked.tools[0].description);
    assert!(schema > 300, "{schema}");
    for (reported, dropped) in
        [(alone, true), (alone + 20, true), (alone + schema, false), (7, false)]
    {
        let script = format!(
            "[default]\ncontent = 'I cannot.'\nusage = {{ input = {reported}, output = 5 }}"
        );
        let bench = Bench::new(&script, Budget::default()).await;
        match bench.trial.ask(&asked).await {
            Ok(_) => assert!(!dropped, "{reported} of {alone} and {schema}"),
            Err(error) => {
                let said = expect_fault(error);
                assert!(dropped && said.what.contains("dropped the tools"), "{reported}: {said}");
                let hint = said.hint.as_deref().unwrap_or_default();
                assert!(hint.contains("--jinja") && hint.contains("scaffold"), "{hint}");
            }
        }
    }
    // The scripted model's count includes the tools.
    let bench = Bench::new("[default]\ncontent = 'I cannot.'", Budget::default()).await;
    bench.trial.ask(&asked).await.expect("a weak model is not a fault");
}

#[tokio::test]
async fn tool_check_can_be_turned_off() {
    let script = format!("[default]\ncontent = \"{}\"\n", CALL_AS_TEXT.replace('"', "\\\""));
    let off = |model: &mut ModelSpec| model.tool_check = Some(false);
    let bench = Bench::with_model(&script, Budget::default(), off).await;
    let answer = bench.trial.ask(&request_with_tools("go")).await.expect("an answer");
    assert!(answer.content.contains("<tool_call>"));
}

#[tokio::test]
async fn halt_applies_to_every_trial_of_the_run() {
    let script = format!("[default]\ncontent = \"{}\"\n", CALL_AS_TEXT.replace('"', "\\\""));
    let script = fake_llm::Script::parse(&script).expect("a valid script");
    let server = fake_llm::FakeLlm::start(script).await.expect("a free port");
    let (gateway, spec) = (gateway(), model(&server.base_url()));
    open_trial(&gateway, &spec).ask(&request_with_tools("go")).await.expect_err("no parser");
    open_trial(&gateway, &spec).ask(&request_with_tools("go")).await.expect_err("halted");
    assert_eq!(server.requests().len(), 1);
    assert!(
        gateway.halt_reason(&spec, true).is_some() && gateway.halt_reason(&spec, false).is_none()
    );
}

/// An HTTP client that has already received part of the stream receives an error instead of the
/// end.
#[tokio::test]
async fn http_client_never_receives_the_end_of_a_call_as_text() {
    let script = format!("[default]\ncontent = \"{}\"\n", CALL_AS_TEXT.replace('"', "\\\""));
    for stream in [false, true] {
        let served = ServerBench::new(&script, Budget::default()).await;
        let tool = json!({"type": "function", "function": {"name": "shell", "parameters": {}}});
        let body = json!({"model": "m", "stream": stream, "tools": [tool],
            "messages": [{"role": "user", "content": "go"}]});
        // A stream that was cut off has no complete body.
        let sent = served.post("/v1/chat/completions", body.to_string()).send().await;
        let reported = match sent {
            Ok(response) => response.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        assert!(
            !reported.contains("[DONE]") && !reported.contains("\"finish_reason\":\"stop\""),
            "{reported}"
        );
        assert_eq!(served.bench.trial.spending().steps, 0);
        let (status, _) = served.chat(body).await;
        assert_ne!(status, 200, "the trial is over");
    }
}

#[tokio::test]
async fn record_names_the_responder() {
    for api in APIS {
        let bench =
            Bench::with_model("[default]\ncontent = 'x'", Budget::default(), with_api(api)).await;
        bench.trial.ask(&user_request("hi")).await.expect("an answer");
        let events = bench.sink.events();
        let responder = events.iter().find_map(|(_, event)| match event {
            Event::ModelAttempted { responder, .. } => responder.clone(),
            _ => None,
        });
        let responder = responder.unwrap_or_default();
        assert_eq!(responder.model.as_deref(), Some("priced"), "{api}");
    }
}
