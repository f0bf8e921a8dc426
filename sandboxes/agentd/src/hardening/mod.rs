//! The privileges that the agent drops for itself and everything it starts.
//!
//! Both kinds of sandboxes use the same hardening: a native sandbox's first process and the agent
//! in a container apply it before they read a byte of the channel.

mod capabilities;
mod identity;
mod system_calls;

use std::io;

use proctor_wire::Defence;
use rustix::{
    process::{DumpableBehavior, set_dumpable_behavior},
    thread::set_no_new_privs,
};

pub use capabilities::{Powers, of_commands};
pub use identity::{AGENT, is_set_apart};

/// A step of the hardening that failed.
pub type Step = (&'static str, io::Error);

/// Applies the hardening, except what is named. Returns what this machine does not support, as
/// entries of the sandbox's enforcement. Call it while the process has one thread: credentials
/// belong to threads, and later threads inherit them.
pub fn put_on(without: &[Defence]) -> Result<Vec<String>, Step> {
    let up = |defence| !without.contains(&defence);
    let mut notes: Vec<String> =
        without.iter().map(|defence| format!("{}: left out by a test", defence.name())).collect();
    capabilities::narrow().map_err(|error| ("narrow the capability bounding set", error))?;
    if up(Defence::AgentIdentity)
        && let Err(error) = identity::set_apart()
    {
        // Only one id is mapped, or the engine withholds SETUID: the rest of the hardening still
        // works.
        notes.push(format!("agent_identity: the sandbox has no second user ({error})"));
    }
    capabilities::keep(up(Defence::KillCapability))
        .map_err(|error| ("drop capabilities", error))?;
    if up(Defence::NoNewPrivileges) {
        set_no_new_privs(true).map_err(|error| ("set no_new_privs", error.into()))?;
    }
    if up(Defence::SystemCalls) {
        // If a test leaves out no_new_privs, the filter is not possible either.
        match system_calls::install() {
            Err(error) if up(Defence::NoNewPrivileges) => {
                return Err(("install the system call filter", error));
            }
            _ => {}
        }
    }
    // The agent holds the channel and the results pipes. If it is not dumpable, its memory and
    // descriptors in /proc/1 are closed to every process of the sandbox, including root's; a
    // command becomes dumpable again at its exec. Set it in either case, because the change of user
    // above also sets it.
    let dumpable = match up(Defence::NotDumpable) {
        true => DumpableBehavior::NotDumpable,
        false => DumpableBehavior::Dumpable,
    };
    set_dumpable_behavior(dumpable).map_err(|error| ("hide the agent's memory", error.into()))?;
    Ok(notes)
}
