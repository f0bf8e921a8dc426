//! System calls without a safe wrapper.

#![expect(unsafe_code, reason = "fork, unshare, ioctl, prctl and mount_setattr have no safe form")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
};

use rustix::{
    process::Pid,
    thread::{UnshareFlags, unshare_unsafe},
};

pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the helper has one thread, and the descriptor table is never unshared.
    unsafe { unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Forks. Returns `None` in the child.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the helper has one thread, so the child's memory is consistent and no lock is held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Sets attributes (`MOUNT_ATTR_*`) on a mount and all mounts below it. Clears none.
pub(crate) fn set_mount_attributes(tree: BorrowedFd<'_>, attribute_bits: u64) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: attribute_bits, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let empty: &CStr = c"";
    // SAFETY: the pointers are valid during the call, and the size matches the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            empty.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check_result(result)
}

/// Brings up the loopback interface. Without it, no program can listen on 127.0.0.1.
pub(crate) fn set_loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request outlives the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
    check_result(result.into())
}

/// Closes all descriptors starting with `first_descriptor`.
pub(crate) fn close_from(first_descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the caller owns no descriptor from `first_descriptor` on.
    check_result(unsafe {
        libc::syscall(libc::SYS_close_range, first_descriptor, libc::c_uint::MAX, 0)
    })
}

/// Installs a seccomp filter. `no_new_privs` must be set first.
pub(crate) fn install_filter(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program during the call.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    check_result(result.into())
}

/// Sets the user and group for file access only.
pub(crate) fn set_file_identity(user: u32, group: u32) -> io::Result<()> {
    // These calls return the previous id and never an error. A second call, with an invalid id,
    // therefore returns the id that is now in effect.
    // SAFETY: system calls that access no memory.
    let now = unsafe {
        libc::syscall(libc::SYS_setfsgid, group);
        libc::syscall(libc::SYS_setfsuid, user);
        (libc::syscall(libc::SYS_setfsgid, -1), libc::syscall(libc::SYS_setfsuid, -1))
    };
    match now == (group.into(), user.into()) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Exits a forked child without running the parent's destructors and exit handlers.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

fn check_result(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
