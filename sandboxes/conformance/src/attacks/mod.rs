//! The attacks that every back end must stop.
//!
//! An attack is a program that tries to reach the agent, the kernel, the machine's memory or
//! another sandbox. It has failed if none of its attempts works, another sandbox still responds
//! during the attack, and nothing of the attacked sandbox remains afterwards.
//!
//! Like a conformance check, an attack may be skipped for only one reason: the sandbox's own
//! [`Enforcement`](proctor_sandbox_api::Enforcement) lists its limit as not enforced.
//!
//! Where it is cheap to show, an attack lists the defences without which it succeeds. A test
//! disables them and checks that the attack succeeds, which proves that the attack works at all.

mod agent;
mod attack;
mod kernel;
mod list;
mod memory;
mod neighbours;
mod paths;
mod processes;
mod run;
mod storage;

pub use attack::Attack;
pub use list::attacks;
pub use run::{ResourceLister, run_attacks, run_expecting_success};
