//! The remaining capabilities of the sandbox's root.

use std::{io, sync::OnceLock};

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

use super::identity;

/// The capabilities for file operations, other users and killing. None of them extends beyond the
/// sandbox: they are valid only in its user namespace, or a container's engine has limited them.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// The capabilities that commands start with, if the agent is hardened.
static COMMANDS: OnceLock<Powers> = OnceLock::new();

/// A set of capabilities for a process.
#[derive(Debug, Clone, Copy)]
pub struct Powers(CapabilitySet);

impl Powers {
    /// Permanently drops everything else. Safe between fork and exec.
    pub fn put_on(self) -> rustix::io::Result<()> {
        set_capabilities(None, sets(self.0))
    }
}

/// `None` for an agent without hardening, whose commands have its own capabilities.
pub fn of_commands() -> Option<Powers> {
    COMMANDS.get().copied()
}

/// Removes all others from the bounding set. If the agent lacks permission for this, it is
/// harmless: no program gains privileges.
pub(super) fn narrow() -> io::Result<()> {
    for number in 0..63 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Past the last capability that this kernel has; or the required capability is missing.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Drops all others, and decides about commands: they cannot signal other users' processes. The
/// agent can, in order to end them.
pub(super) fn keep(without_kill: bool) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & KEPT;
    set_capabilities(None, sets(kept))?;
    if identity::is_set_apart() {
        identity::act_as_root_on_files()?;
        // The change of user made the file capabilities ineffective; make them effective again.
        set_capabilities(None, sets(kept))?;
    }
    let commands = if without_kill { kept - CapabilitySet::KILL } else { kept };
    let _ = COMMANDS.set(Powers(commands));
    Ok(())
}

fn sets(kept: CapabilitySet) -> CapabilitySets {
    CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() }
}
