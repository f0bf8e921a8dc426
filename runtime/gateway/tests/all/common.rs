//! A gateway that talks to a scripted model over real HTTP, and a sink that keeps everything that
//! the gateway records.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use fake_llm::{FakeLlm, Script};
use proctor_gateway::{ExchangeSink, Gateway, PriceTable, RequestError, RetryPolicy, TrialGateway};
use proctor_types::{
    Api, Budget, Event, Fault, FieldLoss, Message, ModelRequest, ModelResponse, ModelSpec,
    ToolSpec, Usage,
};
use serde_json::json;

pub const KEY: &str = "sk-test-0123456789";
/// Value of the variable SHORT_KEY. This key fits into one chunk of a scripted stream.
pub const SHORT_KEY: &str = "k3y-4711";

const PRICES: &str = "[models.priced]\ninput = 1000.0\noutput = 2000.0\ncached = 500.0\n";

/// One attempt, read from its events and bodies.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub wait_seconds: f64,
    pub queued_seconds: f64,
    pub seconds: f64,
    pub first_byte_seconds: Option<f64>,
    pub request_body: Bytes,
    pub response_body: Bytes,
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
}

/// One request of an HTTP client, read from its events and bodies.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedRequest {
    pub client: Api,
    pub upstream: Api,
    pub status: u16,
    pub request: Bytes,
    pub response: Bytes,
    pub losses: Vec<FieldLoss>,
    pub model_response: Option<ModelResponse>,
    pub is_delivered: bool,
    pub cost_usd: Option<f64>,
}

/// Keeps everything that the gateway records. A body's hash is its index.
#[derive(Default)]
pub struct RecordingSink {
    bodies: Mutex<Vec<Bytes>>,
    events: Mutex<Vec<(u64, Event)>>,
}

#[async_trait]
impl ExchangeSink for RecordingSink {
    async fn store_body(&self, bytes: &[u8]) -> Result<String, Fault> {
        let mut bodies = self.bodies.lock().expect("no panic in a sink");
        bodies.push(Bytes::copy_from_slice(bytes));
        Ok((bodies.len() - 1).to_string())
    }

    async fn record_event(&self, step: u64, event: Event) -> Result<(), Fault> {
        self.events.lock().expect("no panic in a sink").push((step, event));
        Ok(())
    }
}

impl RecordingSink {
    fn bytes(&self, hash: Option<&String>) -> Bytes {
        let bodies = self.bodies.lock().expect("no panic in a sink");
        hash.map(|place| bodies[place.parse::<usize>().expect("a place")].clone())
            .unwrap_or_default()
    }

    /// Returns the body with this hash.
    pub fn body(&self, hash: &str) -> Bytes {
        self.bytes(Some(&hash.to_owned()))
    }

    pub fn events(&self) -> Vec<(u64, Event)> {
        self.events.lock().expect("no panic in a sink").clone()
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        let attempt = |(_, event)| match event {
            Event::ModelAttempted {
                attempt,
                status,
                error,
                wait_seconds,
                queued_seconds,
                shared_seconds: _,
                seconds,
                lost_seconds: _,
                first_byte_seconds,
                usage,
                cost_usd,
                responder: _,
                repairs: _,
                request,
                body,
            } => Some(Attempt {
                number: attempt,
                status,
                error,
                wait_seconds,
                queued_seconds,
                seconds: seconds.expect("always timed"),
                first_byte_seconds,
                request_body: self.bytes(request.as_ref()),
                response_body: self.bytes(body.as_ref()),
                usage,
                cost_usd,
            }),
            _ => None,
        };
        self.events().into_iter().filter_map(attempt).collect()
    }

    pub fn served_requests(&self) -> Vec<ServedRequest> {
        let events = self.events();
        let mut all = Vec::new();
        for (place, (_, event)) in events.iter().enumerate() {
            if let Event::RequestServed {
                client,
                upstream,
                status,
                request,
                response,
                losses,
                answer,
                delivered,
                cost_usd,
                ..
            } = event
            {
                // A step's response has its own event, which follows.
                let next = events.get(place + 1).map(|(_, event)| event);
                let of_step = match next {
                    Some(Event::ModelAnswered { answer }) => Some(answer.clone()),
                    _ => None,
                };
                all.push(ServedRequest {
                    client: *client,
                    upstream: *upstream,
                    status: *status,
                    request: self.bytes(Some(request)),
                    response: self.bytes(response.as_ref()),
                    losses: losses.clone(),
                    model_response: answer.as_deref().cloned().or(of_step),
                    is_delivered: *delivered,
                    cost_usd: *cost_usd,
                });
            }
        }
        all
    }
}

