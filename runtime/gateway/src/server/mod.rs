//! The gateway over HTTP: what a scaffold inside a sandbox, or a client on the host, talks to.
//!
//! ```text
//! connection ─ server ─ route ─ token ─┬─ local answers: model lists, token counts
//!                                      └─ call ─ withhold ─ codec ─ admit ─ go ─ relay ─ client
//! ```
//!
//! A [`GatewayServer`] serves one trial. Every request that reaches a model is admitted by the trial's meter
//! before it leaves and settled after; nothing else sends requests.

mod body;
mod call;
mod client;
mod listen;
mod local;
mod policy;
mod record;
mod refusal;
mod relay;
mod route;
mod send;
mod token;
mod withhold;

pub use listen::{GatewayServer, Listening};
pub use record::Served;
