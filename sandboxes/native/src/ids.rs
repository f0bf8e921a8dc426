//! Maps a sandbox's user and group ids to ids of the host.

use std::{fs, path::Path};

use proctor_types::sha256_hex;
use proctor_wire::{IdMap, IdRange};
use rustix::process::{getegid, geteuid, getgid, getuid};

/// The programs that map id ranges for unprivileged users, at the paths where the helper executes
/// them.
const TOOLS: [&str; 2] = ["/usr/bin/newuidmap", "/usr/bin/newgidmap"];

/// Number of ids that a sandbox needs in addition to root: enough for images and for the agent's
/// own id.
const NEEDED_IDS: u32 = 65_535;

/// Start of the enforcement entry for a sandbox with only one user.
pub(crate) const ONE_USER_PREFIX: &str = "other users:";

/// Returns the id map for building layers and for trials. For root, ids map to themselves. For
/// other users, the map uses the user's id range if the machine provides one, otherwise a single
/// id.
///
/// If sandboxes have only one user, also returns an enforcement entry with the reason.
pub(crate) fn id_map() -> (IdMap, Option<String>) {
    if geteuid().is_root() {
        let alone = (count_available_ids() <= 1).then(|| {
            format!("{ONE_USER_PREFIX} the sandbox, like this container, has only one user")
        });
        return (IdMap::Identity, alone);
    }
    let single = IdMap::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() };
    match read_id_ranges() {
        Ok(map) => (map, None),
        Err(why) => {
            (single, Some(format!("{ONE_USER_PREFIX} the sandbox has only one user: {why}")))
        }
    }
}

/// Returns the number of ids in this process's user namespace. Outside of containers, this is the
/// total number of ids.
fn count_available_ids() -> u64 {
    let Ok(map) = fs::read_to_string("/proc/self/uid_map") else { return ALL_IDS };
    let count = |line: &str| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok();
    map.lines().filter_map(count).sum()
}

/// The total number of ids in the kernel.
const ALL_IDS: u64 = u32::MAX as u64;

/// Returns whether this process is root on the machine, and not only in a user namespace.
pub(crate) fn is_machine_root() -> bool {
    geteuid().is_root() && count_available_ids() >= ALL_IDS
}

/// Returns whether this process may give files to every user of a sandbox.
pub(crate) fn can_change_owners() -> bool {
    geteuid().is_root() && count_available_ids() > u64::from(NEEDED_IDS)
}

/// Returns the cache name for a directory that is built from an input. `digest` is the input's
/// digest. If this process can change owners, the name is the digest itself. Otherwise, it also
/// depends on the id map, because a sandbox cannot change files whose owner is not in its map.
pub(crate) fn cache_name(digest: &str) -> String {
    match can_change_owners() {
        true => digest.to_owned(),
        false => sha256_hex(format!("{:?} {digest}", id_map().0).as_bytes()),
    }
}

/// The owner that the kernel reports for files whose owner is not mapped in this process's user
/// namespace.
const NOBODY: u32 = 65_534;

/// Returns whether a host user is mapped in sandboxes that use this map.
pub(crate) fn is_mapped(map: IdMap, user: u32) -> bool {
    match map {
        IdMap::Identity => user != NOBODY || is_machine_root(),
        IdMap::Single { uid, .. } => user == uid,
        IdMap::Ranges { uid, users, .. } => {
            user == uid || (users.first..users.first.saturating_add(users.count)).contains(&user)
        }
    }
}

fn read_id_ranges() -> Result<IdMap, String> {
    for tool in TOOLS {
        if !Path::new(tool).exists() {
            return Err(format!("no {tool}"));
        }
    }
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    });
    let range = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        find_range(&text, name, uid)
            .ok_or_else(|| format!("no range of {NEEDED_IDS} ids in {file}"))
    };
    Ok(IdMap::Ranges { uid, gid, users: range("/etc/subuid")?, groups: range("/etc/subgid")? })
}

/// Returns a user's first range that is large enough. The user is listed by name or number.
fn find_range(text: &str, name: Option<&str>, uid: u32) -> Option<IdRange> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let (first, count): (u32, u32) =
            (fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?);
        let own = Some(owner) == name || owner.parse() == Ok(uid);
        (own && count >= NEEDED_IDS).then_some(IdRange { first, count: NEEDED_IDS })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_range_matches_name_or_number_and_size() {
        let text = "ann:100000:65536\nbob:200000:100\n1001:300000:65536\nbroken\n";
        let range = |first| Some(IdRange { first, count: NEEDED_IDS });
        assert_eq!(find_range(text, Some("ann"), 1000), range(100_000));
        assert_eq!(find_range(text, Some("bob"), 1001), range(300_000));
        assert_eq!(find_range(text, Some("bob"), 7), None);
        assert_eq!(find_range(text, None, 8), None);
    }

    #[test]
    fn own_user_is_in_every_map() {
        assert!(is_mapped(id_map().0, geteuid().as_raw()));
        let map = IdMap::Ranges {
            uid: 1000,
            gid: 1000,
            users: IdRange { first: 100_000, count: NEEDED_IDS },
            groups: IdRange { first: 100_000, count: NEEDED_IDS },
        };
        assert!(is_mapped(map, 1000) && is_mapped(map, 100_000) && is_mapped(map, 165_534));
        assert!(!is_mapped(map, 0) && !is_mapped(map, 1001) && !is_mapped(map, 165_535));
        assert_eq!(cache_name("a") == "a", can_change_owners());
        assert_ne!(cache_name("a"), cache_name("b"));
    }
}
