//! A gateway that talks to a script over real HTTP, and a sink that keeps what it is told.

#![expect(clippy::expect_used, reason = "a test that cannot go on says why")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fake_llm::{FakeLlm, Script};
use proctor_gateway::{
    Attempt, ExchangeSink, Gateway, PriceTable, RetryPolicy, Served, TrialGateway,
};
use proctor_types::{Ask, Budget, Fault, Message, ModelSpec};

pub const KEY: &str = "sk-test-0123456789";
/// In the variable SHORT_KEY: it goes into one piece of a scripted stream.
pub const SHORT_KEY: &str = "k3y-4711";

const PRICES: &str = "[models.priced]\ninput = 1000.0\noutput = 2000.0\ncached = 500.0\n";

#[derive(Default)]
pub struct Kept(Mutex<Vec<Attempt>>, Mutex<Vec<Served>>);

#[async_trait]
impl ExchangeSink for Kept {
    async fn attempt(&self, attempt: Attempt) -> Result<(), Fault> {
        self.0.lock().expect("no panic in a sink").push(attempt);
        Ok(())
    }

    async fn served(&self, served: Served) -> Result<(), Fault> {
        self.1.lock().expect("no panic in a sink").push(served);
        Ok(())
    }
}

impl Kept {
    pub fn attempts(&self) -> Vec<Attempt> {
        self.0.lock().expect("no panic in a sink").clone()
    }
}

pub struct Bench {
    pub server: FakeLlm,
    pub trial: Arc<TrialGateway>,
    pub kept: Arc<Kept>,
}

impl Bench {
    pub async fn new(script: &str, budget: Budget) -> Self {
        Self::with(script, budget, |_| {}).await
    }

    pub async fn with(script: &str, budget: Budget, set: impl FnOnce(&mut ModelSpec)) -> Self {
        let script = Script::parse(script).expect("a sound script");
        let server = FakeLlm::start(script).await.expect("a free port");
        let mut model = model(&server.base_url());
        set(&mut model);
        let kept = Arc::new(Kept::default());
        let trial = gateway().open(&model, &budget, kept.clone()).expect("a usable model");
        Self { server, trial: Arc::new(trial), kept }
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        self.kept.attempts()
    }

    pub fn served(&self) -> Vec<Served> {
        self.kept.1.lock().expect("no panic in a sink").clone()
    }

    /// Statuses and whether there was an error, go by go.
    pub fn goes(&self) -> Vec<(Option<u16>, bool)> {
        self.attempts().iter().map(|go| (go.status, go.error.is_some())).collect()
    }
}

/// Quick waits, few goes.
pub fn gateway() -> Gateway {
    let policy = RetryPolicy {
        attempts: 4,
        connect_attempts: 2,
        first_seconds: 0.02,
        longest_seconds: 0.05,
        total_seconds: 20.0,
        attempt_seconds: 20.0,
        idle_seconds: 20.0,
        silent_attempts: 2,
        lost_share: 0.5,
        alike_trials: 3,
        connect_seconds: 5.0,
    };
    let prices = PriceTable::parse(PRICES).expect("a sound table");
    Gateway::with_policy(prices, policy).expect("a gateway").keys(|name| match name {
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
        temperature: None,
        top_p: None,
        max_output_tokens: None,
        reasoning_effort: None,
        seed: None,
        extra_body: Default::default(),
    }
}

pub fn ask(text: &str) -> Ask {
    Ask { messages: vec![Message::User { content: text.into() }], tools: Vec::new() }
}
