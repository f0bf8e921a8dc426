//! The gateway over HTTP, for a scaffold inside a sandbox or a client on the host.
//!
//! ```text
//! connection ─ listen ─ route ─ token ─┬─ local responses: model lists, token counts
//!                                      └─ call ─ withhold ─ codec ─ TrialGateway::serve ─ reply
//! ```
//!
//! A [`GatewayServer`] serves one trial. Every model request passes through `TrialGateway::serve`;
//! this module sends none itself.

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
