//! The patch between two trees.

use std::collections::BTreeMap;

use diffy::DiffOptions;
use proctor_wire::{EntryKind, RawPath, SnapEntry};
use serde::{Deserialize, Serialize};

use super::{
    PatchPolicy, binary,
    files::{Body, Data, FilePatch, How, Hunk, Line, MODE_EXECUTABLE, MODE_FILE, MODE_LINK, Side},
    guard,
    ignored::Ignored,
    policy::Excluded,
    write,
};
use crate::{Blobs, Difference, RecordError, Tree};

/// What `between` makes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    pub bytes: Vec<u8>,
    /// Paths that it changes.
    pub files: u64,
    /// Sorted by path. Where a whole folder is left out, the folder stands for it.
    pub left_out: Vec<LeftOut>,
}

/// A path whose change is not in the patch, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub path: RawPath,
    pub why: String,
}

/// Above this product of line counts the shortest edit script may take minutes; a plain
/// replacement of everything between the first and the last difference is as right.
const COARSE_FROM: usize = 100_000_000;

/// The patch that makes `end` of `base`, for real `git apply` and for [`super::resolve`].
///
/// The rules of `end`'s ignore files hold for paths that `base` does not have; a tracked file stays
/// tracked. Empty folders and mode bits other than the owner's executable bit are no part of a
/// patch. The policy's limits hold for the whole: memory and time do not grow with the tree.
///
/// # Errors
/// A blob that either tree names, or a glob of the policy, cannot be read.
pub fn between(
    base: &Tree,
    end: &Tree,
    blobs: &Blobs,
    policy: &PatchPolicy,
) -> Result<Patch, RecordError> {
    let ignored = Ignored::of(end, blobs, policy.ignore_limit_bytes)?;
    let excluded = Excluded::of(policy)?;
    let mut left_out =
        LeftOutPaths { paths: BTreeMap::new(), more: 0, limit: policy.left_out_limit };
    let mut wanted = Vec::new();
    for change in base.diff(end) {
        let sides = [change.base, change.end];
        if sides.iter().flatten().all(|entry| entry.kind == EntryKind::Dir)
            || sides[0].map(essence) == sides[1].map(essence)
        {
            continue;
        }
        let path = change.path;
        let is_new = change.base.is_none_or(|entry| entry.kind == EntryKind::Dir);
        let mut leave = |length: usize, why: &str| left_out.add(&path.as_bytes()[..length], why);
        let whole = path.as_bytes().len();
        if let Some((length, why)) = excluded.find(path.as_bytes(), is_new) {
            leave(length, why);
        } else if let Some(length) = ignored.find(path).filter(|_| is_new) {
            leave(length, "new, and ignored by the tree's .gitignore");
        } else if guard::check_path(path).is_err() {
            leave(whole, "no patch may touch this path");
        } else if whole > policy.path_limit_bytes {
            // Its folder stands for it: the paths of a deep tree would fill the outcome.
            let why = format!("a path of more than {} bytes", policy.path_limit_bytes);
            leave(path.as_bytes().iter().position(|byte| *byte == b'/').unwrap_or(whole), &why);
        } else {
            wanted.push(change);
        }
    }
    in_order(&mut wanted);
    let mut room = Room { files: 0, bytes: 0, content: 0, too_large: u64::MAX };
    let mut pieces = BTreeMap::new();
    for change in wanted {
        let path = change.path;
        let left = match room.piece(path, [change.base, change.end], blobs, policy)? {
            Ok(piece) => {
                pieces.insert(path, piece);
                continue;
            }
            Err(why) => why,
        };
        left_out.add(path.as_bytes(), &left);
    }
    for folder in &end.unwalked {
        let folder = if folder.as_bytes().is_empty() { b"." } else { folder.as_bytes() };
        let shown = &folder[..folder.len().min(policy.path_limit_bytes)];
        left_out.add(shown, "too deep, or too much in it, to be looked at as a whole");
    }
    let files = pieces.len() as u64;
    let mut bytes = Vec::new();
    while let Some((_, piece)) = pieces.pop_first() {
        bytes.extend_from_slice(&piece);
    }
    Ok(Patch { bytes, files, left_out: left_out.list() })
}

/// What comes first where there is no room for all: what was there before; then new files in folders with
/// few of them, the smallest first. A heap of files, large or empty, is last wherever it lies.
fn in_order(wanted: &mut [Difference<'_>]) {
    let folder = |path: &RawPath| {
        let bytes = path.as_bytes();
        bytes[..bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)].to_vec()
    };
    let mut heaps: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for change in wanted.iter().filter(|change| change.base.is_none()) {
        *heaps.entry(folder(change.path)).or_default() += 1;
    }
    wanted.sort_by_cached_key(|change| match (change.base, change.end) {
        (None, Some(end)) => {
            let hundreds = heaps.get(&folder(change.path)).map_or(0, |count| count / 100);
            (true, hundreds, end.size == 0, end.size)
        }
        _ => (false, 0, false, 0),
    });
}

