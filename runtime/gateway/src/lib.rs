//! The gateway that all model calls pass through. The gateway meters and records requests, and
//! rejects those over budget.
//!
//! ```text
//! TrialGateway::ask ─┐                      in process: turns a `ModelRequest` into a request
//! GatewayServer ─────┴─ TrialGateway::serve   over HTTP: turns a client's bytes into a request
//!      ├─ admit     reserves budget alongside the requests in flight, or rejects
//!      ├─ send      sends the exact bytes once and reads the response as it arrives
//!      ├─ judge     classifies the attempt: response, retry, rejection or fault
//!      ├─ settle    charges every billed response, even an unusable one; numbers the steps
//!      ├─ record    ExchangeSink: every attempt, including failed ones
//!      └─ deliver   sends the end of the response only after it is recorded
//! ```
//!
//! [`RequestRules`] decides which requests over HTTP belong to the main conversation.
//!
//! The gateway has no access to the sandbox. Only [`TrialGateway`] holds the key, which is never
//! recorded.

mod admission;
mod anomalies;
mod answer_in_reasoning;
mod applied_edits;
mod ask;
mod attempt_failure;
mod attempts;
mod checks;
mod clock;
mod context_window;
mod cut_points;
mod defects;
mod doubled_deltas;
mod echoed_prompt;
mod endpoint;
mod endpoint_failures;
mod error;
mod error_text;
mod fences;
mod first_prompts;
mod first_response;
mod first_response_gate;
mod gateway;
mod halts;
mod indentation;
mod judge;
mod limiter;
mod lost_time;
mod merged_calls;
mod meter;
mod mojibake;
mod outgoing_request;
mod patterns;
mod prices;
mod prior_usage;
mod prompt_counts;
mod proxy_text;
mod queue_time;
mod rate_limiters;
mod rates;
mod recheck;
mod recorded_attempts;
mod rejections;
mod repair;
mod repaired_request;
mod replay;
mod request;
mod request_path;
mod responder;
mod retry;
#[cfg(test)]
mod round_trip;
mod rules;
mod run_responses;
mod scope;
mod secret;
mod send;
mod sent_conversation;
mod server;
mod settings;
mod shared;
mod sink;
mod stop_report;
mod stream_damage;
pub mod tokens;
mod tool_support;
mod trial;
mod turns;
mod usage;
mod usage_audit;

use proctor_codecs as codec;

pub use admission::{Admission, RequestBounds};
pub use context_window::ContextWindowRules;
pub use error::RequestError;
pub use gateway::Gateway;
pub use meter::{Meter, SharedMeter};
pub use prices::{ListedModel, PriceTable};
pub use prior_usage::PriorUsage;
pub use proctor_types::{RequestRule, RequestRules};
pub use rates::{EndpointRates, RatePolicy};
pub use recheck::recheck_rejection;
pub use recorded_attempts::{RecordedAttempt, RecordedAttempts};
pub use retry::RetryPolicy;
pub use rules::{RequestFacts, classify_request};
pub use server::{GatewayServer, ListenerHandle};
pub use settings::{InvalidSetting, check_settings};
pub use shared::{
    Amounts, REQUESTS, Reservation, ReserveError, SharedLimit, SharedRates, TOKENS,
    limit_amounts as limits_by_name, spent_amounts as spent_by_name,
};
pub use sink::{ExchangeSink, WaitNotice};
pub use trial::TrialGateway;
