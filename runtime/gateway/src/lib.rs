//! The object that all model calls pass through: it meters, records, and rejects requests over
//! budget.
//!
//! ```text
//! TrialGateway::ask ─┐                      in process: an `Ask` becomes a request
//! GatewayServer ─────┴─ TrialGateway::serve   over HTTP: a client's bytes become one
//!      ├─ admit     reserved beside what is in flight, or rejected
//!      ├─ send      the exact bytes, once; the response is read as it arrives
//!      ├─ judge     response, retry, rejection, or fault
//!      ├─ settle    charged, even for a useless billed response; a delivered response gets its step
//!      ├─ record    ExchangeSink: every attempt, failed ones included
//!      └─ deliver   the end is delivered only after it is recorded
//! ```
//!
//! [`RequestRules`] decides which requests over HTTP belong to the main conversation.
//!
//! The gateway has no access to the sandbox. Only [`TrialGateway`] holds the key, which is never
//! recorded.

mod admission;
mod ask;
mod checks;
mod clock;
mod context_window;
mod damage;
mod endpoint;
mod error;
mod first_answer;
mod form;
mod gateway;
mod halts;
mod judge;
mod limiter;
mod lost;
mod meter;
mod patterns;
mod prices;
mod rates;
mod recheck;
mod rejections;
mod repair;
mod replay;
mod request;
mod request_path;
mod responder;
mod retry;
#[cfg(test)]
mod round_trip;
mod rules;
mod scope;
mod secret;
mod send;
mod server;
mod settings;
mod shared;
mod sink;
pub mod tokens;
mod tool_support;
mod trial;
mod trouble;
mod turns;
mod usage;
mod words;

use proctor_codecs as codec;

pub use admission::{Admission, Reserve};
pub use context_window::ContextWindow;
pub use error::AskError;
pub use gateway::Gateway;
pub use meter::{Meter, SharedMeter, Used};
pub use prices::{Listed, PriceTable};
pub use proctor_types::{RequestRule, RequestRules};
pub use rates::{EndpointRates, RatePolicy};
pub use recheck::recheck_rejection;
pub use retry::RetryPolicy;
pub use rules::{RequestFacts, classify};
pub use server::{GatewayServer, Listening};
pub use settings::{WrongSetting, check_settings};
pub use shared::{
    Amounts, REQUESTS, Refused, Reservation, SharedLimit, SharedRates, TOKENS,
    limits as limits_by_name, spent as spent_by_name,
};
pub use sink::{ExchangeSink, Waiting};
pub use trial::TrialGateway;
