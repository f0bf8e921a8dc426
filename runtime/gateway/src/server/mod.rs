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
mod client;
mod client_reply;
mod client_request;
mod conversation_fields;
mod error_response;
mod listen;
mod local;
mod policy;
mod reply;
mod route;
mod state;
mod stored_responses;
mod token;
mod traffic;
mod withhold;

pub use listen::{GatewayServer, ListenerHandle};
