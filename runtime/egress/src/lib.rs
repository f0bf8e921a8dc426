//! The egress proxy controls which URLs a sandbox without its own network access may reach, and
//! records all requests in a ledger.
//! The crate does not depend on sandboxes: the proxy serves any byte stream that carries the HTTP
//! proxy protocol.

mod address;
mod aliases;
mod ca;
mod client;
mod dial;
mod egress;
mod forward;
mod glob;
mod keystore;
mod ledger;
mod mirrors;
#[cfg(test)]
#[path = "../../../tests/not_run.rs"]
mod not_run;
mod pattern;
mod policy;
mod private;
mod proxy;
mod responses;
mod settings;
mod streams;
mod target;
mod tunnel;

pub use address::{ForbiddenReason, forbidden_reason};
pub use client::{ClientFiles, client_env};
pub use dial::{Resolver, SystemResolver};
pub use egress::{Egress, read_certificates};
pub use ledger::{BodyLimits, Ledger};
pub use pattern::{Pattern, PatternError};
pub use policy::{Policy, Ruling};
pub use private::AddressException;
pub use proxy::EgressProxy;
pub use target::{Target, TargetError};
