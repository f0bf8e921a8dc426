//! The limits that a back end could not enforce.

use serde::{Deserialize, Serialize};

/// Lists the requested limits that could not be enforced, each with the reason (`memory: no
/// writable memory cgroup`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// One entry per limit, starting with the limit's name. Stored in the run record.
    pub not_enforced: Vec<String>,
}

/// Hints for fixing the machine. Each line starts with the beginning of the entries that it applies
/// to.
const HINTS: &str = include_str!("../../../configs/sandbox/hints.txt");

/// Returns a hint on how to make the machine enforce the limit in `entry`, if one is known.
pub fn find_hint(entry: &str) -> Option<&'static str> {
    HINTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('|'))
        .find_map(|(begin, hint)| entry.starts_with(begin.trim()).then_some(hint.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_hint_matches_the_start_of_an_entry() {
        let hint = find_hint("memory: no writable memory cgroup").unwrap();
        assert!(hint.contains("Delegate=yes"), "{hint}");
        let hint =
            find_hint("other users: the sandbox has only one user: no /usr/bin/newuidmap").unwrap();
        assert!(hint.contains("uidmap") && hint.contains("/etc/subuid"), "{hint}");
        assert_eq!(find_hint("something else"), None);
    }
}
