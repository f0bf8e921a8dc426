//! Paths relative to `/`, as bytes.

use proctor_wire::RawPath;
use rustix::io::Errno;

use crate::serve::refusal::describe_errno;

pub(super) fn trim_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(start, |at| at + 1);
    &path[start..end.max(start)]
}

pub(super) fn split_parent(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    }
}

/// Returns the parents of a path, topmost first.
pub(super) fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(move |(at, _)| &path[..at])
}

pub(super) fn display(path: &[u8]) -> String {
    format!("/{}", RawPath::new(path))
}

pub(super) fn cannot_examine_message(path: &[u8], error: Errno) -> String {
    format!("{} cannot be examined: {}", display(path), describe_errno(error))
}
