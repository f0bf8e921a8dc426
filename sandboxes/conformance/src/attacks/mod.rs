//! The attacks that every back end withstands.
//!
//! An attack is a program that tries to reach the agent, the kernel, the machine's memory or another
//! sandbox. It is withstood where nothing of it works, another sandbox that runs meanwhile still answers, and
//! nothing of the attacked sandbox is left afterwards. Like a check of the conformance kit, it may be
//! skipped for one reason only: what it looks at is listed as not enforced in the sandbox's own
//! [`Enforcement`](proctor_sandbox_api::Enforcement).
//!
//! Where that is cheap, an attack names the defences without which it succeeds; a test takes them down
//! and watches it succeed, so that no attack is counted as stopped that never worked.

mod agent;
mod kernel;
mod list;
mod memory;
mod neighbours;
mod paths;
mod processes;
mod run;
mod storage;

pub use list::{Attack, attacks};
pub use run::{Census, run_attacks, succeeds};
