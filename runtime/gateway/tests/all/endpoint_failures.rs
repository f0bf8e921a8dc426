//! Tests that problems with an endpoint do not count against the model. Each problem is reported
//! with its reason and detected only once per run.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use fake_llm::{FakeLlm, Script};
use proctor_gateway::{
    ExchangeSink, Gateway, GatewayServer, RequestError, RequestRules, TrialGateway, WaitNotice,
};
use proctor_types::{
    Budget, BudgetKind, Event, Fault, FaultCause, FaultLayer, Message, ModelRequest, ModelSpec,
    ToolSpec,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::common::{Bench, RecordingSink, gateway, model, user_request};

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

fn expect_fault(error: RequestError) -> Fault {
    match error {
        RequestError::Fault(fault) => fault,
        other => panic!("not a fault: {other:?}"),
    }
}

async fn start_fake_llm(text: &str) -> FakeLlm {
    FakeLlm::start(Script::parse(text).expect("a valid script")).await.expect("a free port")
}

fn open_trial(gateway: &Gateway, spec: &ModelSpec) -> TrialGateway {
    gateway
        .open(spec, &Budget::default(), Arc::new(RecordingSink::default()))
        .expect("a usable model")
}

fn request_with_tools(text: &str) -> ModelRequest {
    let tool = ToolSpec {
        name: "shell".into(),
        description: "Runs a command.".into(),
        parameters: json!({"type": "object"}),
    };
    ModelRequest { tools: vec![tool], ..user_request(text) }
}

/// Returns a conversation with `response_count` responses from the model.
fn conversation_with_responses(response_count: usize) -> ModelRequest {
    let mut talk = user_request("begin");
    for turn in 0..response_count {
        let content = format!("answer {turn}");
        let extra = serde_json::Map::new();
        talk.messages.push(Message::Assistant {
            content,
            tool_calls: Vec::new(),
            extra,
            native: None,
        });
        talk.messages.push(Message::User { content: "go on".into() });
    }
    talk
}

/// Starts an endpoint that sends raw bytes: the n-th connection receives the n-th text, and later
/// ones receive the last. An empty text means no response.
pub(crate) async fn start_raw_endpoint(
    texts: &'static [&'static str],
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 65_536];
            let _ = stream.read(&mut head).await;
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let text = texts[number.min(texts.len() - 1)];
            if text.is_empty() {
                held.push(stream);
                continue;
            }
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, count)
}

const OK_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
    {\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}";
const BUSY_RESPONSE: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"overloaded,\\n sorry\"}}";
const WEB_PAGE_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n\
    <!doctype html><html><head><title>Open WebUI</title></head><body></body></html>";

