//! Computes what changed since the agent started.

use std::collections::{BTreeSet, HashSet};

use proctor_wire::{EntryKind, LayerRequest};

use super::{
    list::WrittenEntries,
    paths::{ancestors, display},
};

/// The paths that changed since the agent started.
#[derive(Default)]
pub(super) struct Changes {
    pub changed_paths: Vec<Vec<u8>>,
    pub removed_paths: BTreeSet<Vec<u8>>,
}

/// Returns the changes, or the reason why they cannot be captured.
pub(super) fn find_changes(
    baseline: &WrittenEntries,
    current: &WrittenEntries,
    request: &LayerRequest,
) -> Result<Changes, String> {
    let mut found = Changes::default();
    let mut replaced: HashSet<&[u8]> = HashSet::new();
    let mut bytes: u64 = 0;
    for (path, now) in current {
        let before = baseline.get(path);
        let Some(witness) = &now.stat_fingerprint else {
            if before.is_none_or(|before| before.stat_fingerprint.is_some()) {
                found.removed_paths.insert(path.clone());
            }
            continue;
        };
        // If a directory was recreated, everything below it counts as changed.
        let is_below = || ancestors(path).any(|folder| replaced.contains(folder));
        if before.is_some_and(|before| before.is_same_as(now)) && !is_below() {
            continue;
        }
        if now.hides_lower && before.is_none_or(|before| !before.hides_lower) {
            found.removed_paths.insert(path.clone());
            replaced.insert(path);
        }
        match witness.kind {
            EntryKind::Other if request.files_alone => continue,
            EntryKind::Other => {
                return Err(format!("{} is a socket, a pipe or a device", display(path)));
            }
            EntryKind::File if witness.size > request.file_limit => {
                let limit = request.file_limit >> 20;
                return Err(format!("{} is larger than {limit} MiB", display(path)));
            }
            EntryKind::File => bytes = bytes.saturating_add(witness.size),
            EntryKind::Dir | EntryKind::Link => {}
        }
        found.changed_paths.push(path.clone());
    }
    if bytes > request.content_limit {
        let limit = request.content_limit >> 20;
        return Err(format!("files outside the work directory exceed {limit} MiB"));
    }
    let there = baseline.iter().filter(|(_, before)| before.stat_fingerprint.is_some());
    let lost = there.filter(|(path, _)| !current.contains_key(*path));
    found.removed_paths.extend(lost.map(|(path, _)| path.clone()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{AtFlags, CWD, statat};

    use super::{
        super::list::{EntrySource, WrittenEntry, tests::layer_request},
        *,
    };

    fn stat_entry(path: &std::path::Path) -> WrittenEntry {
        let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        WrittenEntry::from_stat(&stat, EntrySource::Root)
    }

    fn changed_and_removed(changes: &Changes) -> (Vec<String>, Vec<String>) {
        let text = |path: &Vec<u8>| String::from_utf8(path.clone()).unwrap();
        (
            changes.changed_paths.iter().map(text).collect(),
            changes.removed_paths.iter().map(text).collect(),
        )
    }

    #[test]
    fn changes_exclude_initial_content() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["kept", "edited", "new"] {
            fs::write(at(name), name).unwrap();
        }
        fs::create_dir(at("made")).unwrap();
        let (kept, edited, made) =
            (stat_entry(&at("kept")), stat_entry(&at("edited")), stat_entry(&at("made")));
        let base = WrittenEntries::from([
            (b"kept".to_vec(), kept),
            (b"edited".to_vec(), edited),
            (b"lost".to_vec(), kept),
            (b"was-gone".to_vec(), WrittenEntry::DELETED),
            (b"again".to_vec(), made),
            (b"again/below".to_vec(), kept),
        ]);
        fs::write(at("edited"), "longer than before").unwrap();
        let now = WrittenEntries::from([
            (b"kept".to_vec(), kept),
            (b"edited".to_vec(), stat_entry(&at("edited"))),
            (b"new".to_vec(), stat_entry(&at("new"))),
            (b"is-gone".to_vec(), WrittenEntry::DELETED),
            (b"was-gone".to_vec(), WrittenEntry::DELETED),
            (b"again".to_vec(), WrittenEntry { hides_lower: true, ..made }),
            (b"again/below".to_vec(), kept),
        ]);
        let (changed, removed) =
            changed_and_removed(&find_changes(&base, &now, &layer_request(100, 100)).unwrap());
        assert_eq!(changed, ["again", "again/below", "edited", "new"]);
        assert_eq!(removed, ["again", "is-gone", "lost"]);
        assert_eq!(
            changed_and_removed(&find_changes(&base, &base, &layer_request(0, 0)).unwrap()),
            (vec![], vec![])
        );

        let why =
            |file, content| find_changes(&base, &now, &layer_request(file, content)).err().unwrap();
        assert_eq!(why(10, 100), "/edited is larger than 0 MiB");
        assert_eq!(why(100, 20), "files outside the work directory exceed 0 MiB");
    }
}
