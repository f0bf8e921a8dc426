//! What the room's root may still do.

use rustix::{
    process::{DumpableBehavior, set_dumpable_behavior},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    },
};

use super::{
    failure::{During, Failure},
    seccomp,
};

/// What file work, other users and killing need. None of them reaches beyond the room: they hold in
/// its user namespace only.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Gives up everything else, for good.
pub(super) fn drop_all() -> Result<(), Failure> {
    for number in 0..63 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Past the last capability that this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).during("narrow the capability bounding set"),
        }
    }
    clear_ambient_capability_set().during("clear the ambient capabilities")?;
    let sets =
        CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).during("drop capabilities")?;
    set_no_new_privs(true).during("set no_new_privs")?;
    seccomp::install().during("install the seccomp filter")?;
    // The agent holds the channel and the results pipes. Not dumpable, its memory and descriptors
    // in /proc/1 are closed to every process of the room, root's too; a command is dumpable again
    // from its exec on.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).during("hide the agent's memory")
}
