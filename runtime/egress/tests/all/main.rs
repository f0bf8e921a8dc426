//! Tests the proxy over real sockets and real TLS, with real clients.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod clients;
mod fixture;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod refusals;
#[path = "../../../../tests/end_to_end/upstream.rs"]
mod upstream;