pub struct Bench {
    pub server: FakeLlm,
    pub trial: Arc<TrialGateway>,
    pub sink: Arc<RecordingSink>,
}

impl Bench {
    pub async fn new(script: &str, budget: Budget) -> Self {
        Self::with_model(script, budget, |_| {}).await
    }

    pub async fn with_model(
        script: &str,
        budget: Budget,
        configure: impl FnOnce(&mut ModelSpec),
    ) -> Self {
        let script = Script::parse(script).expect("a valid script");
        let server = FakeLlm::start(script).await.expect("a free port");
        let mut model = model(&server.base_url());
        configure(&mut model);
        let kept = Arc::new(RecordingSink::default());
        let trial = gateway().open(&model, &budget, kept.clone()).expect("a usable model");
        Self { server, trial: Arc::new(trial), sink: kept }
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        self.sink.attempts()
    }

    pub fn served_requests(&self) -> Vec<ServedRequest> {
        self.sink.served_requests()
    }

    /// Returns the status of each attempt, and whether it had an error.
    pub fn outcomes(&self) -> Vec<(Option<u16>, bool)> {
        self.attempts().iter().map(|attempt| (attempt.status, attempt.error.is_some())).collect()
    }
}

/// Returns a gateway with short waits and few attempts.
pub fn gateway() -> Gateway {
    let policy = RetryPolicy {
        attempts: 4,
        connect_attempts: 2,
        first_seconds: 0.02,
        longest_seconds: 0.05,
        total_seconds: 20.0,
        attempt_seconds: 20.0,
        idle_seconds: 20.0,
        notice_seconds: 30.0,
        silent_attempts: 2,
        empty_attempts: 3,
        rejected_attempts: 3,
        cut_streams: 3,
        silent_share: 0.2,
        silent_seconds: 30.0,
        silent_factor: 2.0,
        alike_trials: 3,
        connect_seconds: 5.0,
    };
    let prices = PriceTable::parse(PRICES).expect("a valid table");
    Gateway::with_policy(prices, policy).expect("a gateway").with_key_lookup(|name| match name {
        "TEST_KEY" => Some(KEY.to_owned()),
        "SHORT_KEY" => Some(SHORT_KEY.to_owned()),
        _ => None,
    })
}

pub fn model(base_url: &str) -> ModelSpec {
    ModelSpec {
        base_url: base_url.into(),
        name: "priced".into(),
        api: Default::default(),
        key_env: Some("TEST_KEY".into()),
        context_window: None,
        price: None,
        cutoff: None,
        tool_check: None,
        cache: None,
        temperature: None,
        top_p: None,
        max_output_tokens: None,
        reasoning_effort: None,
        tokenizer: None,
        seed: None,
        extra_body: Default::default(),
    }
}

pub fn user_request(text: &str) -> ModelRequest {
    ModelRequest { messages: vec![Message::User { content: text.into() }], tools: Vec::new() }
}

pub fn expect_fault(error: RequestError) -> Fault {
    match error {
        RequestError::Fault(fault) => fault,
        other => panic!("not a fault: {other:?}"),
    }
}

pub async fn start_fake_llm(text: &str) -> FakeLlm {
    FakeLlm::start(Script::parse(text).expect("a valid script")).await.expect("a free port")
}

pub fn open_trial(gateway: &Gateway, spec: &ModelSpec) -> TrialGateway {
    gateway
        .open(spec, &Budget::default(), Arc::new(RecordingSink::default()))
        .expect("a usable model")
}

pub fn request_with_tools(text: &str) -> ModelRequest {
    let tool = ToolSpec {
        name: "shell".into(),
        description: "Runs a command.".into(),
        parameters: json!({"type": "object"}),
    };
    ModelRequest { tools: vec![tool], ..user_request(text) }
}

/// Returns a conversation with `response_count` responses from the model.
pub fn conversation_with_responses(response_count: usize) -> ModelRequest {
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
        talk.messages.push(Message::User { content: "Continue with the next step.".into() });
    }
    talk
}