/// The paths left out, as many as are named.
struct LeftOutPaths {
    paths: BTreeMap<RawPath, String>,
    more: u64,
    limit: usize,
}

impl LeftOutPaths {
    fn add(&mut self, path: &[u8], why: &str) {
        let path = RawPath::new(path);
        if self.paths.contains_key(&path) {
            return;
        }
        if self.paths.len() < self.limit {
            self.paths.insert(path, why.to_owned());
        } else {
            self.more += 1;
        }
    }

    fn list(self) -> Vec<LeftOut> {
        let listed = self.paths.into_iter().map(|(path, why)| LeftOut { path, why });
        let more = (self.more > 0).then(|| LeftOut {
            path: "...".into(),
            why: format!("and {} further path{}", self.more, if self.more == 1 { "" } else { "s" }),
        });
        listed.chain(more).collect()
    }
}

/// What of the policy's limits is used up.
struct Room {
    files: u64,
    bytes: u64,
    content: u64,
    /// Files of this size did not fit: of one that is as large it is not tried again.
    too_large: u64,
}

impl Room {
    /// One path's part of the patch, or why it is left out.
    fn piece(
        &mut self,
        path: &RawPath,
        sides: [Option<&SnapEntry>; 2],
        blobs: &Blobs,
        policy: &PatchPolicy,
    ) -> Result<Result<Vec<u8>, String>, RecordError> {
        if self.files >= policy.files_limit {
            let limit = policy.files_limit;
            return Ok(Err(format!("the patch would change more than {limit} files")));
        }
        let read: u64 = sides
            .iter()
            .flatten()
            .filter(|entry| entry.kind == EntryKind::File && entry.size <= policy.file_limit_bytes)
            .map(|entry| entry.size)
            .sum();
        if self.content + read > policy.content_limit_bytes {
            let limit = policy.content_limit_bytes;
            return Ok(Err(format!("with the files before it more than {limit} bytes to compare")));
        }
        let over = || {
            let limit = policy.bytes_limit;
            Ok(Err(format!("with it the patch would have more than {limit} bytes")))
        };
        if read >= self.too_large {
            return over();
        }
        let (old, new) = match sides_of(sides[0], sides[1], blobs, policy)? {
            Ok(sides) => sides,
            Err(why) => return Ok(Err(why)),
        };
        self.content += read;
        let mut piece = Vec::new();
        if let Some(why) = one(path, old, new, policy, &mut piece) {
            return Ok(Err(why.to_owned()));
        }
        if self.bytes + piece.len() as u64 > policy.bytes_limit {
            self.too_large = read;
            return over();
        }
        self.files += 1;
        self.bytes += piece.len() as u64;
        Ok(Ok(piece))
    }
}

/// What a patch can say of an entry.
fn essence(entry: &SnapEntry) -> (EntryKind, bool, Option<&String>, Option<&RawPath>, u64) {
    let executable = entry.kind == EntryKind::File && entry.mode & 0o100 != 0;
    let size = if entry.kind == EntryKind::File { entry.size } else { 0 };
    (entry.kind, executable, entry.hash.as_ref(), entry.link.as_ref(), size)
}

/// One side's git mode and content; a folder is nothing.
type SideContent = Option<(u32, Vec<u8>)>;

fn sides_of(
    base: Option<&SnapEntry>,
    end: Option<&SnapEntry>,
    blobs: &Blobs,
    policy: &PatchPolicy,
) -> Result<Result<(SideContent, SideContent), String>, RecordError> {
    let mut sides = [None, None];
    for (place, entry) in sides.iter_mut().zip([base, end]) {
        let Some(entry) = entry else { continue };
        *place = match entry.kind {
            EntryKind::Dir => None,
            EntryKind::Other => return Ok(Err("neither a file nor a link".into())),
            EntryKind::Link => match &entry.link {
                Some(target) => Some((MODE_LINK, target.as_bytes().to_vec())),
                None => return Ok(Err("a link whose target is not known".into())),
            },
            EntryKind::File => {
                let limit = policy.file_limit_bytes;
                if entry.size > limit {
                    let size = entry.size;
                    return Ok(Err(format!("{size} bytes, over the limit of {limit}")));
                }
                let Some(hash) = &entry.hash else {
                    return Ok(Err("larger than a snapshot takes".into()));
                };
                let executable = entry.mode & 0o100 != 0;
                let mode = if executable { MODE_EXECUTABLE } else { MODE_FILE };
                Some((mode, blobs.get(hash)?))
            }
        };
    }
    let [old, new] = sides;
    Ok(Ok((old, new)))
}

