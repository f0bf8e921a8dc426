//! Scans compiled Python for strings in the marshal format.

use proctor_wire::{FindingKind, fingerprint};

use crate::{
    secrets::{SecretIndex, Tally},
    text,
};

/// Maximum length, in bytes, of a string that may be a name.
const MAX_NAME_BYTES: usize = 80;

/// Returns whether the bytes start like a `.pyc` file: the magic number ends with a line break.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    bytes.len() > 16 && bytes.get(2..4) == Some(b"\r\n")
}

/// Looks up every string in the marshaled code as a name. Strings with several lines (docstrings)
/// are also looked up as text.
///
/// Does not parse the code, but tries every position as the start of a string. The format differs
/// between Python versions, but the encoding of strings does not.
pub fn scan_bytecode(
    index: &SecretIndex,
    path: &[u8],
    bytes: &[u8],
    tally: &mut Tally,
) -> Option<FindingKind> {
    let mut carried = vec![module_stem(path).to_vec()];
    let mut at = 0;
    while at < bytes.len() {
        let Some((string, next)) = read_string(bytes, at) else {
            at += 1;
            continue;
        };
        if string.contains(&b'\n') {
            text::count_windows(index, string, tally);
        }
        if string.ends_with(b".py") {
            carried.push(string[..string.len() - 3].to_vec());
        }
        if string.len() <= MAX_NAME_BYTES && index.has_names() {
            tally.add_name(index, fingerprint::hash_bytes(string));
        }
        at = next;
    }
    let carries = |module: &str| {
        let last = module.rsplit('/').next().unwrap_or(module);
        carried
            .iter()
            .any(|name| name == last.as_bytes() || ends_with_path(name, module.as_bytes()))
    };
    tally.best_text_match(index).or_else(|| tally.best_bytecode_match(index, &carries))
}

/// Returns `module` for `__pycache__/module.cpython-311.opt-1.pyc`.
fn module_stem(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.split(|&byte| byte == b'.').next().unwrap_or(name)
}

fn ends_with_path(path: &[u8], suffix: &[u8]) -> bool {
    path.strip_suffix(suffix).is_some_and(|head| head.is_empty() || head.ends_with(b"/"))
}

/// Returns the string that starts at `at`, and the position of its end. The type byte may have the
/// reference flag.
fn read_string(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let (start, length) = match bytes[at] & 0x7f {
        // Short ASCII, interned or not.
        b'z' | b'Z' => (at + 2, usize::from(*bytes.get(at + 1)?)),
        // ASCII, Unicode, bytes.
        b'a' | b'A' | b'u' | b't' | b's' => {
            let length = bytes.get(at + 1..at + 5)?;
            (at + 5, u32::from_le_bytes(length.try_into().ok()?) as usize)
        }
        _ => return None,
    };
    let string = bytes.get(start..start.checked_add(length)?)?;
    // Accept only a name or a string. Other bytes are not a string, and positions inside them are
    // tried separately.
    let is_text = length > 0
        && string.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\n' | b'\t' | b'\r'));
    is_text.then_some((string, start + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_at_any_position() {
        let mut bytes = b"\xa7\r\r\n____________".to_vec();
        bytes.extend(b"\xda\x06to_man\xfa\x10/src/pkg/roman.pys\x04\0\0\0\x01\x02\x03\x04");
        assert!(is_bytecode(&bytes));
        assert_eq!(read_string(&bytes, 16), Some((&b"to_man"[..], 24)));
        assert_eq!(read_string(&bytes, bytes.len() - 9), None, "code is not a string");
        assert_eq!(module_stem(b"/a/__pycache__/roman.cpython-311.pyc"), b"roman");
        assert!(ends_with_path(b"/src/pkg/roman", b"pkg/roman"));
        assert!(!ends_with_path(b"/src/mypkg/roman", b"pkg/roman"));
    }
}
