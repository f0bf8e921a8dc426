//! The conformance kit: what every back end must do, and which [`attacks`] it must withstand.
//!
//! A check tests a property that sandboxes must have on every back end. It may be skipped only if
//! its limit is listed as not enforced in the sandbox's own
//! [`Enforcement`](proctor_sandbox_api::Enforcement). Sandboxes need `/bin/sh`, coreutils and
//! `python3`.

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
pub use kit::{CheckResult, checks, find_unproven, print_results, render_results, run_kit};
