//! Users for tests that must run as a user other than root. Test crates include this file by its
//! path.

use std::{fs, os::unix::fs::MetadataExt};

use crate::not_run::not_run;

/// A user that `.ci/machine` creates, with a range of ids in `/etc/subuid` and `/etc/subgid`.
const RANGED: &str = "proctor-rootless";

/// A user on this machine.
#[derive(Debug, Clone, Copy)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Returns `Some` if this process may become another user. Otherwise, reports that the test does
/// not run, or fails the test in CI.
pub fn require_root(test: &str) -> Option<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    if !is_root {
        not_run(test, "ROOT", "only root can become other users");
    }
    is_root.then_some(())
}

/// Returns a user with a single id and no entry in `/etc/passwd`. Use another number in each test,
/// because the kernel counts processes per user.
pub fn user_with_single_id(number: u32) -> User {
    let id = 54_300 + number;
    User { uid: id, gid: id }
}

/// Returns a user with a range of ids. If there is none, reports that the test does not run, or
/// fails the test in CI.
pub fn user_with_id_range(test: &str) -> Option<User> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.first() == Some(&RANGED)).then_some(())?;
        Some(User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    });
    if user.is_none() {
        not_run(test, "ROOT", format!("no user {RANGED}: see .ci/machine"));
    }
    user
}
