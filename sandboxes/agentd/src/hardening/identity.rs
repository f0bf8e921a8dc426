//! The agent's own user.
//!
//! Commands run as root of the sandbox, as in every benchmark's container, so the agent must be
//! another user. It still accesses files as root: the kernel has a separate user for files, which
//! applies to files and owners only.

use std::io;

use rustix::{
    process::geteuid,
    thread::{
        Gid, Uid, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

use crate::sys;

/// A number that Debian's policy reserves and no known image uses. The system call filter prevents
/// everything in the sandbox from becoming this user.
pub const AGENT: u32 = 65_432;

/// Whether this agent is a different user than the sandbox's root.
pub fn is_set_apart() -> bool {
    geteuid().as_raw() == AGENT
}

/// Becomes the agent's user, and root for files. The capabilities stay permitted but are no longer
/// effective.
pub(super) fn set_apart() -> io::Result<()> {
    let (user, group) = (Uid::from_raw(AGENT), Gid::from_raw(AGENT));
    set_keep_capabilities(true)?;
    // Groups first: without the effective capability they can no longer be changed. If a sandbox
    // has only one user, each of these fails and nothing changes.
    set_thread_res_gid(group, group, group)?;
    set_thread_groups(&[])?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Acts as root for files again, once the capabilities are effective.
pub(super) fn act_as_root_on_files() -> io::Result<()> {
    sys::set_file_identity(0, 0)
}
