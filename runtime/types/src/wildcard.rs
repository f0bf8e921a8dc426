//! Wildcard patterns in manifests.

/// Whether a string matches a pattern: `*` matches any run of characters, including newlines. Not a
/// path glob: `/` is an ordinary character.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    // Match as little text as possible, to leave the most for the rest of the pattern.
    match rest.split_once('*') {
        None => text.ends_with(rest),
        Some((middle, _)) => match text.find(middle) {
            Some(at) => matches_wildcard(&rest[middle.len()..], &text[at + middle.len()..]),
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::matches_wildcard;

    #[test]
    fn star_matches_any_run_of_characters() {
        for (pattern, text, holds) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*", "a", true),
            ("*", "", true),
            ("*b*", "abc", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*ab", "aab", true),
            ("a*a", "a", false),
            ("a**b", "a\n/b", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("*é", "ééé", true),
            ("a*b*", "a-b", true),
            ("a*b", "a-c", false),
        ] {
            assert_eq!(matches_wildcard(pattern, text), holds, "{pattern} {text}");
        }
    }
}
