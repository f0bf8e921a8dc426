//! The one object that all model calls pass: metered, recorded, and refused at the budget.
//!
//! ```text
//! Gateway::open ── TrialGateway::ask ─┬─ admit     held beside what is in flight, or refused
//!   (prices,        (one a trial)     ├─ request   Ask -> body, vendor fields laid over
//!    retry policy,                    ├─ exchange  async-openai, our own tower service: exact bytes
//!    HTTP clients)                    ├─ ExchangeSink::attempt   every attempt, failed ones included
//!                                     ├─ judge     answer, again, rejected, or fault
//!                                     └─ settle    charged, also for a billed answer of no use
//! ```
//!
//! Requests that come over HTTP pass the same two ends: [`TrialGateway::admit`] before they leave,
//! [`Admission::settle`] after. [`RequestRules`] says which of them are the main conversation's.
//!
//! It sees no sandbox. The key lives in the [`TrialGateway`] alone and reaches no record.

mod admission;
mod answer;
mod clock;
mod codec;
mod endpoint;
mod error;
mod exchange;
mod gateway;
mod halts;
mod judge;
mod limiter;
mod lost;
mod meter;
mod prices;
mod rates;
mod rejections;
mod request;
mod retry;
mod rules;
mod scope;
mod secret;
mod server;
mod settings;
pub mod tokens;
mod trial;
mod trouble;
mod words;

pub use admission::{Admission, Reserve};
pub use error::AskError;
pub use exchange::{Attempt, ExchangeSink, Waiting};
pub use gateway::Gateway;
pub use meter::{Meter, SharedMeter};
pub use prices::{Listed, PriceTable};
pub use rates::{EndpointRates, RatePolicy};
pub use retry::RetryPolicy;
pub use rules::{RequestFacts, RequestRule, RequestRules};
pub use server::{GatewayServer, Listening, Served};
pub use settings::{WrongSetting, check_settings};
pub use trial::TrialGateway;
