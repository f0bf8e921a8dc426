//! Tests that the gateway's checks come to the same verdict whether or not a conversation is
//! interrupted. In each case, the conversation runs once without an interruption, and once with an
//! interruption after every request.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::sync::Arc;

use proctor_gateway::{ExchangeSink, RecordedAttempts, RequestError, TrialGateway};
use proctor_types::{Budget, BudgetKind, Event, Message, ModelRequest, ModelSpec, ToolSpec};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::common::{RecordingSink, gateway, model, user_request};

/// 14 bytes and three tokens.
const WORDS: &str = "one two three ";

/// A status and a body.
type Reply = (u16, String);

/// A conversation with an endpoint.
struct Case {
    /// Bytes of the first message, and of each message that follows a response.
    sizes: (usize, usize),
    has_tools: bool,
    max_output: Option<u64>,
    budget: Budget,
    /// The limit that ends the trial. If `None`, the scaffold gives up after the last response.
    limit: Option<BudgetKind>,
    /// The endpoint's replies: for each turn, one per attempt. The last one repeats.
    turns: Vec<Vec<Reply>>,
    /// A part of the verdict.
    verdict: &'static str,
    /// Number of attempts.
    attempts: usize,
}

impl Case {
    fn new(
        sizes: (usize, usize),
        turns: Vec<Vec<Reply>>,
        verdict: &'static str,
        attempts: usize,
    ) -> Self {
        Self {
            sizes,
            has_tools: false,
            max_output: None,
            budget: Budget::default(),
            limit: None,
            turns,
            verdict,
            attempts,
        }
    }

    fn with_tools(self) -> Self {
        Self { has_tools: true, ..self }
    }

    fn spec(&self, url: &str) -> ModelSpec {
        ModelSpec { max_output_tokens: self.max_output, ..model(url) }
    }
}

/// The verdict on a conversation, and the error of each attempt.
type Verdict = (String, Vec<Option<String>>);

/// Runs the conversation of a case with a new endpoint.
async fn run(case: &Case, is_interrupted: bool) -> Verdict {
    let url = start_endpoint(case.turns.clone()).await;
    let sink = Arc::new(RecordingSink::default());
    let verdict = converse(case, &url, &sink, is_interrupted).await;
    let errors = sink.attempts().into_iter().map(|attempt| attempt.error);
    (verdict.replace(&url, "URL"), errors.collect())
}

async fn converse(
    case: &Case,
    url: &str,
    sink: &Arc<RecordingSink>,
    is_interrupted: bool,
) -> String {
    let mut request = opening(case);
    let mut trial = open(case, url, sink);
    for _ in &case.turns {
        let answer = match trial.ask(&request).await {
            Ok(answer) => answer,
            Err(RequestError::Fault(fault)) => return fault.what,
            Err(RequestError::Rejected { caused_by_model, .. }) => {
                return format!("rejected because of the model: {caused_by_model}");
            }
            Err(other) => panic!("{other:?}"),
        };
        let text = text(case.sizes.1);
        request.messages.push(answer.to_message());
        match answer.tool_calls.first() {
            Some(call) => {
                request.messages.push(Message::Tool { call_id: call.id.clone(), content: text });
            }
            None => request.messages.push(Message::User { content: text }),
        }
        if is_interrupted {
            trial = resume(case, url, sink, &trial).await;
        }
    }
    let fault = match case.limit {
        Some(kind) => trial.limit_fault(kind).await,
        None => trial.anomaly_fault().await,
    };
    fault.map_or_else(|| "no fault".to_owned(), |fault| fault.what)
}

fn open(case: &Case, url: &str, sink: &Arc<RecordingSink>) -> TrialGateway {
    let sink: Arc<dyn ExchangeSink> = sink.clone();
    gateway().open(&case.spec(url), &case.budget, sink).expect("a usable model")
}

/// Continues the conversation in another process: with a gateway that knows only the record.
async fn resume(
    case: &Case,
    url: &str,
    sink: &Arc<RecordingSink>,
    interrupted: &TrialGateway,
) -> TrialGateway {
    let mut recorded = RecordedAttempts::default();
    sink.events().iter().for_each(|(_, event)| recorded.apply(event));
    let resumed = Event::TrialResumed { snapshot: String::new(), whole_steps: 0, stands_to: 0 };
    sink.record_event(0, resumed).await.expect("recorded");
    let trial = open(case, url, sink).resume_from(interrupted.spending());
    let read = |hash: &str| Some(sink.body(hash).to_vec());
    trial.replay_attempts(&recorded, read).await.expect("valid tables");
    trial
}

