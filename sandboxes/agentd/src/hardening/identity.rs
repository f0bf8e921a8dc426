//! The agent's own user.
//!
//! Commands run as the sandbox's root, as they do in every benchmark's containers, so the agent
//! must be another user. The agent still accesses files as root, because the kernel has a separate
//! user id for file access.

use std::io;

use rustix::{
    process::geteuid,
    thread::{
        Gid, Uid, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

use crate::sys;

/// A user id that Debian's policy reserves and that no known image uses. The system call filter
/// prevents all processes in the sandbox from becoming this user.
pub const AGENT_UID: u32 = 65_432;

/// Returns whether the agent runs as a different user than the sandbox's root.
pub fn runs_as_agent_user() -> bool {
    geteuid().as_raw() == AGENT_UID
}

/// Switches to the agent's user, except for file access, which remains root's. The capabilities
/// stay permitted but are no longer effective.
pub(super) fn switch_to_agent_user() -> io::Result<()> {
    let (user, group) = (Uid::from_raw(AGENT_UID), Gid::from_raw(AGENT_UID));
    set_keep_capabilities(true)?;
    // Change the groups first: changing them requires the effective capability. If the sandbox has
    // only one user, each of these calls fails and nothing changes.
    set_thread_res_gid(group, group, group)?;
    set_thread_groups(&[])?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Switches file access back to root. Call this once the capabilities are effective.
pub(super) fn use_root_for_files() -> io::Result<()> {
    sys::set_file_identity(0, 0)
}
