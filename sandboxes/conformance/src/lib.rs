//! What every back end must do and withstand: the conformance kit, and the [`attacks`].
//!
//! A check is a statement about sandboxes that is true on every back end. It may be skipped for
//! only one reason: the sandbox's own [`Enforcement`](proctor_sandbox_api::Enforcement) lists its
//! limit as not enforced. Sandboxes need `/bin/sh`, coreutils and `python3`.

pub mod attacks;
mod commands;
mod endings;
mod files;
mod fixture;
mod hardening;
mod kit;
mod layers;
mod limits;
mod mounts;
mod outputs;
mod processes;
mod trees;

pub use fixture::{Failed, Fixture};
pub use kit::{Check, CheckResult, announce, checks, missed, render, run_kit};
