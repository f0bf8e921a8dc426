//! Measures the cost of the gateway's HTTP server:
//! `cargo bench -p proctor-gateway --bench gateway`.
//!
//! The same client calls the same scripted model in three ways: directly, through the HTTP server
//! in the same format, and through the HTTP server with translation. The three ways alternate (A B
//! C A B C), so that the ratios remain valid if the machine's speed drifts. The scripted model and
//! the client that creates load are separate processes.
//!
//! With `-- streams`, measures only many simultaneous streams. With `-- steps`, measures the cost
//! of a step in a built-in loop, early and late in a conversation. Nothing is written to disk,
//! because recording is not part of the HTTP server's cost. The bench asserts no times.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

mod figures;

use std::{
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use fake_llm::{FakeLlm, Script};
use figures::Figures;
use proctor_gateway::{
    ExchangeSink, Gateway, GatewayServer, ListenerHandle, PriceTable, RequestRules,
};
use proctor_types::{Budget, Event, Fault, Message, ModelRequest, ModelSpec};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    task::JoinSet,
};

/// The allocator that `proctor` uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of simultaneous streams.
const STREAMS: usize = 200;

/// Number of times to run all streams.
const ROUNDS: usize = 10;

/// Approximate size of a request from a coding agent. The server must read and validate it
/// completely.
const PROMPT_BYTES: usize = 50_000;

const SCRIPT: &str = r#"
[[conversation]]
when = "held"
repeat_last = true
[[conversation.turn]]
content = "one piece and then one more, so that it stays open for a while"
chunk_delay_seconds = 1.0

[default]
content = "An answer of a few hundred bytes, as most are that hold a call. An answer of a few hundred bytes, as most are that hold a call. An answer of a few hundred bytes."
tool_calls = [{ name = "shell", arguments = { command = "ls -la /testbed" } }]
"#;

struct NullRecord;

#[async_trait]
impl ExchangeSink for NullRecord {
    async fn store_body(&self, _: &[u8]) -> Result<String, Fault> {
        Ok(String::new())
    }

    async fn record_event(&self, _: u64, _: Event) -> Result<(), Fault> {
        Ok(())
    }
}

/// One of the ways to call the model.
#[derive(Clone)]
struct ModelRoute {
    name: &'static str,
    url: String,
    key: String,
    is_messages_api: bool,
}

impl ModelRoute {
    async fn send_request(
        &self,
        http: &reqwest::Client,
        text: &str,
        stream: bool,
    ) -> reqwest::Response {
        let filler = "x ".repeat(PROMPT_BYTES / 2);
        let talk = json!([{"role": "user", "content": format!("{text} {filler}")}]);
        let body = json!({"model": "m", "max_tokens": 500, "stream": stream, "messages": talk});
        let path = if self.is_messages_api { "/v1/messages" } else { "/v1/chat/completions" };
        let url = format!("{}{path}", self.url);
        let sent = http.post(url).bearer_auth(&self.key).body(body.to_string()).send().await;
        let response = sent.expect("a response");
        assert_eq!(response.status(), 200);
        response
    }

    async fn full_response_time(&self, http: &reqwest::Client) -> Duration {
        let begun = Instant::now();
        self.send_request(http, "hi", false).await.bytes().await.expect("a whole answer");
        begun.elapsed()
    }

    async fn first_byte_time(&self, http: &reqwest::Client) -> Duration {
        let begun = Instant::now();
        let mut response = self.send_request(http, "hi", true).await;
        response.chunk().await.expect("a stream").expect("a piece");
        let took = begun.elapsed();
        while response.chunk().await.expect("a stream").is_some() {}
        took
    }
}

/// Starts this program in another process with another role.
async fn spawn_role(arguments: &[&str]) -> (Child, String) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("another part");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).await.expect("a line");
    (child, line.trim().to_owned())
}

fn main() {
    // Cargo adds the argument `--bench`.
    let arguments: Vec<_> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    // Creating the gateway also installs the TLS provider that HTTP clients need.
    let gateway = Gateway::new(PriceTable::default()).expect("a gateway");
    runtime.block_on(async {
        match arguments.as_slice() {
            ["model"] => {
                let script = Script::parse(SCRIPT).expect("a sound script");
                let server = FakeLlm::start(script).await.expect("a free port");
                println!("{}", server.base_url());
                server.wait_until_stopped().await;
            }
            ["hold", url, key] => hold_streams(url, key).await,
            ["steps"] => measure_step_cost(&gateway).await,
            ["streams"] => measure_routes(&gateway, true).await,
            _ => measure_routes(&gateway, false).await,
        }
    });
}

