//! The one object that all model calls pass: metered, recorded, and refused at the budget.
//!
//! ```text
//! Gateway::open ── TrialGateway::ask ─┬─ Meter     reached? then refused, before anything leaves
//!   (prices,        (one a trial)     ├─ request   Ask -> body, vendor fields laid over
//!    retry policy,                    ├─ exchange  async-openai, our own tower service: exact bytes
//!    HTTP clients)                    ├─ ExchangeSink::attempt   every go, failed ones included
//!                                     ├─ judge     answer, again, rejected, or fault
//!                                     └─ Meter     charged, also for a billed answer of no use
//! ```
//!
//! It sees no sandbox. The key lives in the [`TrialGateway`] alone and reaches no record.

mod answer;
mod endpoint;
mod error;
mod exchange;
mod gateway;
mod judge;
mod meter;
mod prices;
mod request;
mod retry;
pub mod tokens;
mod trial;

pub use error::AskError;
pub use exchange::{Attempt, ExchangeSink};
pub use gateway::Gateway;
pub use prices::{Listed, PriceTable};
pub use retry::RetryPolicy;
pub use trial::TrialGateway;
