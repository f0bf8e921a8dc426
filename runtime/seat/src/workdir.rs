//! Prepares a work directory for driving, on the trusted side, and verifies the seal.

use proctor_sandbox_api::{
    Room,
    wire::{EntryKind, RawPath, SearchRequest, SnapshotReply, SnapshotRequest},
};
use proctor_types::{Fault, Layer, Task};

use crate::{ApplyError, apply::join, apply_patch};

/// Files larger than this are listed in a snapshot without their content, in bytes.
pub const SNAPSHOT_FILE_LIMIT: u64 = 64 << 20;

/// A work directory of more entries than this is refused.
pub const SNAPSHOT_ENTRY_LIMIT: u64 = 500_000;

/// Names that hold a copy or the history of the code, wherever they stand below the work
/// directory. They are removed before the agent starts.
const COPIES: [&str; 10] = [
    ".git",
    ".hg",
    ".svn",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".eggs",
];

/// The snapshot request for a task's work directory.
pub fn snapshot_request(workdir: &RawPath, fresh: bool) -> SnapshotRequest {
    SnapshotRequest {
        root: workdir.clone(),
        fresh,
        skip: vec![RawPath::from(".git")],
        file_limit: SNAPSHOT_FILE_LIMIT,
        entry_limit: SNAPSHOT_ENTRY_LIMIT,
    }
}

/// Takes the feature away: mask applied, hidden paths, copies, caches and history removed; then
/// looks again and refuses to seat what is not sealed.
///
/// Everything that goes wrong here is an infrastructure fault of the seat, never a zero.
pub async fn prepare_for_driving(room: &Room, task: &Task) -> Result<(), Fault> {
    let workdir = RawPath::from(task.workdir.as_str());
    if let Some(mask) = &task.mask {
        apply_patch(room, &workdir, mask.as_bytes()).await.map_err(|error| match error {
            ApplyError::Patch(error) => {
                seat_fault(task, format!("the mask does not apply: {error}"))
                    .mend("the mask must fit the source exactly; run `proctor tasks validate`")
            }
            ApplyError::Room(error) => error.fault("applying the mask"),
        })?;
    }
    for hidden in &task.hidden {
        let path = join(&workdir, &RawPath::from(hidden.as_str()));
        room.remove(&path).await.map_err(|error| error.fault(format!("hiding {hidden}")))?;
    }
    remove_copies(room, &workdir).await?;
    verify(room, task, &workdir).await
}

async fn remove_copies(room: &Room, workdir: &RawPath) -> Result<(), Fault> {
    let mut folders = vec![workdir.clone()];
    while let Some(folder) = folders.pop() {
        let entries = room.list(&folder).await.map_err(|error| error.fault("listing the seat"))?;
        for entry in entries {
            let path = join(&folder, &entry.name);
            let copy = COPIES.iter().any(|name| entry.name.as_bytes() == name.as_bytes());
            if copy || entry.name.as_bytes().ends_with(b".pyc") {
                room.remove(&path).await.map_err(|error| error.fault("removing copies"))?;
            } else if entry.kind == EntryKind::Dir {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// The seal: hidden paths absent, and the mask's every file as the mask leaves it.
///
/// Applying a patch twice is the check: what the mask took away must not be there to be taken
/// away again. Copies of the gold elsewhere are searched by their longest removed line.
async fn verify(room: &Room, task: &Task, workdir: &RawPath) -> Result<(), Fault> {
    for hidden in &task.hidden {
        let path = join(workdir, &RawPath::from(hidden.as_str()));
        let found = room.stat(&path).await.map_err(|error| error.fault("verifying the seal"))?;
        if found.is_some() {
            return Err(seat_fault(task, format!("hidden path {hidden} is still there")));
        }
    }
    let Some(line) = task.mask.as_deref().and_then(telling_line) else { return Ok(()) };
    let request = SearchRequest {
        root: workdir.clone(),
        pattern: Some(literal(line)),
        glob: None,
        ignore_case: false,
        honour_ignore: false,
        limit: 5,
    };
    let (matches, _) =
        room.search(request).await.map_err(|error| error.fault("verifying the seal"))?;
    match matches.first() {
        None => Ok(()),
        Some(found) => Err(seat_fault(
            task,
            format!("masked code is still in {} line {}: {line:?}", found.path, found.line),
        )
        .mend("extend the mask, or list the file under `hidden`")),
    }
}

/// The longest line that the mask removes and nowhere keeps: the most telling trace of the gold.
/// Lines that open a block are no trace: sibling classes repeat each other's signatures.
fn telling_line(mask: &str) -> Option<&str> {
    let kept = |text: &str| {
        mask.lines().any(|line| {
            (line.starts_with('+') || line.starts_with(' ')) && line.get(1..) == Some(text)
        })
    };
    mask.lines()
        .filter(|line| line.starts_with('-') && !line.starts_with("---"))
        .filter_map(|line| line.get(1..))
        .map(str::trim)
        .filter(|text| text.len() >= 40 && !text.ends_with(':') && !kept(text))
        .max_by_key(|text| text.len())
}

/// Escapes every character that a regular expression reads as more than itself.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn seat_fault(task: &Task, what: String) -> Fault {
    Fault::new(Layer::Seat, what).context(&task.id)
}

/// Takes a snapshot of the work directory.
pub async fn snapshot(
    room: &Room,
    workdir: &RawPath,
    fresh: bool,
) -> Result<(SnapshotReply, Vec<(String, Vec<u8>)>), Fault> {
    room.snapshot(snapshot_request(workdir, fresh))
        .await
        .map_err(|error| error.fault("taking a snapshot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_is_the_longest_removed_one() {
        let long = "    return sum(values[numeral] for numeral in pairs(text))";
        let mask = format!("--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n-{long}\n-short\n kept\n");
        assert_eq!(telling_line(&mask), Some(long.trim()));
        let moved = format!("{mask}+{}\n", long.trim());
        assert_eq!(telling_line(&moved), None);
    }

    #[test]
    fn literals_are_escaped() {
        assert_eq!(literal("a.b[0] <é>_"), "a\\.b\\[0\\] <é>_");
    }
}