/// Appends one path's change; gives the reason where the policy leaves it out.
fn one(
    path: &RawPath,
    old: SideContent,
    new: SideContent,
    policy: &PatchPolicy,
    out: &mut Vec<u8>,
) -> Option<&'static str> {
    let is_link = |side: &SideContent| side.as_ref().is_some_and(|(mode, _)| *mode == MODE_LINK);
    let contents = [&old, &new].map(|side| side.as_ref().map_or(&[][..], |(_, bytes)| bytes));
    let is_binary = contents.iter().any(|bytes| binary::is_binary(bytes));
    if is_binary && !policy.binary {
        return Some("binary, by policy");
    }
    // A file that becomes a link, or the other way round, is one that goes and one that comes.
    if old.is_some() && new.is_some() && is_link(&old) != is_link(&new) {
        write::write(&change(path, old, None), out);
        write::write(&change(path, None, new), out);
    } else {
        write::write(&change(path, old, new), out);
    }
    None
}

fn change(path: &RawPath, old: SideContent, new: SideContent) -> FilePatch {
    let absent = || "0".repeat(40);
    let id =
        |side: &SideContent| side.as_ref().map_or_else(absent, |(_, bytes)| binary::blob_id(bytes));
    let index = Some((id(&old), id(&new)));
    let (old_mode, old_bytes) = old.map_or((None, vec![]), |(mode, bytes)| (Some(mode), bytes));
    let (new_mode, new_bytes) = new.map_or((None, vec![]), |(mode, bytes)| (Some(mode), bytes));
    let body = if old_bytes == new_bytes {
        // Git itself writes an index line for an empty file that comes or goes; none is needed.
        Body::Empty
    } else if binary::is_binary(&old_bytes) || binary::is_binary(&new_bytes) {
        Body::Binary { forward: Data::Literal(new_bytes), backward: Some(Data::Literal(old_bytes)) }
    } else {
        Body::Text(hunks(&old_bytes, &new_bytes))
    };
    FilePatch {
        old: old_mode.map(|_| path.clone()),
        new: new_mode.map(|_| path.clone()),
        how: How::Change,
        old_mode,
        new_mode,
        index,
        body,
        plain: false,
    }
}

fn hunks(old: &[u8], new: &[u8]) -> Vec<Hunk> {
    let (old_lines, new_lines) = (split(old), split(new));
    if old_lines.len().saturating_mul(new_lines.len()) > COARSE_FROM {
        return vec![coarse(&old_lines, &new_lines)];
    }
    let diff = DiffOptions::new().create_patch_bytes(old, new);
    let hunks = diff.hunks().iter().map(|hunk| Hunk {
        old_start: hunk.old_range().start(),
        new_start: hunk.new_range().start(),
        section: Vec::new(),
        lines: hunk
            .lines()
            .iter()
            .map(|line| match line {
                diffy::Line::Context(bytes) => Line { side: Side::Both, bytes: bytes.to_vec() },
                diffy::Line::Delete(bytes) => Line { side: Side::Old, bytes: bytes.to_vec() },
                diffy::Line::Insert(bytes) => Line { side: Side::New, bytes: bytes.to_vec() },
            })
            .collect(),
    });
    hunks.collect()
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// One hunk from the first to the last difference, with three lines of context.
fn coarse(old: &[&[u8]], new: &[&[u8]]) -> Hunk {
    let same = |pairs: &mut dyn Iterator<Item = (&&[u8], &&[u8])>| {
        pairs.take_while(|(a, b)| a == b).count()
    };
    let head = same(&mut old.iter().zip(new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let start = head.saturating_sub(3);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let below = &old[old_end..(old_end + 3).min(old.len())];
    let lines = |side, lines: &[&[u8]]| {
        lines.iter().map(|bytes| Line { side, bytes: bytes.to_vec() }).collect::<Vec<_>>()
    };
    Hunk {
        old_start: start + 1,
        new_start: start + 1,
        section: Vec::new(),
        lines: [
            lines(Side::Both, &old[start..head]),
            lines(Side::Old, &old[head..old_end]),
            lines(Side::New, &new[head..new_end]),
            lines(Side::Both, below),
        ]
        .concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::apply;

    #[test]
    fn the_coarse_hunk_is_right_too() {
        let text = |lines: &[&str]| lines.concat().into_bytes();
        let old = text(&["1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n", "8"]);
        for new in [
            text(&["1\n", "2\n", "3\n", "4\n", "x\n", "6\n", "y\n", "8"]),
            text(&["0\n", "1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n", "8\n"]),
            text(&["8"]),
        ] {
            let hunk = coarse(&split(&old), &split(&new));
            assert_eq!(apply::apply(&[hunk], &old).unwrap(), new);
        }
    }
}
