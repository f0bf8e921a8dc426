//! The user namespace and its map.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
};

use proctor_wire::{IdMap, Range};
use rustix::{
    process::{WaitOptions, getpid, waitpid},
    thread::UnshareFlags,
};

use super::failure::{During, Failure};
use crate::sys;

/// Moves this process into a user namespace of its own, as root of it.
///
/// A map of more than one id must be written by somebody with `CAP_SETUID` in the *parent*
/// namespace. A child forked before the `unshare` keeps it; asking the runtime instead would cost
/// a round trip and bind the runtime's threads to this process's number.
pub(super) fn enter(map: IdMap) -> Result<(), Failure> {
    match map {
        IdMap::Single { uid, gid } => {
            unshare_user()?;
            write_proc("self", "setgroups", "deny")?;
            write_proc("self", "uid_map", &format!("0 {uid} 1\n"))?;
            write_proc("self", "gid_map", &format!("0 {gid} 1\n"))
        }
        IdMap::Identity => from_outside(write_identity),
        IdMap::Ranges { uid, gid, users, groups } => from_outside(|parent| {
            map_ranges("/usr/bin/newgidmap", parent, gid, groups)?;
            map_ranges("/usr/bin/newuidmap", parent, uid, users)
        }),
    }
}

/// Has a child write the map of this process, which it reaches from the namespace outside.
fn from_outside(write: impl FnOnce(&str) -> io::Result<()>) -> Result<(), Failure> {
    let (mut here, there) = UnixStream::pair().during("make a socket pair")?;
    let parent = getpid().as_raw_nonzero().to_string();
    let Some(child) = sys::fork().during("fork the writer of the id map")? else {
        drop(here);
        sys::exit(i32::from(write_when_asked(there, || write(&parent)).is_err()));
    };
    drop(there);
    unshare_user()?;
    here.write_all(b"u").during("wake the writer of the id map")?;
    let mut answer = String::new();
    here.read_to_string(&mut answer).during("await the id map")?;
    waitpid(Some(child), WaitOptions::empty()).during("await the writer of the id map")?;
    match answer == "ok" {
        true => Ok(()),
        false => Err(io::Error::other(answer)).during("map ids"),
    }
}

fn write_when_asked(
    mut there: UnixStream,
    write: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    there.read_exact(&mut [0; 1])?;
    let done = write();
    match &done {
        Ok(()) => there.write_all(b"ok")?,
        Err(error) => there.write_all(error.to_string().as_bytes())?,
    }
    done
}

fn write_identity(parent: &str) -> io::Result<()> {
    fs::write(format!("/proc/{parent}/uid_map"), "0 0 65536\n")?;
    fs::write(format!("/proc/{parent}/gid_map"), "0 0 65536\n")
}

/// By the set-uid program that checks `/etc/subuid` or `/etc/subgid`.
fn map_ranges(program: &str, parent: &str, own: u32, range: Range) -> io::Result<()> {
    let numbers = [0, own, 1, 1, range.first, range.count].map(|number| number.to_string());
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
    sys::unshare(UnshareFlags::NEWUSER).during("make a user namespace").map_err(|failure| {
        failure.hint(
            "allow user namespaces: `sysctl user.max_user_namespaces` above 0, and on Ubuntu \
             `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; or use sandbox.kind=docker",
        )
    })
}

fn write_proc(process: &str, file: &str, text: &str) -> Result<(), Failure> {
    fs::write(format!("/proc/{process}/{file}"), text).during(format_args!("write {file}"))
}
