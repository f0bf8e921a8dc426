//! The conformance kit: the checks that every back end passes.
//!
//! A check is a sentence about rooms that holds on every back end. It may be skipped for one reason
//! only: the limit it looks at is listed as not enforced in the room's own
//! [`Enforcement`](crate::Enforcement). Rooms need `/bin/sh`, coreutils and `python3`.

mod commands;
mod endings;
mod files;
pub(crate) mod ground;
pub(crate) mod kit;
mod limits;
mod outputs;
mod processes;
mod seal;
mod trees;

pub use ground::{Failed, Ground};
pub use kit::{Check, CheckResult, announce, checks, render, run_kit};
