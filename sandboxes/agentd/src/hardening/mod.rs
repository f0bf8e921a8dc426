//! Drops the privileges of the agent and of everything that it starts.
//!
//! Both back ends use the same hardening. The first process of a native sandbox and the agent in a
//! container apply it before they read from the channel.

mod capabilities;
mod identity;
mod system_calls;

use std::io;

use proctor_wire::Defense;
use rustix::{
    process::{DumpableBehavior, set_dumpable_behavior},
    thread::set_no_new_privs,
};

pub use capabilities::{ProcessCapabilities, command_capabilities};
pub use identity::{AGENT_UID, runs_as_agent_user};

/// A hardening step that failed, with the error.
pub type FailedOperation = (&'static str, io::Error);

/// Applies the hardening, except for the defenses in `disabled_defenses`. For each defense that is
/// disabled or that this machine doesn't support, returns an entry for the sandbox's enforcement.
/// Call it while the process has a single thread: credentials are per thread, and later threads
/// inherit them.
pub fn apply(disabled_defenses: &[Defense]) -> Result<Vec<String>, FailedOperation> {
    let up = |defense| !disabled_defenses.contains(&defense);
    let mut notes: Vec<String> = disabled_defenses
        .iter()
        .map(|defense| format!("{}: disabled by a test", defense.name()))
        .collect();
    capabilities::limit_bounding_set()
        .map_err(|error| ("narrow the capability bounding set", error))?;
    if up(Defense::AgentIdentity)
        && let Err(error) = identity::switch_to_agent_user()
    {
        // Either the sandbox has only one id, or the engine withholds SETUID. The rest of the
        // hardening still works.
        notes.push(format!("agent_identity: the sandbox has no second user ({error})"));
    }
    capabilities::drop_capabilities(up(Defense::KillCapability))
        .map_err(|error| ("drop capabilities", error))?;
    if up(Defense::NoNewPrivileges) {
        set_no_new_privs(true).map_err(|error| ("set no_new_privs", error.into()))?;
    }
    if up(Defense::SystemCalls) {
        // A test that disables no_new_privs also disables the filter, which requires it.
        match system_calls::install() {
            Err(error) if up(Defense::NoNewPrivileges) => {
                return Err(("install the system call filter", error));
            }
            _ => {}
        }
    }
    // The agent has the channel and the results pipes open. If the agent is not dumpable, no
    // process in the sandbox, not even one of root's, can access the agent's memory and descriptors
    // in /proc/1. A command becomes dumpable again when it executes a program. Set the flag in
    // either case, because changing the user above also changes the flag.
    let dumpable = match up(Defense::NotDumpable) {
        true => DumpableBehavior::NotDumpable,
        false => DumpableBehavior::Dumpable,
    };
    set_dumpable_behavior(dumpable)
        .map_err(|error| ("make the agent non-dumpable", error.into()))?;
    Ok(notes)
}
