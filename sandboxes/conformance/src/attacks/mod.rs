//! The attacks that every back end must stop.
//!
//! An attack is a program that tries to reach the agent, the kernel, the machine's memory or
//! another sandbox. It fails if none of its attempts works, another sandbox that runs meanwhile
//! still responds, and nothing of the attacked sandbox remains afterwards. Like a check of the
//! conformance kit, it may be skipped for only one reason: the sandbox's own
//! [`Enforcement`](proctor_sandbox_api::Enforcement) lists its limit as not enforced.
//!
//! If that is cheap, an attack names the defences without which it succeeds. A test disables them
//! and checks that it succeeds, so that no attack counts as stopped that never worked.

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
