//! The attacks that every back end must stop.
//!
//! An attack is a program that tries to reach the agent, the kernel, the machine's memory or
//! another sandbox. The attack has failed if none of its attempts works, another sandbox still
//! responds during the attack, and no resources of the attacked sandbox remain afterwards.
//!
//! Like a conformance check, an attack may be skipped only if its limit is listed as not enforced
//! in the sandbox's own [`Enforcement`](proctor_sandbox_api::Enforcement).
//!
//! If this is cheap to test, an attack lists the defenses that prevent it. A test disables those
//! defenses and checks that the attack then succeeds, which proves that the attack is real.

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
