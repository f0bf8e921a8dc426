//! Helpers: trials whose endpoint is never called, and requests that end in every possible way.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use proctor_gateway::{
    ExchangeSink, Gateway, Meter, PriceTable, RequestBounds, RequestError, SharedMeter,
    TrialGateway,
};
use proctor_types::{Budget, Event, Fault, ModelSpec, RequestClass, Usage};
use serde_json::json;

struct NullSink;

#[async_trait]
impl ExchangeSink for NullSink {
    async fn store_body(&self, _: &[u8]) -> Result<String, Fault> {
        Ok(String::new())
    }

    async fn record_event(&self, _: u64, _: Event) -> Result<(), Fault> {
        Ok(())
    }
}

/// Maximum number of tokens of a response.
pub const WINDOW: u64 = 600;

pub fn trial(budget: &Budget, shared_meters: &[SharedMeter]) -> TrialGateway {
    let prices = "[models.m]\ninput = 1000.0\noutput = 2000.0\ncached = 500.0\n";
    let gateway = Gateway::new(PriceTable::parse(prices).expect("prices")).expect("a gateway");
    let spec = json!({"base_url": "http://127.0.0.1:9/v1", "name": "m", "context_window": WINDOW});
    let model: ModelSpec = serde_json::from_value(spec).expect("a model");
    let meter = Meter::new(budget.clone()).with_shared_meters(shared_meters.iter().cloned());
    gateway.open_with_meter(&model, Arc::new(meter), Arc::new(NullSink)).expect("a usable model")
}

#[derive(Debug, Clone, Copy)]
pub enum End {
    Delivered,
    /// The response was billed, but cannot be used.
    Billed,
    Dropped,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub class: RequestClass,
    pub usage: Usage,
    /// How many more input and output tokens than `usage` are reserved.
    pub extra_reservation: (u64, u64),
    pub sets_output_limit: bool,
    /// How many times other tasks run before the request is sent, and while it is in flight.
    pub yields: (u8, u8),
    pub end: End,
}

impl Request {
    pub fn bounds(&self) -> RequestBounds {
        let max_output =
            self.sets_output_limit.then_some(self.usage.output + self.extra_reservation.1);
        RequestBounds {
            class: self.class,
            input_estimate: self.usage.input + self.extra_reservation.0,
            max_output,
        }
    }
}

/// Log of the admitted requests.
#[derive(Debug, Default)]
pub struct Log(Mutex<LogState>);

#[derive(Debug, Default)]
pub struct LogState {
    /// The most recent billed usage.
    pub last: Usage,
    pub in_flight: usize,
    pub max_in_flight: usize,
}

impl Log {
    pub fn with_state<T>(&self, read: impl FnOnce(&mut LogState) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Acts as one client: sends the requests in turn, until one is rejected.
pub async fn client(trial: &TrialGateway, requests: &[Request], log: &Log) -> Option<RequestError> {
    for request in requests {
        yield_times(request.yields.0).await;
        let admission = match trial.admit(request.bounds()).await {
            Ok(admission) => admission,
            Err(error) => return Some(error),
        };
        log.with_state(|seen| {
            if !matches!(request.end, End::Dropped) {
                seen.last = request.usage;
            }
            seen.in_flight += 1;
            seen.max_in_flight = seen.max_in_flight.max(seen.in_flight);
        });
        yield_times(request.yields.1).await;
        log.with_state(|seen| seen.in_flight -= 1);
        let cost = trial.cost(&request.usage);
        match request.end {
            End::Delivered => {
                admission.settle(&request.usage, cost, true);
            }
            End::Billed => {
                admission.settle(&request.usage, cost, false);
            }
            End::Dropped => drop(admission),
        }
    }
    None
}

async fn yield_times(count: u8) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}
