//! The user namespace and its id map.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
};

use proctor_wire::{IdMap, IdRange};
use rustix::{
    process::{WaitOptions, getpid, waitpid},
    thread::UnshareFlags,
};

use super::failure::{Failure, FailureContext};
use crate::sys;

/// Moves this process into its own user namespace and makes it root there.
///
/// Writing a map with more than one id requires `CAP_SETUID` in the *parent* namespace. A child
/// forked before the `unshare` keeps that capability. If the runtime wrote the map instead, that
/// would cost a round trip and tie its threads to this process's id.
///
/// Returns an entry for the sandbox's enforcement if the sandbox has fewer ids than `map`
/// specifies.
pub(super) fn enter_user_namespace(map: IdMap) -> Result<Option<String>, Failure> {
    match map {
        IdMap::Single { uid, gid } => {
            unshare_user()?;
            map_single(uid, gid)?;
            Ok(None)
        }
        IdMap::Identity => {
            write_map_from_child(write_identity_map)?.context("map ids")?;
            Ok(None)
        }
        IdMap::Ranges { uid, gid, users, groups } => {
            let mapped = write_map_from_child(|parent| {
                map_ranges("/usr/bin/newuidmap", parent, uid, users)?;
                map_ranges("/usr/bin/newgidmap", parent, gid, groups)
            })?;
            let Err(error) = mapped else { return Ok(None) };
            // Mapping several ids fails if `no_new_privs` or a container disables set-uid programs.
            // Mapping a single id needs no privileges.
            map_single(uid, gid)?;
            Ok(Some(format!("other users: the sandbox has only one user: {error}")))
        }
    }
}

/// Maps the sandbox's root to the caller's ids. Keeps a map that already exists, because the kernel
/// lets a process write each map only once.
fn map_single(uid: u32, gid: u32) -> Result<(), Failure> {
    if is_unmapped("uid_map")? {
        write_proc("uid_map", &format!("0 {uid} 1\n"))?;
    }
    if is_unmapped("gid_map")? {
        write_proc("setgroups", "deny")?;
        write_proc("gid_map", &format!("0 {gid} 1\n"))?;
    }
    Ok(())
}

fn is_unmapped(file: &str) -> Result<bool, Failure> {
    let text = fs::read_to_string(format!("/proc/self/{file}"));
    Ok(text.context(format_args!("read {file}"))?.trim().is_empty())
}

/// Forks a child that stays in the outer namespace and writes this process's id map with `write`.
/// The inner result is the child's result of `write`.
fn write_map_from_child(
    write: impl FnOnce(&str) -> io::Result<()>,
) -> Result<io::Result<()>, Failure> {
    let (mut here, there) = UnixStream::pair().context("create a socket pair")?;
    let parent = getpid().as_raw_nonzero().to_string();
    let Some(child) = sys::fork().context("fork the process that writes the id map")? else {
        drop(here);
        sys::exit(i32::from(write_on_request(there, || write(&parent)).is_err()));
    };
    drop(there);
    unshare_user()?;
    here.write_all(b"u").context("wake the process that writes the id map")?;
    let mut answer = String::new();
    here.read_to_string(&mut answer).context("wait for the id map")?;
    waitpid(Some(child), WaitOptions::empty())
        .context("wait for the process that writes the id map")?;
    Ok(match answer == "ok" {
        true => Ok(()),
        false => Err(io::Error::other(answer)),
    })
}

fn write_on_request(
    mut socket: UnixStream,
    write: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    socket.read_exact(&mut [0; 1])?;
    let done = write();
    match &done {
        Ok(()) => socket.write_all(b"ok")?,
        Err(error) => socket.write_all(error.to_string().as_bytes())?,
    }
    done
}

/// Maps each id of this namespace to itself. A container's root user has only part of the machine's
/// ids, often in several ranges.
fn write_identity_map(parent: &str) -> io::Result<()> {
    for file in ["uid_map", "gid_map"] {
        let own = fs::read_to_string(format!("/proc/self/{file}"))?;
        fs::write(format!("/proc/{parent}/{file}"), identity_map_lines(&own))?;
    }
    Ok(())
}

/// Number of ids in a sandbox.
const ID_COUNT: u32 = 65_536;

/// Returns the lines that map each id of a namespace to itself. `own_map` is that namespace's map.
fn identity_map_lines(own_map: &str) -> String {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        let count = count.min(ID_COUNT.checked_sub(first)?);
        (count > 0).then(|| format!("{first} {first} {count}\n"))
    };
    own_map.lines().filter_map(line).collect()
}

/// Runs the set-uid program that checks `/etc/subuid` or `/etc/subgid`.
fn map_ranges(program: &str, parent: &str, own_id: u32, range: IdRange) -> io::Result<()> {
    let numbers = [0, own_id, 1, 1, range.first, range.count].map(|number| number.to_string());
    let mut command = Command::new(program);
    command.arg(parent).args(numbers).env_clear().stdin(Stdio::null());
    let done = command.output().map_err(|error| io::Error::other(format!("{program}: {error}")))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(io::Error::other(format!("{program}: {}", said.trim())))
        }
    }
}

fn unshare_user() -> Result<(), Failure> {
    sys::unshare(UnshareFlags::NEWUSER)
        .context("create a user namespace")
        .map_err(|failure| failure.with_hint(&user_namespace_hint()))
}

fn write_proc(file: &str, text: &str) -> Result<(), Failure> {
    fs::write(format!("/proc/self/{file}"), text)
        .context(format_args!("write {file}"))
        .map_err(|failure| failure.with_hint(&user_namespace_hint()))
}

/// Kernel settings that forbid user namespaces for unprivileged users: the name, the value that
/// forbids them, and a value that allows them. With the last setting, the kernel creates the
/// namespace but denies everything in it.
const BLOCKING_SETTINGS: [(&str, &str, &str); 3] = [
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];

/// Returns a hint for a machine that forbids user namespaces.
pub(super) fn user_namespace_hint() -> String {
    for (name, forbids, allows) in BLOCKING_SETTINGS {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        if fs::read_to_string(file).is_ok_and(|text| text.trim() == forbids) {
            return format!(
                "this machine sets {name}={forbids}; run `sysctl -w {name}={allows}` as root, or \
                 use sandbox.kind=docker"
            );
        }
    }
    "this machine or container does not allow user namespaces; run Proctor outside the container \
     or as root, or use sandbox.kind=docker"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_map_covers_every_range_of_a_container() {
        assert_eq!(identity_map_lines("         0          0 4294967295\n"), "0 0 65536\n");
        assert_eq!(identity_map_lines("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65535\n");
        assert_eq!(identity_map_lines("0 1000 1\n"), "0 0 1\n");
        assert_eq!(identity_map_lines("0 5 1\n65536 7 9\n100000 8 9\n"), "0 0 1\n");
    }
}
