//! Rejects paths that no patch may touch, whatever its origin. Every error names the path.

use proctor_wire::RawPath;

use crate::PatchError;

/// Rejects a path that escapes the work directory or points into Git's own data.
///
/// `.git` is rejected in any combination of upper and lower case, because some file systems are
/// case-insensitive. Names such as `git~1` are allowed, because they have no special meaning on
/// Linux file systems.
///
/// # Errors
/// Returns an error that says what is wrong with the path.
pub fn check_path(path: &RawPath) -> Result<(), PatchError> {
    let refuse = |why: &str| Err(PatchError::Refused { path: path.clone(), why: why.into() });
    let bytes = path.as_bytes();
    if bytes.is_empty() {
        return refuse("the path is empty");
    }
    if bytes.starts_with(b"/") {
        return refuse("the path is absolute; paths are relative to the work directory");
    }
    if bytes.contains(&0) {
        return refuse("the path contains a NUL byte");
    }
    for component in bytes.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => return refuse("the path has an empty component"),
            b".." => return refuse("the path leaves the work directory with `..`"),
            _ if component.eq_ignore_ascii_case(b".git") => {
                return refuse("the path is in `.git`");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the parent directories of a path, outermost first.
pub fn parent_directories(path: &RawPath) -> impl Iterator<Item = RawPath> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| RawPath::new(&bytes[..at]))
}