fn text(bytes: usize) -> String {
    WORDS.repeat(bytes / WORDS.len())
}

fn opening(case: &Case) -> ModelRequest {
    let description =
        "Runs a command in the sandbox and returns what it prints, in the order of its coming. ";
    let shell = ToolSpec {
        name: "shell".into(),
        description: description.repeat(30),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    };
    let tools = if case.has_tools { vec![shell] } else { Vec::new() };
    ModelRequest { tools, ..user_request(&text(case.sizes.0)) }
}

/// Starts an endpoint that gives each attempt at each turn its reply.
async fn start_endpoint(turns: Vec<Vec<Reply>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut attempts = vec![0; turns.len()];
        while let Ok((mut stream, _)) = listener.accept().await {
            let request = read_request(&mut stream).await;
            let turn = request.matches("\"role\":\"assistant\"").count();
            let replies = &turns[turn];
            let (status, body) = &replies[attempts[turn].min(replies.len() - 1)];
            attempts[turn] += 1;
            let length = body.len();
            let reply = format!(
                "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(reply.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

/// Reads a whole request.
async fn read_request(stream: &mut TcpStream) -> String {
    let (mut received, mut chunk) = (Vec::new(), vec![0; 65_536]);
    loop {
        let count = stream.read(&mut chunk).await.unwrap_or_default();
        received.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&received);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let head = head.to_lowercase();
            let length = head.split_once("content-length:").map_or("0", |(_, rest)| rest);
            let length = length.lines().next().unwrap_or_default().trim().parse().unwrap_or(0);
            body.len() >= length
        });
        if whole || count == 0 {
            return text.into_owned();
        }
    }
}

fn response(message: Value, stop: &str, usage: Value) -> Reply {
    let mut whole = json!({"role": "assistant"});
    for (name, value) in message.as_object().expect("an object") {
        whole[name] = value.clone();
    }
    let choice = json!({"index": 0, "message": whole, "finish_reason": stop});
    (200, json!({"model": "m", "choices": [choice], "usage": usage}).to_string())
}

/// Returns a usage of prompt tokens and completion tokens.
fn usage(input: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output})
}

fn says(content: &str, input: u64) -> Reply {
    response(json!({"content": content}), "stop", usage(input, 5))
}

/// Returns one reply for each turn, with the given prompt counts.
fn counts(tokens: &[u64]) -> Vec<Vec<Reply>> {
    tokens.iter().map(|tokens| vec![says("ok", *tokens)]).collect()
}

fn calls(arguments: &str, input: u64) -> Reply {
    let function = json!({"name": "shell", "arguments": arguments});
    let call = json!({"id": "call_0", "type": "function", "function": function});
    response(json!({"content": null, "tool_calls": [call]}), "tool_calls", usage(input, 13))
}

