//! The gateway over HTTP: what a scaffold inside a sandbox, or a client on the host, talks to.
//!
//! ```text
//! connection ─ listen ─ route ─ token ─┬─ local answers: model lists, token counts
//!                                      └─ call ─ withhold ─ codec ─ TrialGateway::serve ─ reply
//! ```
//!
//! A [`GatewayServer`] serves one trial. Every request that reaches a model goes the one way of `TrialGateway::serve`;
//! nothing here sends requests.

mod body;
mod call;
mod client;
mod listen;
mod local;
mod policy;
mod refusal;
mod reply;
mod route;
mod said;
mod stored;
mod token;
mod traffic;
mod withhold;

pub use listen::{GatewayServer, Listening};