fn http_client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Opens all streams, reports when they are open, and keeps them open until standard input ends.
async fn hold_streams(url: &str, key: &str) {
    let way = ModelRoute { name: "", url: url.into(), key: key.into(), is_messages_api: false };
    let http = http_client();
    let mut open = JoinSet::new();
    for _ in 0..STREAMS {
        let (way, http) = (way.clone(), http.clone());
        open.spawn(async move {
            let mut response = way.send_request(&http, "held", true).await;
            response.chunk().await.expect("a stream").expect("a piece");
            response
        });
    }
    let responses = open.join_all().await;
    println!("open");
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let _ = ended.await;
    drop(responses);
}

async fn start_server(gateway: &Gateway, base_url: &str) -> (GatewayServer, ListenerHandle) {
    let model: ModelSpec =
        serde_json::from_value(json!({"base_url": base_url, "name": "m"})).expect("a model");
    let trial = gateway.open(&model, &Budget::default(), Arc::new(NullRecord)).expect("a trial");
    let server = GatewayServer::new(Arc::new(trial), RequestRules::default()).expect("a server");
    let listening = server.listen().await.expect("a free port");
    (server, listening)
}

async fn measure_routes(gateway: &Gateway, streams_only: bool) {
    let (_model, base_url) = spawn_role(&["model"]).await;
    let (server, listening) = start_server(gateway, &base_url).await;
    let to_server = |name, messages| ModelRoute {
        name,
        url: listening.url(),
        key: server.token().to_owned(),
        is_messages_api: messages,
    };
    let ways = [
        ModelRoute {
            name: "direct",
            url: base_url.trim_end_matches("/v1").to_owned(),
            key: "k".into(),
            is_messages_api: false,
        },
        to_server("gateway", false),
        to_server("translated", true),
    ];
    let http = http_client();
    if streams_only {
        return measure_throughput(&ways, &http).await;
    }
    // Measure this first, because later the growth would be hidden by memory that is reused.
    ways[1].full_response_time(&http).await;
    measure_memory(&ways[1]).await;
    let mut figures = Figures::default();
    for round in 0..320 {
        for way in &ways {
            let whole = way.full_response_time(&http).await;
            let first = way.first_byte_time(&http).await;
            // Skip the first requests, because they open connections.
            if round >= 20 {
                figures.add(&format!("{}, whole answer", way.name), whole);
                figures.add(&format!("{}, first byte of stream", way.name), first);
            }
        }
    }
    for way in &ways[1..] {
        for what in ["whole answer", "first byte of stream"] {
            let (over, under) = (format!("{}, {what}", way.name), format!("direct, {what}"));
            figures.add_ratio(&format!("{over} / direct, median"), &over, &under);
            figures.add_quantile_ratio(0.99, &format!("{over} / direct, p99"), &over, &under);
        }
    }
    figures.print();
    measure_throughput(&ways, &http).await;
}

/// Runs streams to completion, `STREAMS` at a time, in each of the ways in turn.
async fn measure_throughput(routes: &[ModelRoute], http: &reqwest::Client) {
    let mut took = vec![Duration::ZERO; routes.len()];
    let mut worked = vec![Duration::ZERO; routes.len()];
    for _ in 0..ROUNDS {
        for ((way, took), worked) in routes.iter().zip(&mut took).zip(&mut worked) {
            let mut streams = JoinSet::new();
            let (begun, before) = (Instant::now(), cpu_time());
            for _ in 0..STREAMS {
                let (way, http) = (way.clone(), http.clone());
                streams.spawn(async move {
                    let mut response = way.send_request(&http, "hi", true).await;
                    while response.chunk().await.expect("a stream").is_some() {}
                });
            }
            streams.join_all().await;
            *took += begun.elapsed();
            *worked += cpu_time().saturating_sub(before);
        }
    }
    println!();
    let all = (ROUNDS * STREAMS) as f64;
    let per_second = |took: &Duration| all / took.as_secs_f64();
    for (way, took) in routes.iter().zip(&took) {
        let label = format!("{STREAMS} streams at once, {}", way.name);
        println!("{label:<50} {:>8.0}/s", per_second(took));
    }
    for (way, took_by) in routes.iter().zip(&took).skip(1) {
        let label = format!("{STREAMS} streams at once, {} / direct", way.name);
        println!("{label:<50} {:>8.2}x", per_second(took_by) / per_second(&took[0]));
    }
    // The CPU time includes the client's, because the client also runs in this process. CPU time
    // does not depend on other load on the machine.
    let direct = worked[0].as_secs_f64();
    for (way, worked) in routes.iter().zip(&worked).skip(1) {
        let label = format!("CPU time per stream, {} minus direct", way.name);
        let own = (worked.as_secs_f64() - direct) / all * 1e3;
        println!("{label:<50} {own:>8.3} ms");
    }
}

