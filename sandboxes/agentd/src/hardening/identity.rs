//! The agent's own user.
//!
//! Root of the sandbox runs the commands, as in every benchmark's container; so the agent is somebody
//! else. It keeps working on files as root: the kernel has a user of its own for that, which decides
//! about files and owners and about nothing else.

use std::io;

use rustix::{
    process::geteuid,
    thread::{
        Gid, Uid, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

use crate::sys;

/// A number that Debian's policy reserves and no image is known to use. The filter of system calls
/// lets nobody in the sandbox become it.
pub const AGENT: u32 = 65_432;

/// Whether this agent is somebody else than the sandbox's root.
pub fn is_set_apart() -> bool {
    geteuid().as_raw() == AGENT
}

/// Becomes the agent's user, and root for files. The capabilities stay permitted and are no longer in
/// effect.
pub(super) fn set_apart() -> io::Result<()> {
    let (user, group) = (Uid::from_raw(AGENT), Gid::from_raw(AGENT));
    set_keep_capabilities(true)?;
    // Groups first: without the capability in effect they cannot be changed any more. Where a sandbox
    // has one user only, each of these refuses and nothing is changed.
    set_thread_res_gid(group, group, group)?;
    set_thread_groups(&[])?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Takes root's part for files again, once the capabilities are in effect.
pub(super) fn act_as_root_on_files() -> io::Result<()> {
    sys::set_file_identity(0, 0)
}
