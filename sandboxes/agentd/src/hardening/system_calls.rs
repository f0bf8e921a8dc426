//! Installs the list of denied system calls (`configs/sandbox/system-calls.txt`) as a seccomp
//! filter.

use std::io;

use super::identity;
use crate::sys;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

/// On x86-64, higher numbers belong to the x32 interface, which would bypass the list.
#[cfg(target_arch = "x86_64")]
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

include!(concat!(env!("OUT_DIR"), "/system_calls.rs"));

/// The flags of `clone` that create namespaces.
const NAMESPACE_FLAGS: u32 = 0x7e02_0000;

/// The calls that change the user, each with its number of arguments.
const SETUID_CALLS: [(libc::c_long, u32); 4] = [
    (libc::SYS_setuid, 1),
    (libc::SYS_setreuid, 2),
    (libc::SYS_setresuid, 3),
    (libc::SYS_setfsuid, 1),
];

/// Offsets in `struct seccomp_data`: number, architecture, and the low half of each argument.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
#[cfg(target_arch = "x86_64")]
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Installs the filter for this process and its descendants. It denies all calls through other
/// ABIs, such as those of 32-bit programs.
pub(super) fn install() -> io::Result<()> {
    sys::install_filter(&mut build_filter(identity::runs_as_agent_user()))
}

fn build_filter(agent_has_own_user: bool) -> Vec<libc::sock_filter> {
    let deny = errno_action(libc::EPERM);
    let mut filter = vec![
        statement(LOAD, ARCHITECTURE_OFFSET),
        jump(EQUAL, ARCH, 1, 0),
        statement(RETURN, deny),
        statement(LOAD, NUMBER_OFFSET),
    ];
    #[cfg(target_arch = "x86_64")]
    filter.extend([jump(AT_LEAST, X32_SYSCALL_BIT, 0, 1), statement(RETURN, deny)]);
    for &number in DENIED {
        filter.extend([jump(EQUAL, number as u32, 0, 1), statement(RETURN, deny)]);
    }
    for &number in MISSING {
        filter.extend([
            jump(EQUAL, number as u32, 0, 1),
            statement(RETURN, errno_action(libc::ENOSYS)),
        ]);
    }
    add_call_rule(
        &mut filter,
        libc::SYS_clone,
        &[
            statement(LOAD, ARGUMENTS_OFFSET),
            jump(ANY_BIT, NAMESPACE_FLAGS, 0, 1),
            statement(RETURN, deny),
        ],
    );
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let mut families = vec![statement(LOAD, ARGUMENTS_OFFSET)];
        for (index, &family) in FAMILIES.iter().enumerate() {
            // Jump over the remaining families and the denial.
            families.push(jump(EQUAL, family as u32, (FAMILIES.len() - index) as u8, 0));
        }
        families.push(statement(RETURN, errno_action(libc::EAFNOSUPPORT)));
        add_call_rule(&mut filter, call, &families);
    }
    if agent_has_own_user {
        for (call, arguments) in SETUID_CALLS {
            let mut tests = Vec::new();
            for argument in 0..arguments {
                tests.push(statement(LOAD, ARGUMENTS_OFFSET + 8 * argument));
                tests.push(jump(EQUAL, identity::AGENT_UID, 0, 1));
                tests.push(statement(RETURN, deny));
            }
            add_call_rule(&mut filter, call, &tests);
        }
    }
    filter.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    filter
}

/// Adds a rule that allows `call` if its arguments pass all `conditions`.
fn add_call_rule(
    filter: &mut Vec<libc::sock_filter>,
    call: libc::c_long,
    conditions: &[libc::sock_filter],
) {
    filter.push(jump(EQUAL, call as u32, 0, conditions.len() as u8 + 1));
    filter.extend_from_slice(conditions);
    filter.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
}

fn errno_action(number: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | number as u32
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}