/// Runs a trial with a wall limit of one second against these responses, until the limit.
async fn run_to_wall_limit(texts: &'static [&'static str]) -> (TrialGateway, u64) {
    let (url, _) = start_raw_endpoint(texts).await;
    let budget = Budget { wall_seconds: Some(1.0), ..Budget::default() };
    let kept = Arc::new(RecordingSink::default());
    let trial = gateway().open(&model(&url), &budget, kept).expect("usable");
    loop {
        match trial.ask(&user_request("hi")).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(RequestError::Budget(BudgetKind::Wall)) => {
                let steps = trial.spending().steps;
                return (trial, steps);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn hang_until_the_wall_limit_is_an_endpoint_fault() {
    // The endpoint is silent from the first request on, or after two responses.
    for (texts, answers) in [(&[""][..], 0), (&[OK_RESPONSE, OK_RESPONSE, ""][..], 2)] {
        let (trial, steps) = run_to_wall_limit(texts).await;
        assert_eq!(steps, answers);
        let fault = trial.lost_time_fault(BudgetKind::Wall).expect("the endpoint's fault");
        assert_eq!(fault.layer, FaultLayer::Model);
        assert!(fault.what.contains("did not start"), "{fault}");
    }
    // If a model is merely slow to respond, the time counts against the model.
    let (trial, steps) = run_to_wall_limit(&[OK_RESPONSE]).await;
    assert!(steps > 3 && trial.lost_time_fault(BudgetKind::Wall).is_none());
}

#[tokio::test]
async fn request_dropped_at_the_limit_counts_as_silent() {
    let (url, _) = start_raw_endpoint(&[""]).await;
    let budget = Budget { wall_seconds: Some(0.5), ..Budget::default() };
    let kept = Arc::new(RecordingSink::default());
    let trial = gateway().open(&model(&url), &budget, kept).expect("usable");
    // The code that runs the trial also watches the limit, and may cancel the request first.
    let asked = user_request("hi");
    let first = tokio::time::timeout(Duration::from_millis(450), trial.ask(&asked)).await;
    assert!(first.is_err());
    assert!(trial.lost_time_fault(BudgetKind::Wall).is_some());
}

#[tokio::test]
async fn failures_until_the_wall_limit_are_an_endpoint_fault() {
    let script = "[default]\nfault = [{ kind = 'status', status = 429, retry_after = '15' }]";
    let budget = Budget { wall_seconds: Some(1.0), ..Budget::default() };
    let bench = Bench::new(script, budget).await;
    let error = bench.trial.ask(&user_request("hi")).await.expect_err("too long");
    assert_eq!(error, RequestError::Budget(BudgetKind::Wall));
    let fault = bench.trial.lost_time_fault(BudgetKind::Wall).expect("no fault of the model");
    assert!(fault.what.contains("429 the script says so"), "{fault}");
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
async fn idle_timeout_restarts_with_progress() {
    let quick = |idle: f64| {
        let mut policy = proctor_gateway::RetryPolicy::shipped().expect("valid");
        (policy.idle_seconds, policy.attempt_seconds, policy.first_seconds) = (idle, idle, 0.01);
        Gateway::with_policy(proctor_gateway::PriceTable::default(), policy)
            .expect("a gateway")
            .with_key_lookup(|_| Some("sk-test-0123456789".into()))
    };
    let (url, count) = start_raw_endpoint(&[""]).await;
    let trial = open_trial(&quick(0.3), &model(&url));
    let begun = Instant::now();
    let fault = expect_fault(trial.ask(&user_request("hi")).await.expect_err("silence"));
    assert!(fault.what.contains("no event for"), "{fault}");
    assert_eq!(count.load(Ordering::Relaxed), 2, "two silent attempts, not twelve");
    assert!(begun.elapsed() < Duration::from_secs(5));

    // The response takes longer than the limit in total, but is never silent for that long.
    let slow = start_fake_llm(
        "[default]\ncontent = 'one piece after another, in many chunks of one stream'\n\
         chunk_delay_seconds = 0.15",
    )
    .await;
    let trial = Arc::new(open_trial(&quick(0.6), &model(&slow.base_url())));
    let server = GatewayServer::new(trial, RequestRules::default()).expect("a server");
    let listening = server.listen().await.expect("a port");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let begun = Instant::now();
    let url = format!("{}/v1/chat/completions", listening.url());
    let sent = http.post(url).bearer_auth(server.token()).body(body.to_string()).send().await;
    let said = sent.expect("a response").text().await.expect("a whole stream");
    assert!(said.ends_with("data: [DONE]\n\n"), "{said}");
    assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
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

#[tokio::test]
async fn web_page_instead_of_a_response_means_a_wrong_base_url() {
    // The server returns a web page, or a JSON object that is not a model response.
    const OTHER_SERVER_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"message\":\"welcome\"}";
    for (text, said) in
        [(WEB_PAGE_RESPONSE, "a web page, \"Open WebUI\""), (OTHER_SERVER_RESPONSE, "welcome")]
    {
        let texts: &'static [&'static str] = Box::leak(Box::new([text]));
        let (url, count) = start_raw_endpoint(texts).await;
        let gateway = gateway();
        let fault = expect_fault(
            open_trial(&gateway, &model(&url)).ask(&user_request("hi")).await.expect_err("a page"),
        );
        assert!(fault.what.contains(said) && fault.what.contains(&url), "{fault}");
        let hint = fault.hint.as_deref().expect("a hint");
        assert!(hint.contains("base_url") && hint.contains(&format!("{url}/v1")), "{hint}");
        assert_eq!(count.load(Ordering::Relaxed), 2);
        // Another trial makes no further attempt.
        let again = open_trial(&gateway, &model(&url))
            .ask(&user_request("hi"))
            .await
            .expect_err("the same");
        assert_eq!(again.to_string(), fault.to_string());
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(
            gateway.halt_reason(&model(&url), false).is_some() && fault.cause != FaultCause::Other
        );
    }
    // An endpoint that has responded is not a wrong URL: it gets the normal retries.
    let (url, count) = start_raw_endpoint(&[
        OK_RESPONSE,
        WEB_PAGE_RESPONSE,
        WEB_PAGE_RESPONSE,
        WEB_PAGE_RESPONSE,
        OK_RESPONSE,
    ])
    .await;
    let trial = open_trial(&gateway(), &model(&url));
    for _ in 0..2 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!(count.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn unavailable_endpoint_is_given_up_once_per_run() {
    // The endpoint is down after its first response.
    let answered = start_fake_llm(
        "[[rule]]\nlast = 'hi'\nanswer = { content = 'x' }\n\
         [default]\nfault = [{ kind = 'status', status = 503, times = 0 }]",
    )
    .await;
    let gateway = gateway();
    let spec = model(&answered.base_url());
    let (first, second) = (open_trial(&gateway, &spec), open_trial(&gateway, &spec));
    first.ask(&user_request("hi")).await.expect("an answer");
    let fault_of_first =
        expect_fault(first.ask(&user_request("more")).await.expect_err("an outage"));
    assert!(fault_of_first.cause != FaultCause::Other, "{fault_of_first}");
    let asked = answered.requests().len();
    second.ask(&user_request("other")).await.expect_err("the same outage");
    assert_eq!(answered.requests().len(), asked, "no further request in this run");

    // While other trials receive responses, a request that always fails does not halt the model.
    let mixed = start_fake_llm(
        "[[rule]]\nlast = 'hi'\nanswer = { content = 'x' }\n\
         [default]\nfault = [{ kind = 'status', status = 503, times = 0 }]",
    )
    .await;
    let spec = model(&mixed.base_url());
    let (fails, works) = (open_trial(&gateway, &spec), open_trial(&gateway, &spec));
    let mut failing = tokio::spawn(async move { fails.ask(&user_request("never")).await });
    let fault_alone = loop {
        tokio::select! {
            failed = &mut failing => {
                break expect_fault(failed.expect("no panic").expect_err("always 503"));
            }
            () = tokio::time::sleep(Duration::from_millis(3)) => {
                works.ask(&user_request("hi")).await.expect("an answer");
            }
        }
    };
    assert!(
        fault_alone.cause == FaultCause::Other && gateway.halt_reason(&spec, false).is_none(),
        "{fault_alone}"
    );
}

#[tokio::test]
async fn rejection_of_every_trial_halts_the_model() {
    let rejects = "[[rule]]\nturn = 1\nanswer = { fault = [{ kind = 'status', status = 400, times = 0, \
        body = '{\"error\":{\"message\":\"unknown field x in request 17\"}}' }] }\n[default]\ncontent = 'ok'\n";
    let fake = start_fake_llm(rejects).await;
    let (gateway, spec) = (gateway(), model(&fake.base_url()));
    for number in 1..=3 {
        let trial = open_trial(&gateway, &spec);
        trial.ask(&conversation_with_responses(0)).await.expect("the first answer");
        let error = trial.ask(&conversation_with_responses(1)).await.expect_err("rejected");
        match error {
            RequestError::Rejected { status, body, caused_by_model } => {
                assert!(number < 3, "the third rejection halts the model");
                assert!(!caused_by_model);
                let fault = trial.rejection_fault(status, &body);
                assert_eq!(fault.layer, FaultLayer::Model);
                assert!(fault.what.contains("unknown field x"), "{fault}");
            }
            other => {
                assert_eq!(number, 3);
                assert!(expect_fault(other).cause != FaultCause::Other);
            }
        }
    }
    assert!(gateway.halt_reason(&spec, false).is_some());
    let asked = fake.requests().len();
    open_trial(&gateway, &spec).ask(&conversation_with_responses(0)).await.expect_err("halted");
    assert_eq!(fake.requests().len(), asked);
}

#[tokio::test]
async fn status_403_of_every_trial_halts_the_model() {
    let fake = start_fake_llm(
        "[[rule]]\nturn = 1\nanswer = { fault = [{ kind = 'status', status = 403, times = 0 }] }\n[default]\ncontent = 'ok'\n",
    )
    .await;
    let (gateway, spec) = (gateway(), model(&fake.base_url()));
    for number in 1..=3 {
        assert!(gateway.halt_reason(&spec, false).is_none(), "{number}");
        let trial = open_trial(&gateway, &spec);
        trial.ask(&conversation_with_responses(0)).await.expect("the first answer");
        assert_eq!(
            expect_fault(trial.ask(&conversation_with_responses(1)).await.expect_err("403")).layer,
            FaultLayer::Model
        );
    }
    assert!(gateway.halt_reason(&spec, false).is_some());
}

#[tokio::test]
async fn rejection_is_attributed_to_the_model_if_text_and_count_agree() {
    let overflow = "Input is too long for requested model.";
    let rejects = |body: &str| {
        format!("{{ fault = [{{ kind = 'status', status = 400, times = 0, body = '{body}' }}] }}")
    };
    let fake = start_fake_llm(&format!(
        "[[rule]]\nwhen = 'bad'\nturn = 1\nanswer = {}\n[[rule]]\nwhen = 'long'\nturn = 1\nanswer = {}\n\
         [[rule]]\nwhen = 'flagged'\nturn = 1\nanswer = {}\n[default]\ncontent = 'ok'\n",
        rejects("no"),
        rejects(overflow),
        rejects("The prompt triggered the content management policy."),
    ))
    .await;
    let (gateway, spec) = (gateway(), model(&fake.base_url()));
    let further = open_trial(&gateway, &spec);
    for answers in 0..3 {
        further.ask(&conversation_with_responses(answers)).await.expect("an answer");
    }
    let own = |word: String| {
        let trial = open_trial(&gateway, &spec);
        async move {
            let said = |answers| {
                let mut talk = conversation_with_responses(answers);
                talk.messages[0] = Message::User { content: word.clone() };
                talk
            };
            trial.ask(&said(0)).await.expect("an answer");
            match trial.ask(&said(1)).await.expect_err("rejected") {
                RequestError::Rejected { caused_by_model, .. } => caused_by_model,
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(own("flagged".into()).await, "a filter");
    // Another trial received a response at this point, but that does not make the model the cause.
    assert!(!own("bad".into()).await, "a text that explains nothing");
    assert!(!own("long".into()).await, "no model's window is that small");
    assert!(own(format!("long {}", "one two three ".repeat(4_000))).await, "our count agrees");
}

#[tokio::test]
async fn model_without_tools_is_reported_with_a_hint() {
    // Ollama's message, and other servers' messages with other statuses.
    for (status, words) in [
        (400, "registry.ollama.ai/library/x:latest does not support tools"),
        (404, "No endpoints found that support tool use"),
        (422, "function calling is not available for this model"),
    ] {
        let body = format!("{{\"error\":{{\"message\":\"{words}\"}}}}");
        let fake = start_fake_llm(&format!(
            "[[rule]]\nlast = 'with'\nanswer = {{ fault = [{{ kind = 'status', status = {status}, \
             times = 0, body = '{body}' }}] }}\n[default]\ncontent = 'ok'\n"
        ))
        .await;
        let (gateway, spec) = (gateway(), model(&fake.base_url()));
        let refused = open_trial(&gateway, &spec)
            .ask(&request_with_tools("with"))
            .await
            .expect_err("no tools");
        let fault = expect_fault(refused);
        assert!(fault.cause != FaultCause::Other && fault.what.contains(words), "{fault}");
        assert!(fault.hint.as_deref().is_some_and(|hint| hint.contains("scaffold = \"bash\"")));
        // Only the first request is sent, and only requests with tools are halted.
        open_trial(&gateway, &spec).ask(&request_with_tools("with")).await.expect_err("halted");
        assert_eq!(fake.requests().len(), 1, "{words}");
        assert!(
            gateway.halt_reason(&spec, true).is_some()
                && gateway.halt_reason(&spec, false).is_none()
        );
        open_trial(&gateway, &spec)
            .ask(&user_request("plain"))
            .await
            .expect("an answer without tools");
    }
}

/// If an endpoint rejects the form of a request, the gateway repairs it. Later requests are
/// repaired before their first attempt.
#[tokio::test]
async fn request_repair_is_kept_for_the_run() {
    const NO_OPTIONS: &str = "HTTP/1.1 422 No\r\nconnection: close\r\n\r\n\
        {\"detail\":\"stream_options: extra fields not permitted\"}";
    const FORBIDDEN_OPTIONS: &str = "HTTP/1.1 403 No\r\nconnection: close\r\n\r\n\
        {\"error\":{\"message\":\"your plan does not allow stream_options\"}}";
    const NO_STREAM: &str = "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n\
        {\"detail\":\"this model does not support streaming\"}";
    const CUT_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    check_repaired_requests(&[NO_OPTIONS, OK_RESPONSE], "stream_options", &[true, false, false])
        .await;
    check_repaired_requests(
        &[FORBIDDEN_OPTIONS, OK_RESPONSE],
        "stream_options",
        &[true, false, false],
    )
    .await;
    check_repaired_requests(&[NO_STREAM, OK_RESPONSE], "stream", &[true, false, false]).await;
    // This endpoint cuts off all streams.
    check_repaired_requests(
        &[CUT_STREAM, CUT_STREAM, CUT_STREAM, OK_RESPONSE],
        "stream",
        &[true, true, true, false, false],
    )
    .await;
}

/// Checks the repaired requests. `expected` says for each request whether it has the field.
async fn check_repaired_requests(
    responses: &'static [&'static str],
    field: &str,
    expected: &[bool],
) {
    let (url, count) = start_raw_endpoint(responses).await;
    let gateway = gateway();
    let kept = Arc::new(RecordingSink::default());
    let spec = model(&url);
    let trial = gateway.open(&spec, &Budget::default(), kept.clone()).expect("usable");
    for _ in 0..2 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!((count.load(Ordering::Relaxed), trial.spending().steps), (expected.len(), 2));
    assert_eq!(requests_with_field(&kept, field), expected);
    assert!(gateway.halt_faults().is_empty());
}

/// Returns whether each request has a field.
fn requests_with_field(sink: &RecordingSink, field: &str) -> Vec<bool> {
    let has = |body: &[u8]| {
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        body.get(field).is_some()
    };
    sink.attempts().iter().map(|attempt| has(&attempt.request_body)).collect()
}

/// If an endpoint accepts only streams, a corrupted stream is requested again as a stream.
#[tokio::test]
async fn stream_only_endpoint_is_asked_for_another_stream() {
    const CORRUPTED_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"command\\\": \\\"ls\\\"\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    const STREAM_ONLY_ERROR: &str = "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n\
        {\"error\":{\"message\":\"This model only support stream mode, please enable the stream parameter.\"}}";
    let (url, count) =
        start_raw_endpoint(&[CORRUPTED_STREAM, STREAM_ONLY_ERROR, OK_RESPONSE]).await;
    let (gateway, kept) = (gateway(), Arc::new(RecordingSink::default()));
    let trial = gateway.open(&model(&url), &Budget::default(), kept.clone()).expect("usable");
    trial.ask(&request_with_tools("hi")).await.expect("an answer");
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!(requests_with_field(&kept, "stream"), [true, false, true]);
}

/// An endpoint's servers may get a new model one after another, so some of them may not know it
/// yet.
#[tokio::test]
async fn model_that_has_responded_is_not_treated_as_unknown() {
    const UNKNOWN_MODEL_ERROR: &str = "HTTP/1.1 404 No\r\nconnection: close\r\n\r\n\
        {\"error\":{\"message\":\"The model `m` does not exist.\",\"code\":\"model_not_found\"}}";
    let (url, count) =
        start_raw_endpoint(&[OK_RESPONSE, UNKNOWN_MODEL_ERROR, UNKNOWN_MODEL_ERROR, OK_RESPONSE])
            .await;
    let (gateway, spec) = (gateway(), model(&url));
    let trial = open_trial(&gateway, &spec);
    for _ in 0..2 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!((count.load(Ordering::Relaxed), gateway.halt_faults().len()), (4, 0));
    // Before the first response, the name must be wrong.
    let (url, count) = start_raw_endpoint(&[UNKNOWN_MODEL_ERROR]).await;
    let spec = model(&url);
    expect_fault(
        open_trial(&gateway, &spec).ask(&user_request("hi")).await.expect_err("no such model"),
    );
    assert_eq!((count.load(Ordering::Relaxed), gateway.halt_faults().len()), (1, 1));
}

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

/// Starts trials together, each with its own connection, and returns their errors.
async fn run_trials_together(
    gateway: &Gateway,
    url: &str,
    budget: &Budget,
    trial_count: usize,
) -> Vec<RequestError> {
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..trial_count {
        let trial =
            gateway.open(&model(url), budget, Arc::new(RecordingSink::default())).expect("usable");
        asked.spawn(async move {
            let error = trial.ask(&user_request("hi")).await.expect_err("no response");
            match error {
                RequestError::Budget(kind) => {
                    trial.lost_time_fault(kind).map_or(error, RequestError::Fault)
                }
                other => other,
            }
        });
    }
    asked.join_all().await
}

#[tokio::test]
async fn silent_endpoint_is_tried_by_only_one_trial() {
    let mut policy = proctor_gateway::RetryPolicy::shipped().expect("valid");
    (policy.first_seconds, policy.silent_attempts) = (0.01, 2);
    (policy.idle_seconds, policy.attempt_seconds) = (0.3, 0.3);
    let policy = || policy.clone();
    // The endpoint is always silent, is always overloaded, or always returns a web page. In total,
    // the trials make only as many attempts as one request would.
    for (texts, attempts) in
        [(&[""][..], 2), (&[BUSY_RESPONSE][..], 12), (&[WEB_PAGE_RESPONSE][..], 4)]
    {
        let (url, count) = start_raw_endpoint(texts).await;
        let gateway = Gateway::with_policy(proctor_gateway::PriceTable::default(), policy())
            .expect("a gateway")
            .with_key_lookup(|_| Some("sk-test-0123456789".into()));
        let errors = run_trials_together(&gateway, &url, &Budget::default(), 20).await;
        assert_eq!(count.load(Ordering::Relaxed), attempts, "{texts:?}");
        for error in errors {
            let RequestError::Fault(fault) = error else { panic!("{error:?}") };
            assert_eq!(
                (fault.layer, fault.cause),
                (FaultLayer::Model, FaultCause::Silent),
                "{fault}"
            );
        }
    }
}

#[tokio::test]
async fn wall_limit_below_the_idle_timeout_ends_the_round() {
    let (url, count) = start_raw_endpoint(&[""]).await;
    let budget = Budget { wall_seconds: Some(0.5), ..Budget::default() };
    let gateway = gateway();
    for error in run_trials_together(&gateway, &url, &budget, 5).await {
        let RequestError::Fault(fault) = error else { panic!("{error:?}") };
        assert_eq!(fault.cause, FaultCause::Silent, "{fault}");
    }
    let asked = count.load(Ordering::Relaxed);
    assert!(asked < 5, "each trial in flight asked: {asked}");
    // Trials that start later get the fault immediately.
    let started = Instant::now();
    let late = run_trials_together(&gateway, &url, &budget, 3).await;
    assert!(late.iter().all(|error| matches!(error, RequestError::Fault(_))), "{late:?}");
    assert!(started.elapsed() < Duration::from_millis(400), "a limit was waited for");
    assert_eq!(count.load(Ordering::Relaxed), asked);
}

/// Starts an endpoint that keeps its connections open with these bytes and never responds.
async fn start_trickling_endpoint(head: &'static str, byte: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut vec![0; 65_536]).await;
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(byte.as_bytes()).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn keepalive_is_not_a_response() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let budget = Budget { wall_seconds: Some(0.5), ..Budget::default() };
    for (head, byte) in [(json, " "), (json, "\n"), (events, "\n"), (events, ": wait\n\n")] {
        let url = start_trickling_endpoint(head, byte).await;
        for error in run_trials_together(&gateway(), &url, &budget, 2).await {
            let RequestError::Fault(fault) = error else { panic!("{byte:?}: {error:?}") };
            assert_eq!(fault.cause, FaultCause::Silent, "{byte:?}: {fault}");
        }
    }
}

#[tokio::test]
async fn endpoint_text_cannot_control_the_terminal() {
    const BINARY: &str =
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\x1b[2J\x1b]0;title\x07\0\u{9b}31m bytes";
    const ERROR: &str =
        "HTTP/1.1 401 No\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"a\\u001b[2Jb\"}}";
    for texts in [&[BINARY][..], &[ERROR][..]] {
        let (url, _) = start_raw_endpoint(texts).await;
        for error in run_trials_together(&gateway(), &url, &Budget::default(), 1).await {
            let RequestError::Fault(fault) = error else { panic!("{error:?}") };
            assert!(
                !fault.to_string().contains(|c: char| c.is_control() && c != '\n'),
                "{fault:?}"
            );
        }
    }
}

#[tokio::test]
async fn consecutive_stalled_trials_are_an_outage() {
    let (url, _) = start_raw_endpoint(&[OK_RESPONSE, ""]).await;
    let budget = Budget { wall_seconds: Some(0.2), ..Budget::default() };
    let gateway = gateway();
    let line =
        || gateway.open(&model(&url), &budget, Arc::new(RecordingSink::default())).expect("usable");
    line().ask(&user_request("hi")).await.expect("the one answer");
    for cause in [FaultCause::Other, FaultCause::Other, FaultCause::Outage] {
        let trial = line();
        let error = trial.ask(&user_request("hi")).await.expect_err("silence");
        assert_eq!(error, RequestError::Budget(BudgetKind::Wall));
        let fault = trial.lost_time_fault(BudgetKind::Wall).expect("the endpoint's fault");
        assert_eq!(fault.cause, cause, "{fault}");
    }
    let RequestError::Fault(fault) = line().ask(&user_request("hi")).await.expect_err("halted")
    else {
        panic!("no fault")
    };
    assert_eq!(fault.cause, FaultCause::Outage);
}

#[tokio::test]
async fn first_event_of_a_response_releases_all_trials() {
    // The head and the first event of this response arrive, but the rest never does.
    const FIRST_EVENT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"x\"},\"index\":0}]}\n\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut vec![0; 65_536]).await;
            if held.is_empty() {
                let _ = stream.write_all(FIRST_EVENT.as_bytes()).await;
                held.push(stream);
                continue;
            }
            let _ = stream.write_all(OK_RESPONSE.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let gateway = gateway();
    let line = || {
        gateway
            .open(&model(&url), &Budget::default(), Arc::new(RecordingSink::default()))
            .expect("usable")
    };
    let first = line();
    let asked = user_request("hi");
    tokio::select! {
        ended = first.ask(&asked) => panic!("it never ends: {ended:?}"),
        answered = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            line().ask(&asked).await
        } => drop(answered.expect("the second need not wait for the end of the first")),
    }
}
