//! Finds the user that a command runs as.
//!
//! Parses the sandbox's own files. The C library would load its name service modules, which a
//! static program cannot do and which images without a C library don't have.

use std::fs;

use proctor_wire::{Refusal, RefusalKind};
use rustix::process::{getegid, geteuid};

use super::refusal::new_refusal;
use crate::hardening;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user: u32,
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Returns the default user of commands: root if the agent runs as another user, otherwise
    /// `None`.
    pub fn default_for_commands() -> Option<Self> {
        hardening::runs_as_agent_user().then(|| Self { user: 0, group: 0, groups: Vec::new() })
    }

    /// Returns whether the agent already runs as this user. In that case, even a sandbox with a
    /// single user needs no privileges.
    pub fn is_current_user(&self) -> bool {
        self.user == geteuid().as_raw() && self.group == getegid().as_raw()
    }
}

/// Parses `uid`, `uid:gid` or a name in the sandbox's `/etc/passwd`.
pub fn find(user_spec: &str) -> Result<Identity, Refusal> {
    let passwd = read_or_empty("/etc/passwd");
    let group = read_or_empty("/etc/group");
    let identity = resolve(user_spec, &passwd, &group)
        .filter(|identity| {
            !(hardening::runs_as_agent_user() && identity.user == hardening::AGENT_UID)
        })
        .ok_or_else(|| {
            new_refusal(RefusalKind::BadRequest, format!("no user {user_spec:?} in the sandbox"))
        })?;
    let ids = [("uid_map", "user", identity.user), ("gid_map", "group", identity.group)];
    for (map, kind, number) in ids {
        if !is_mapped(&read_or_empty(&format!("/proc/self/{map}")), number) {
            let what = format!(
                "user {user_spec:?} is not available in the sandbox: {kind} id {number} is not mapped; \
                 add an id range to /etc/subuid and /etc/subgid, or run as root"
            );
            return Err(new_refusal(RefusalKind::BadRequest, what));
        }
    }
    Ok(identity)
}

/// Returns whether a user namespace's map contains an id. If the map is empty because it could not
/// be read, all ids count as mapped.
fn is_mapped(map: &str, id: u32) -> bool {
    let number = u64::from(id);
    let holds = |line: &str| {
        let mut fields = line.split_ascii_whitespace().filter_map(|field| field.parse().ok());
        let (first, count): (Option<u64>, Option<u64>) = (fields.next(), fields.nth(1));
        match (first, count) {
            (Some(first), Some(count)) => (first..first + count).contains(&number),
            _ => false,
        }
    };
    map.trim().is_empty() || map.lines().any(holds)
}

fn read_or_empty(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn resolve(user_spec: &str, passwd: &str, group: &str) -> Option<Identity> {
    let (name, given) = match user_spec.split_once(':') {
        Some((name, group)) => (name, Some(group.parse().ok()?)),
        None => (user_spec, None),
    };
    let number = name.parse::<u32>().ok();
    let entry = passwd.lines().find_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        let (user, own) = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        (number.map_or(fields[0] == name, |number| number == user)).then_some((
            fields[0].to_owned(),
            user,
            own,
        ))
    });
    let (login, user, own) = match (entry, number) {
        (Some((login, user, own)), _) => (Some(login), user, own),
        // A user id without an entry gets the same number as its group id. Docker would use root's
        // group.
        (None, Some(number)) => (None, number, number),
        (None, None) => return None,
    };
    let groups = match (given, login) {
        (None, Some(login)) => {
            group.lines().filter_map(|line| group_id_if_member(line, &login)).collect()
        }
        _ => Vec::new(),
    };
    Some(Identity { user, group: given.unwrap_or(own), groups })
}

/// If `login` is a member of the group in `line`, returns the group's id.
fn group_id_if_member(line: &str, login: &str) -> Option<u32> {
    let mut fields = line.split(':').skip(2);
    let number = fields.next()?.parse().ok()?;
    fields.next()?.split(',').any(|name| name == login).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1001::/home/ann:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nann:x:1001:\nwheel:x:10:bob,ann\nothers:x:11:annabel\n";

    #[test]
    fn resolve_finds_users_by_name_and_number() {
        let ann = Identity { user: 1000, group: 1001, groups: vec![10] };
        assert_eq!(resolve("ann", PASSWD, GROUP), Some(ann.clone()));
        assert_eq!(resolve("1000", PASSWD, GROUP), Some(ann));
        let plain = |user, group| Some(Identity { user, group, groups: vec![] });
        assert_eq!(resolve("1000:5", PASSWD, GROUP), plain(1000, 5));
        assert_eq!(resolve("77", PASSWD, GROUP), plain(77, 77));
        assert_eq!(resolve("eve", PASSWD, GROUP), None);
        assert_eq!(resolve("ann:x", PASSWD, GROUP), None);
    }

    #[test]
    fn is_mapped_reads_every_line_of_a_map() {
        let single = "         0       1001          1\n";
        assert!(is_mapped(single, 0) && !is_mapped(single, 1000));
        let ranges = "0 1001 1\n1 100000 65535\n";
        assert!(is_mapped(ranges, 65_535) && !is_mapped(ranges, 65_536));
        assert!(is_mapped("0 0 4294967295\n", 4_000_000_000));
        assert!(is_mapped("", 7), "an unreadable map");
    }
}
