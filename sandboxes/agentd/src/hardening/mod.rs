//! What the agent takes away from itself, and with that from everything it starts.
//!
//! One harden for both kinds of sandboxes: a native sandbox's first process and the agent in a container put it
//! on before they read a byte of the channel.

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

/// Puts the hardening on, but for what is named. Returns what this machine does not allow, as entries of
/// the sandbox's enforcement. Must be called while the process has one thread: credentials belong to
/// threads, and later ones inherit them.
pub fn put_on(without: &[Defence]) -> Result<Vec<String>, Step> {
    let up = |defence| !without.contains(&defence);
    let mut notes: Vec<String> =
        without.iter().map(|defence| format!("{}: left out by a test", defence.name())).collect();
    capabilities::narrow().map_err(|error| ("narrow the capability bounding set", error))?;
    if up(Defence::AgentIdentity)
        && let Err(error) = identity::set_apart()
    {
        // One mapped id, or an engine that keeps SETUID back: the rest of the hardening still holds.
        notes.push(format!("agent_identity: no second user in the sandbox ({error})"));
    }
    capabilities::keep(up(Defence::KillCapability))
        .map_err(|error| ("drop capabilities", error))?;
    if up(Defence::NoNewPrivileges) {
        set_no_new_privs(true).map_err(|error| ("set no_new_privs", error.into()))?;
    }
    if up(Defence::SystemCalls) {
        // Where a test leaves no_new_privs out, the filter cannot be had either.
        match system_calls::install() {
            Err(error) if up(Defence::NoNewPrivileges) => {
                return Err(("install the filter of system calls", error));
            }
            _ => {}
        }
    }
    // The agent holds the channel and the results pipes. Not dumpable, its memory and descriptors
    // in /proc/1 are closed to every process of the sandbox, root's too; a command is dumpable again
    // from its exec on. Said either way: the change of user above has its own idea.
    let dumpable = match up(Defence::NotDumpable) {
        true => DumpableBehavior::NotDumpable,
        false => DumpableBehavior::Dumpable,
    };
    set_dumpable_behavior(dumpable).map_err(|error| ("hide the agent's memory", error.into()))?;
    Ok(notes)
}
