//! The capabilities that the sandbox's root keeps.

use std::{io, sync::OnceLock};

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

use super::identity;

/// The capabilities for file operations, changing users and killing processes. None of them has an
/// effect outside the sandbox: they apply only in the sandbox's user namespace, or the container
/// engine has already limited them.
const ALLOWED_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// The initial capabilities of commands. Set only if the agent is hardened.
static COMMAND_CAPABILITIES: OnceLock<ProcessCapabilities> = OnceLock::new();

/// A set of capabilities for a process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessCapabilities(CapabilitySet);

impl ProcessCapabilities {
    /// Permanently drops all capabilities that are not in this set. Safe between fork and exec.
    pub fn apply(self) -> rustix::io::Result<()> {
        set_capabilities(None, capability_sets(self.0))
    }
}

/// Returns the initial capabilities of commands, or `None` if the agent isn't hardened. In that
/// case, commands have the agent's own capabilities.
pub fn command_capabilities() -> Option<ProcessCapabilities> {
    COMMAND_CAPABILITIES.get().copied()
}

/// Removes all capabilities except [`ALLOWED_CAPABILITIES`] from the bounding set. If the agent
/// lacks the permission to do so, the failure is harmless, because no program can gain privileges.
pub(super) fn limit_bounding_set() -> io::Result<()> {
    for number in 0..63 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if ALLOWED_CAPABILITIES.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Either this kernel has no more capabilities, or this process lacks the capability
            // that is required to drop one.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Drops all capabilities except [`ALLOWED_CAPABILITIES`]. Unless `keeps_kill` is set, commands
/// also lose `KILL`, so they cannot signal other users' processes. The agent keeps `KILL` so that
/// it can kill those processes.
pub(super) fn drop_capabilities(keeps_kill: bool) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & ALLOWED_CAPABILITIES;
    set_capabilities(None, capability_sets(kept))?;
    if identity::runs_as_agent_user() {
        identity::use_root_for_files()?;
        // Changing the user cleared the effective file capabilities; make them effective again.
        set_capabilities(None, capability_sets(kept))?;
    }
    let commands = if keeps_kill { kept - CapabilitySet::KILL } else { kept };
    let _ = COMMAND_CAPABILITIES.set(ProcessCapabilities(commands));
    Ok(())
}

fn capability_sets(capabilities: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective: capabilities,
        permitted: capabilities,
        inheritable: CapabilitySet::empty(),
    }
}