fn cases() -> Vec<(&'static str, Case)> {
    let small = (280, 140);
    let thought =
        response(json!({"content": "ok", "reasoning_content": "Hm."}), "stop", usage(6000, 5));
    let cut = |input, output| response(json!({"content": "ok"}), "length", usage(input, output));
    let lost = |input| {
        let details = json!({"reasoning_tokens": 0});
        let mut counted = usage(input, 501);
        counted["completion_tokens_details"] = details;
        vec![response(json!({"content": "ok"}), "stop", counted)]
    };
    let markup = |input| vec![says("<|channel|>analysis I look at the files.", input)];
    let mut same = says("I stop.", 100);
    same.1 = same.1.replacen('{', "{\"id\":\"chatcmpl-8c41f0d2a97b\",", 1);
    let none =
        |content: &str, output| response(json!({"content": content}), "stop", usage(0, output));
    let overflow = json!({"error": {"message": "the maximum context length is 8192 tokens. However, \
        your request has 8578 input tokens"}});
    let escaped = r#"{"command": "cd src &amp;&amp; ls &gt; x"}"#;
    let flat = "```python\ndef f(a):\nfor b in a:\nif b:\nreturn b\n```";
    let indented =
        "```python\ndef f(a):\n    for b in a:\n        if b:\n            return b\n```";
    let hollow = response(json!({"content": ""}), "stop", usage(100, 10));
    vec![
        (
            "a count that falls",
            Case::new((14_000, 14_000), counts(&[3000, 2000]), "truncated the prompt", 5),
        ),
        (
            "a count that falls over two steps",
            Case::new((1204, 1204), counts(&[600, 900, 500]), "truncated the prompt", 6),
        ),
        (
            "a count that does not grow",
            Case::new((28_000, 14_000), counts(&[5900, 5900, 5900]), "dropped a part", 6),
        ),
        (
            "a count that falls by the size of the tools",
            Case::new(
                (2800, 1400),
                vec![vec![calls(r#"{"command": "ls"}"#, 1190)], vec![says("Done.", 1000)]],
                "dropped the tools",
                5,
            )
            .with_tools(),
        ),
        (
            "a count that falls after reasoning",
            Case::new((28_000, 2800), vec![vec![thought], vec![says("ok", 4000)]], "no fault", 2),
        ),
        (
            "counts of only the uncached tokens",
            Case::new(
                (28_000, 2800),
                vec![
                    vec![says("ok", 6000)],
                    vec![says("ok", 300), says("ok", 10)],
                    vec![says("ok", 300)],
                ],
                "no fault",
                4,
            ),
        ),
        (
            "anomalies of the prompt's count",
            Case::new(
                (28_000, 2800),
                counts(&[6000; 4]),
                "in 3 of 4 responses, the endpoint counted no more input",
                4,
            ),
        ),
        (
            "anomalies of the output's count",
            Case::new((2800, 140), [610, 650, 690].map(lost).into(), "more visible output", 3),
        ),
        (
            "anomalies of the text",
            Case::new(small, [70, 110, 150].map(markup).into(), "in 3 of 3 responses", 3),
        ),
        (
            "counts that exceed the requests",
            Case {
                budget: Budget { input_tokens: Some(20_000), ..Budget::default() },
                limit: Some(BudgetKind::InputTokens),
                ..Case::new(
                    (2800, 2800),
                    counts(&[610, 5000, 8000, 9000]),
                    "counts more input than it received",
                    4,
                )
            },
        ),
        (
            "a full window that is not reported",
            Case {
                max_output: Some(4000),
                ..Case::new(
                    (28_000, 2800),
                    vec![vec![cut(6000, 1500)], vec![cut(6600, 900)]],
                    "context window is full after 7500",
                    5,
                )
            },
        ),
        (
            "a response that is repeated",
            Case::new(small, vec![vec![same.clone()], vec![same]], "repeated its response", 5),
        ),
        (
            "a text of a proxy",
            Case::new(
                small,
                vec![vec![says("ok", 100)], vec![none("Come back at noon.", 0)]],
                "reports zero tokens",
                5,
            ),
        ),
        (
            "an overflow below an answered prompt",
            Case::new(
                (42_000, 2800),
                vec![vec![says("ok", 9704)], vec![(400, overflow.to_string())]],
                "because of the model: false",
                4,
            ),
        ),
        (
            "calls that the model breaks",
            Case::new(small, vec![vec![calls("ls -la", 700)]; 2], "no fault", 3).with_tools(),
        ),
        (
            "entities that the model writes",
            Case::new(
                small,
                vec![vec![calls(r#"{"command": "a && b"}"#, 700)], vec![calls(escaped, 760)]],
                "no fault",
                2,
            )
            .with_tools(),
        ),
        (
            "fences that the model omits",
            Case::new(small, vec![vec![says("I look.\n```bash\nls", 100)]; 2], "no fault", 3),
        ),
        (
            "indentation that the model omits",
            Case::new(small, vec![vec![says(flat, 100)]; 2], "no fault", 3),
        ),
        (
            "indentation that a stream lost",
            Case::new(
                small,
                vec![vec![says(flat, 100), says(indented, 100)], vec![says(indented, 140)]],
                "no fault",
                3,
            ),
        ),
        (
            "turns that the model ends without output",
            Case::new(small, vec![vec![hollow]; 2], "no fault", 5),
        ),
    ]
}

#[tokio::test]
async fn interruptions_do_not_change_a_verdict() {
    for (name, case) in cases() {
        let (verdict, errors) = run(&case, false).await;
        assert!(verdict.contains(case.verdict), "{name}: {verdict}: {errors:?}");
        assert_eq!(errors.len(), case.attempts, "{name}: {errors:?}");
        assert_eq!(run(&case, true).await, (verdict, errors), "{name}, interrupted");
    }
}
