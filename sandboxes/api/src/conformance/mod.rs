//! The conformance kit: the checks that every back end passes.
//!
//! A check is a sentence about sandboxes that holds on every back end. It may be skipped for one reason
//! only: the limit it looks at is listed as not enforced in the sandbox's own
//! [`Enforcement`](crate::Enforcement). Sandboxes need `/bin/sh`, coreutils and `python3`.

mod commands;
mod endings;
mod files;
pub(crate) mod fixture;
mod hardening;
pub(crate) mod kit;
mod limits;
mod outputs;
mod processes;
mod trees;

pub use fixture::{Failed, Fixture};
pub use kit::{Check, CheckResult, announce, checks, missed, render, run_kit};
