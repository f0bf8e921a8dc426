//! Which limits a back end could enforce.

use serde::{Deserialize, Serialize};

/// Honest limits: the name of each limit that was asked for and could not be enforced, with the
/// reason ("memory: no writable memory cgroup").
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    pub not_enforced: Vec<String>,
}

/// The mends by the beginning of an entry.
const MENDS: &str = include_str!("../../../configs/sandbox/mends.txt");

/// How to make a machine enforce what an entry says that it does not, where that is known.
pub fn mend_of(entry: &str) -> Option<&'static str> {
    MENDS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('|'))
        .find_map(|(begin, mend)| entry.starts_with(begin.trim()).then_some(mend.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_mended_by_its_beginning() {
        let mend = mend_of("memory: no writable memory control group").unwrap();
        assert!(mend.contains("Delegate=yes"), "{mend}");
        let mend = mend_of("other users: the room has one only: no /usr/bin/newuidmap").unwrap();
        assert!(mend.contains("uidmap") && mend.contains("/etc/subuid"), "{mend}");
        assert_eq!(mend_of("something else"), None);
    }
}
