//! Parses file names in header lines.

use proctor_wire::RawPath;

use crate::quote::unquote;

/// Removes the first path component (`a/` or `b/`), like `-p1`.
fn strip_first_component(name: &[u8]) -> Option<RawPath> {
    let slash = name.iter().position(|byte| *byte == b'/')?;
    // Keep `/etc/passwd` absolute, so that it is rejected later. It must not become `etc/passwd`.
    if slash == 0 {
        return Some(RawPath::new(name));
    }
    let rest = &name[slash + 1..];
    (!rest.is_empty()).then(|| RawPath::new(rest))
}

/// Parses the name in a `--- ` or `+++ ` line. A tab ends the name, because a timestamp may follow.
/// `/dev/null` means that the side is absent.
pub(crate) fn parse_side_name(text: &[u8]) -> Option<Option<RawPath>> {
    let name = match unquote(text) {
        Some((name, _)) => name,
        None => text.split(|byte| *byte == b'\t').next().unwrap_or_default().to_vec(),
    };
    if name == b"/dev/null" {
        return Some(None);
    }
    strip_first_component(&name).map(Some)
}

/// Parses the name in a `rename` or `copy` line, which has no prefix.
pub(crate) fn parse_unprefixed_name(text: &[u8]) -> RawPath {
    RawPath::new(unquote(text).map_or_else(|| text.to_vec(), |(name, _)| name))
}

/// Parses both names of a `diff --git` line. Unquoted names may contain spaces, so the line is
/// split into two equal names. Renames have different names, but also have separate lines for them.
pub(crate) fn parse_name_pair(text: &[u8]) -> Option<(RawPath, RawPath)> {
    if let Some((old, rest)) = unquote(text) {
        let rest = rest.strip_prefix(b" ")?;
        let new = unquote(rest).map_or_else(|| rest.to_vec(), |(name, _)| name);
        return Some((strip_first_component(&old)?, strip_first_component(&new)?));
    }
    let blanks = (0..text.len()).filter(|at| text[*at] == b' ');
    blanks
        .filter_map(|at| {
            let old = strip_first_component(&text[..at])?;
            let rest = &text[at + 1..];
            let new = unquote(rest).map_or_else(|| rest.to_vec(), |(name, _)| name);
            Some((old, strip_first_component(&new)?))
        })
        .find(|(old, new)| old == new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_quotes_are_parsed() {
        let both = |name: &str| Some((RawPath::from(name), RawPath::from(name)));
        assert_eq!(parse_name_pair(b"a/x b/x"), both("x"));
        assert_eq!(parse_name_pair(b"a/x b/x b/x b/x"), both("x b/x"));
        assert_eq!(parse_name_pair(br#""a/\303\251" "b/\303\251""#), both("é"));
        assert_eq!(parse_name_pair(b"a/x b/y"), None);
        assert_eq!(parse_side_name(b"/dev/null"), Some(None));
        assert_eq!(parse_side_name(b"a/x y\t2026-01-01"), Some(Some("x y".into())));
        assert_eq!(parse_side_name(b"x"), None);
        assert_eq!(parse_side_name(b"/etc/x"), Some(Some("/etc/x".into())));
    }
}
