//! A short list of denied system calls.
//!
//! Namespaces, capabilities and covered paths are the wall; this takes away the tools that have
//! broken such walls before, and the ways for one process of the room to write into another.
//! Rejected: an allow list, which would turn every new system call of a libc into a puzzle for
//! whoever benchmarks with it.

use std::io;

use super::sys;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

/// On x86-64, numbers from here on are the x32 interface, which would walk round the list.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

const DENIED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
#[cfg(target_arch = "x86_64")]
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Denies the list with `EPERM` for this process and all that come of it. Another architecture's
/// calls (32-bit programs) are denied whole.
pub(super) fn install() -> io::Result<()> {
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = vec![
        statement(LOAD, 4),
        jump(EQUAL, ARCH, 1, 0),
        statement(RETURN, deny),
        statement(LOAD, 0),
    ];
    #[cfg(target_arch = "x86_64")]
    filter.extend([jump(AT_LEAST, X32, 0, 1), statement(RETURN, deny)]);
    for &number in DENIED {
        filter.extend([jump(EQUAL, number as u32, 0, 1), statement(RETURN, deny)]);
    }
    filter.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    sys::install_filter(&mut filter)
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}
