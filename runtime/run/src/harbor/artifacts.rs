//! Selects the part of a trial's result that a separate verifier receives.

use proctor_record::Tree;
use proctor_sandbox_api::wire::{
    EntryKind, LayerDiff as SandboxLayer, LayerEntry, RawPath, SnapshotEntry,
};
use proctor_types::Task;

/// Returns the part of a recorded state that a separate verifier receives: the declared artifacts
/// and the directory that is always collected. All entries belong to root and have no special mode
/// bits. Links that leave their artifact are dropped.
pub(super) fn select_artifacts(
    task: &Task,
    paths: &[String],
    tree: &Tree,
    layer: SandboxLayer,
) -> SandboxLayer {
    let start = RawPath::from(task.cwd());
    let mut roots: Vec<RawPath> = paths
        .iter()
        .map(|path| match path.trim_end_matches('/') {
            absolute if absolute.starts_with('/') => RawPath::from(absolute),
            relative => start.join(&RawPath::from(relative.trim_start_matches("./"))),
        })
        .collect();
    roots.push(RawPath::from("/logs/artifacts"));
    let workdir = RawPath::from(task.workdir.as_str());
    let of_tree = tree.entries.values().map(|entry| {
        let path = workdir.join(&entry.path);
        let entry = SnapshotEntry { path: strip_root(&path), ..entry.clone() };
        LayerEntry { entry, uid: 0, gid: 0 }
    });
    let mut changed: Vec<LayerEntry> = of_tree.chain(layer.changed).collect();
    changed.retain(|one| {
        let path = RawPath::from("/").join(&one.entry.path);
        let root = roots.iter().find(|root| is_within(&path, root));
        root.is_some_and(|root| match &one.entry.link {
            Some(target) => stays_within(&path, target, root),
            None => one.entry.kind != EntryKind::Other,
        })
    });
    for one in &mut changed {
        (one.uid, one.gid) = (0, 0);
        one.entry.mode &= 0o777;
    }
    changed.sort_by(|a, b| a.entry.path.cmp(&b.entry.path));
    changed.dedup_by(|a, b| a.entry.path == b.entry.path);
    SandboxLayer { changed, removed: Vec::new() }
}

fn strip_root(path: &RawPath) -> RawPath {
    let bytes = path.as_bytes();
    RawPath::new(bytes.strip_prefix(b"/").unwrap_or(bytes))
}

fn is_within(path: &RawPath, folder: &RawPath) -> bool {
    let rest = path.as_bytes().strip_prefix(folder.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Whether the link at `path` points to a target below `folder`. Only compares paths, so other
/// links on the way to the target are not followed.
fn stays_within(path: &RawPath, target: &RawPath, folder: &RawPath) -> bool {
    let mut parts: Vec<&[u8]> = Vec::new();
    let from = if target.as_bytes().starts_with(b"/") { &[][..] } else { path.as_bytes() };
    let above = from.split(|&byte| byte == b'/');
    let above: Vec<&[u8]> = above.collect();
    let above = &above[..above.len().saturating_sub(1)];
    for part in above.iter().copied().chain(target.as_bytes().split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut whole = Vec::new();
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    is_within(&RawPath::new(whole), folder)
}
