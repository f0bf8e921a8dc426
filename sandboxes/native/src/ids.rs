//! Which ids a sandbox has.

use std::{fs, path::Path};

use proctor_wire::{IdMap, Range};
use rustix::process::{getegid, geteuid, getgid, getuid};

/// The programs that map ranges for a common user, where the helper runs them.
const TOOLS: [&str; 2] = ["/usr/bin/newuidmap", "/usr/bin/newgidmap"];

/// Ids that a sandbox needs beside its root: up to the agent's own, and as far as images count.
const NEEDED: u32 = 65_535;

/// The map of a trial's sandbox. As root, ids stand for themselves. Otherwise a range of one's own where
/// the machine gives one, and one single id where not; `Err` says why, for the record.
pub(crate) fn of_trial() -> (IdMap, Option<String>) {
    if geteuid().is_root() {
        return (IdMap::Identity, None);
    }
    match ranges() {
        Ok(map) => (map, None),
        Err(why) => (single(), Some(format!("other users: the sandbox has one only: {why}"))),
    }
}

/// The map of a sandbox that builds a layer: files with other owners could not be removed again by a
/// common user.
pub(crate) fn of_build() -> IdMap {
    if geteuid().is_root() { IdMap::Identity } else { single() }
}

fn single() -> IdMap {
    IdMap::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

fn ranges() -> Result<IdMap, String> {
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
        find(&text, name, uid).ok_or_else(|| format!("no range of {NEEDED} ids in {file}"))
    };
    Ok(IdMap::Ranges { uid, gid, users: range("/etc/subuid")?, groups: range("/etc/subgid")? })
}

/// The first range of a user, by name or number, that is large enough.
fn find(text: &str, name: Option<&str>, uid: u32) -> Option<Range> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let (first, count): (u32, u32) =
            (fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?);
        let own = Some(owner) == name || owner.parse() == Ok(uid);
        (own && count >= NEEDED).then_some(Range { first, count: NEEDED })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_found_by_name_or_number_and_must_be_large_enough() {
        let text = "ann:100000:65536\nbob:200000:100\n1001:300000:65536\nbroken\n";
        let range = |first| Some(Range { first, count: NEEDED });
        assert_eq!(find(text, Some("ann"), 1000), range(100_000));
        assert_eq!(find(text, Some("bob"), 1001), range(300_000));
        assert_eq!(find(text, Some("bob"), 7), None);
        assert_eq!(find(text, None, 8), None);
    }
}
