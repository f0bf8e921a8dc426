//! The wildcard syntax for hosts and paths: `*` matches within a component, and `**` matches across
//! components.
//!
//! `/**/` also matches a single `/`.

/// Whether `text` matches `glob`. `*` matches any characters except `separator`, and `**` matches
/// any characters.
///
/// A glob that ends in `<separator>**` also matches the text before that separator, because a
/// directory counts as part of its content. The running time is proportional to the product of both
/// lengths. The limit on header size bounds both.
pub(crate) fn matches(glob: &str, text: &str, separator: char) -> bool {
    let tail: String = [separator, '*', '*'].iter().collect();
    if let Some(folder) = glob.strip_suffix(&tail)
        && !folder.is_empty()
        && matches_tokens(folder, text, separator)
    {
        return true;
    }
    matches_tokens(glob, text, separator)
}

/// Tracks which glob positions are reachable after each character of the text. There is no
/// backtracking, so no pattern can be slow.
fn matches_tokens(glob: &str, text: &str, separator: char) -> bool {
    let tokens = tokenize(glob);
    let mut reached = vec![false; tokens.len() + 1];
    reached[0] = true;
    skip_stars(&tokens, &mut reached);
    for c in text.chars() {
        let mut next = vec![false; tokens.len() + 1];
        for (at, token) in tokens.iter().enumerate() {
            if !reached[at] {
                continue;
            }
            match token {
                Token::Char(wanted) if *wanted == c => {
                    next[at + 1] = true;
                    // `/**/` also matches a single `/`: skip `**` and the second separator.
                    if let Some([Token::All, Token::Char(end)]) = tokens.get(at + 1..at + 3)
                        && c == separator
                        && *end == separator
                    {
                        next[at + 3] = true;
                    }
                }
                Token::Part if c != separator => next[at] = true,
                Token::All => next[at] = true,
                _ => {}
            }
        }
        skip_stars(&tokens, &mut next);
        reached = next;
    }
    reached[tokens.len()]
}

/// Marks the position after each star as reachable, because a star may match nothing.
fn skip_stars(tokens: &[Token], reachable: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        if reachable[at] && !matches!(token, Token::Char(_)) {
            reachable[at + 1] = true;
        }
    }
}

enum Token {
    Char(char),
    Part,
    All,
}

fn tokenize(glob: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' if chars.next_if_eq(&'*').is_some() => Token::All,
            '*' => Token::Part,
            c => Token::Char(c),
        });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_star_does_not_cross_separators_but_double_star_does() {
        for (glob, text, expected) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", true),
            ("/a/**", "/ab", false),
            ("/**/boltons/**", "/simple/boltons/", true),
            ("/**/boltons/**", "/pypi/boltons", true),
            ("/**/boltons/**", "/simple/boltonsy/", false),
            ("/**/boltons/**", "/boltons/", true),
            ("/a/**/b", "/a/b", true),
            ("/a/**b", "/a/b", true),
            ("/a**/b", "/ab", false),
            ("/*/*/archive/**", "/o/r/archive/main.zip", true),
            ("/**", "/", true),
            ("", "", true),
            ("", "/", false),
        ] {
            assert_eq!(matches(glob, text, '/'), expected, "{glob} {text}");
        }
        assert!(matches("*.example.org", "a.example.org", '.'));
        assert!(!matches("*.example.org", "a.b.example.org", '.'));
        assert!(matches("**.example.org", "a.b.example.org", '.'));
        assert!(!matches("*.example.org", "example.org", '.'));
    }

    /// Matches by backtracking: slow, but easily seen to be correct.
    fn matches_by_backtracking(glob: &[char], text: &[char]) -> bool {
        match glob {
            ['/', '*', '*', '/', rest @ ..]
                if text.first() == Some(&'/') && matches_by_backtracking(rest, &text[1..]) =>
            {
                true
            }
            [] => text.is_empty(),
            ['*', '*', rest @ ..] => {
                (0..=text.len()).any(|at| matches_by_backtracking(rest, &text[at..]))
            }
            ['*', rest @ ..] => (0..=text.len())
                .take_while(|at| !text[..*at].contains(&'/'))
                .any(|at| matches_by_backtracking(rest, &text[at..])),
            [c, rest @ ..] => text.first() == Some(c) && matches_by_backtracking(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matches_agrees_with_backtracking(glob in "[ab/*]{0,8}", text in "[ab/]{0,10}") {
            let (g, t): (Vec<_>, Vec<_>) = (glob.chars().collect(), text.chars().collect());
            let folder = g.strip_suffix(&['/', '*', '*']).filter(|folder| !folder.is_empty());
            let expected = matches_by_backtracking(&g, &t) || folder.is_some_and(|folder| matches_by_backtracking(folder, &t));
            prop_assert_eq!(matches(&glob, &text, '/'), expected);
        }

        #[test]
        fn text_without_stars_matches_itself(text in "[a-z/.-]{0,40}") {
            prop_assert!(matches(&text, &text, '/'));
        }
    }

    #[test]
    fn pathological_globs_match_quickly() {
        let begun = std::time::Instant::now();
        assert!(!matches(&"*a".repeat(60), &"a".repeat(4000).replace("aa", "ab"), '/'));
        assert!(!matches(&"**a".repeat(60), &format!("{}b", "a".repeat(4000)), '/'));
        assert!(begun.elapsed().as_secs() < 5);
    }
}
