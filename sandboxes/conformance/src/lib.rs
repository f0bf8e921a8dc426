//! What every back end must do and which [`attacks`] it must withstand: the conformance kit.
//!
//! A check is a property of sandboxes that holds on every back end. It may be skipped for only one
//! reason: the sandbox's own [`Enforcement`](proctor_sandbox_api::Enforcement) lists its limit as
//! not enforced. Sandboxes need `/bin/sh`, coreutils and `python3`.

pub mod attacks;
mod check;
mod commands;
mod files;
mod fixture;
mod hardening;
mod kit;
mod layers;
mod lifecycle;
mod limits;
mod mounts;
mod outputs;
mod processes;
mod trees;

pub use check::Check;
pub use fixture::{CheckError, Fixture};
pub use kit::{CheckResult, announce, checks, find_unproven, render, run_kit};
