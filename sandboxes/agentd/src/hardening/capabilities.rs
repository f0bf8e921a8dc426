//! What root of the sandbox may still do.

use std::{io, sync::OnceLock};

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

use super::identity;

/// What file work, other users and killing need. None of them reaches beyond the sandbox: they hold in
/// its user namespace only, or a container's engine has cut them.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// What commands start with, where the agent is hardened.
static COMMANDS: OnceLock<Powers> = OnceLock::new();

/// A set that a process can put on.
#[derive(Debug, Clone, Copy)]
pub struct Powers(CapabilitySet);

impl Powers {
    /// Gives up everything else, for good. Safe between fork and exec.
    pub fn put_on(self) -> rustix::io::Result<()> {
        set_capabilities(None, sets(self.0))
    }
}

/// `None` for an agent without hardening, whose commands have what it has.
pub fn of_commands() -> Option<Powers> {
    COMMANDS.get().copied()
}

/// Takes out of the bounding set what is not kept. An agent that may not has nothing to lose either:
/// no program gains a privilege.
pub(super) fn narrow() -> io::Result<()> {
    for number in 0..63 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Past the last capability that this kernel knows; or without the one that this takes.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Drops all but the kept ones, and decides about commands: they cannot signal other users'
/// processes. The agent must, to end them.
pub(super) fn keep(without_kill: bool) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & KEPT;
    set_capabilities(None, sets(kept))?;
    if identity::is_set_apart() {
        identity::act_as_root_on_files()?;
        // What counts for files went out of effect with the change of user, and back in now.
        set_capabilities(None, sets(kept))?;
    }
    let commands = if without_kill { kept - CapabilitySet::KILL } else { kept };
    let _ = COMMANDS.set(Powers(commands));
    Ok(())
}

fn sets(kept: CapabilitySet) -> CapabilitySets {
    CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() }
}