/// Measures how the cost of a step grows with its conversation. The loop runs in this process, with
/// 2 KB of tool output per step. The endpoint responds immediately, without parsing the request.
async fn measure_step_cost(gateway: &Gateway) {
    let model: ModelSpec =
        serde_json::from_value(json!({"base_url": start_instant_endpoint().await, "name": "m"}))
            .expect("a model");
    let trial = gateway.open(&model, &Budget::default(), Arc::new(NullRecord)).expect("a trial");
    let mut ask = ModelRequest { messages: vec![user_message("begin")], tools: Vec::new() };
    let (http, url) = (http_client(), format!("{}/chat/completions", model.base_url));
    let (mut took, mut sent) = (Vec::new(), Vec::new());
    for step in 0..2050_usize {
        let begun = Instant::now();
        let answer = trial.ask(&ask).await.expect("an answer");
        took.push(begun.elapsed().as_secs_f64() * 1e3);
        // As a baseline, send the same number of bytes without doing anything else.
        let bytes = "x".repeat(100 + step * 2120);
        let begun = Instant::now();
        http.post(&url).body(bytes).send().await.expect("a head").bytes().await.expect("a body");
        sent.push(begun.elapsed().as_secs_f64() * 1e3);
        ask.messages.push(answer.to_message());
        ask.messages.push(user_message(&"output ".repeat(293)));
    }
    for at in [50, 500, 2000] {
        // Use the median of the neighboring steps, because the scheduler affects a single step.
        let median = |all: &[f64]| {
            let mut near = all[at - 25..at + 25].to_vec();
            near.sort_by(f64::total_cmp);
            near[25]
        };
        let (took, sent) = (median(&took), median(&sent));
        let own = took - sent;
        println!(
            "step {at:<5} {took:>8.2} ms, of which sending {sent:>8.2} ms, the rest {own:>8.2} ms"
        );
    }
}

fn user_message(text: &str) -> Message {
    Message::User { content: text.to_owned() }
}

/// Starts an endpoint that sends the same response to every request.
async fn start_instant_endpoint() -> String {
    const RESPONSE: &str = "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\
        \"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                loop {
                    let (mut line, mut length) = (String::new(), 0);
                    while stream.read_line(&mut line).await.unwrap_or(0) > 2 {
                        let lower = line.to_ascii_lowercase();
                        if let Some(value) = lower.strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap_or(0);
                        }
                        line.clear();
                    }
                    let mut body = vec![0; length];
                    if length == 0 || stream.read_exact(&mut body).await.is_err() {
                        return;
                    }
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                    let said =
                        format!("{head}content-length: {}\r\n\r\n{RESPONSE}", RESPONSE.len());
                    if stream.get_mut().write_all(said.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Returns the CPU time that all threads of this process have used so far.
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).ok();
    let nanoseconds =
        threads.filter_map(|thread| of(thread.path())?.split(' ').next()?.parse::<u64>().ok());
    Duration::from_nanos(nanoseconds.sum())
}

/// Returns the resident memory in bytes of this process, which contains the gateway.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) * 1024.0
}

async fn measure_memory(route: &ModelRoute) {
    let before = resident_bytes();
    let (mut holder, line) = spawn_role(&["hold", &route.url, &route.key]).await;
    assert_eq!(line, "open");
    let each = (resident_bytes() - before) / STREAMS as f64;
    println!(
        "memory for each of {STREAMS} open streams: {:.0} KB, {:.1} times the size of a request",
        each / 1024.0,
        each / PROMPT_BYTES as f64
    );
    if let Some(mut input) = holder.stdin.take() {
        let _ = input.write_all(b"\n").await;
    }
    // If a stream is abandoned, the gateway still reads it to its end, which takes a while.
    let _ = holder.wait().await;
}
