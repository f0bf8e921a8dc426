//! The one object that all model calls pass: metered, recorded, and refused at the budget.
//!
//! ```text
//! TrialGateway::ask ─┐                      in process: an `Ask` becomes a request
//! GatewayServer ─────┴─ TrialGateway::serve   over HTTP: a client's bytes become one
//!      ├─ admit     held beside what is in flight, or refused
//!      ├─ send      the exact bytes, once; what comes is read as it comes
//!      ├─ judge     answer, again, rejected, or fault
//!      ├─ settle    charged, also for a billed answer of no use; a delivered answer gets its step
//!      ├─ record    ExchangeSink: every attempt, failed ones included
//!      └─ deliver   what the record holds, its end is given
//! ```
//!
//! [`RequestRules`] says which requests over HTTP are the main conversation's.
//!
//! It sees no sandbox. The key lives in the [`TrialGateway`] alone and reaches no record.

mod admission;
mod ask;
mod checks;
mod clock;
mod codec;
mod context_window;
mod damage;
mod endpoint;
mod error;
mod first_answer;
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
mod responder;
mod retry;
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
mod way;
mod words;

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
