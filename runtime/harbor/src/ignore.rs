//! Interprets ignore rules like the Python library `pathspec`, which Harbor uses. `pathspec` has
//! two kinds of rules. Both differ from Git's rules and from each other, and the differences affect
//! task digests.

use regex::Regex;

/// How the rules are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleSyntax {
    /// `PathSpec` with `gitignore` patterns, for `.gitignore`. The last matching pattern wins.
    Basic,
    /// `GitIgnoreSpec`, for `.harborignore`. Patterns for files take precedence over patterns for
    /// folders.
    Git,
}

#[derive(Debug, Clone)]
struct Pattern {
    is_exclusion: bool,
    regex: Regex,
}

/// The rules in one file, in order.
#[derive(Debug, Clone)]
pub(crate) struct IgnoreRules {
    kind: RuleSyntax,
    patterns: Vec<Pattern>,
}

/// Name of the regex group that marks a folder pattern.
const FOLDER_GROUP: &str = "folder";

impl IgnoreRules {
    /// Parses the rules.
    ///
    /// # Errors
    /// Fails if a pattern is invalid, such as a pattern that ends with a backslash.
    pub(crate) fn parse<'a>(
        kind: RuleSyntax,
        lines: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let mut patterns = Vec::new();
        for line in lines {
            patterns.extend(parse_pattern(kind, line)?);
        }
        Ok(Self { kind, patterns })
    }

    /// Whether a path is excluded. Returns `None` if no rule matches. A folder's path must end with
    /// a slash.
    pub(crate) fn excludes(&self, path: &str) -> Option<bool> {
        match self.kind {
            RuleSyntax::Basic => {
                let matched = |pattern: &&Pattern| pattern.regex.is_match(path);
                self.patterns.iter().rev().find(matched).map(|pattern| pattern.is_exclusion)
            }
            RuleSyntax::Git => {
                let mut of_folder = None;
                for pattern in self.patterns.iter().rev() {
                    let Some(found) = pattern.regex.captures(path) else { continue };
                    if found.name(FOLDER_GROUP).is_none() {
                        return Some(pattern.is_exclusion);
                    }
                    of_folder = of_folder.or(Some(pattern.is_exclusion));
                }
                of_folder
            }
        }
    }
}

fn parse_pattern(kind: RuleSyntax, line: &str) -> Result<Option<Pattern>, String> {
    let invalid = || format!("invalid pattern {line:?}");
    let text = if line.ends_with("\\ ") { line } else { line.trim_end() };
    if text.is_empty() || text.starts_with('#') || (kind == RuleSyntax::Git && text == "/") {
        return Ok(None);
    }
    let (excludes, text) = match text.strip_prefix('!') {
        Some(rest) => (false, rest),
        None => (true, text),
    };
    let mut segments: Vec<&str> = text.split('/').collect();
    let is_folder = segments.last().is_some_and(|last| last.is_empty()) && text != "/";
    if segments[0].is_empty() {
        segments.remove(0);
    } else if (segments.len() == 1 || (segments.len() == 2 && segments[1].is_empty()))
        && segments[0] != "**"
    {
        segments.insert(0, "**");
    }
    match segments.last_mut() {
        None => return Err(invalid()),
        Some(last) if last.is_empty() => *last = "**",
        Some(_) => {}
    }
    segments.dedup_by(|a, b| *a == "**" && *b == "**");
    let folder = match kind {
        RuleSyntax::Git => format!("(?P<{FOLDER_GROUP}>/)"),
        RuleSyntax::Basic => "/".to_owned(),
    };
    let regex = match segments.as_slice() {
        ["**"] if is_folder => folder,
        ["**"] | ["**", "*"] => ".".to_owned(),
        ["**", "*", "**"] if is_folder => folder,
        ["**", "*", "**"] => "/".to_owned(),
        segments => {
            let Some(regex) =
                segments_to_regex(kind, segments, is_folder, &folder).map_err(|()| invalid())?
            else {
                return Ok(None);
            };
            regex
        }
    };
    // Like `pathspec`, compile the pattern without flags. Relevant paths contain no line feeds, so
    // it does not matter how the two regex engines treat them.
    let regex = Regex::new(&regex).map_err(|_| invalid())?;
    Ok(Some(Pattern { is_exclusion: excludes, regex }))
}

/// Converts path segments to a regular expression. Returns `Ok(None)` if the pattern is discarded.
fn segments_to_regex(
    kind: RuleSyntax,
    segments: &[&str],
    is_folder: bool,
    folder: &str,
) -> Result<Option<String>, ()> {
    let mut regex = String::new();
    let mut slash = false;
    let end = segments.len() - 1;
    for (index, segment) in segments.iter().enumerate() {
        if *segment == "**" {
            if index == 0 {
                regex.push_str("^(?:.+/)?");
            } else if index < end {
                regex.push_str("(?:/.+)?");
                slash = true;
            } else if is_folder {
                regex.push_str(folder);
            } else {
                regex.push('/');
            }
            continue;
        }
        if index == 0 {
            regex.push('^');
        }
        if slash {
            regex.push('/');
        }
        if *segment == "*" {
            regex.push_str("[^/]+");
        } else {
            match segment_to_regex(kind, segment)? {
                Some(translated) => regex.push_str(&translated),
                None => return Ok(None),
            }
        }
        if index == end {
            regex.push_str(match (kind, *segment) {
                (RuleSyntax::Git, _) => "(?:(?P<folder>/)|$)",
                (RuleSyntax::Basic, "*") => "/?$",
                (RuleSyntax::Basic, _) => "(?:/|$)",
            });
        }
        slash = true;
    }
    Ok(Some(regex))
}

/// Converts a segment to a regular expression. Returns `Ok(None)` for an unterminated class,
/// because Git ignores patterns with such a class.
fn segment_to_regex(kind: RuleSyntax, segment: &str) -> Result<Option<String>, ()> {
    let chars: Vec<char> = segment.chars().collect();
    let mut regex = String::new();
    let mut index = 0;
    while index < chars.len() {
        let one = chars[index];
        index += 1;
        match one {
            '\\' => {
                let next = chars.get(index).ok_or(())?;
                regex.push_str(&regex::escape(&next.to_string()));
                index += 1;
            }
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => {
                let mut close = index;
                if matches!(chars.get(close), Some('!' | '^')) {
                    close += 1;
                }
                if chars.get(close) == Some(&']') {
                    close += 1;
                }
                while close < chars.len() && chars[close] != ']' {
                    close += 1;
                }
                if close >= chars.len() {
                    if kind == RuleSyntax::Git {
                        return Ok(None);
                    }
                    regex.push_str("\\[");
                    continue;
                }
                regex.push_str(&character_class(&chars[index..close]));
                index = close + 1;
            }
            other => regex.push_str(&regex::escape(&other.to_string())),
        }
    }
    Ok(Some(regex))
}

/// Builds a character class. Some characters need no escape in Python's `re` but need one in this
/// regex engine, so they are escaped.
fn character_class(members: &[char]) -> String {
    let mut class = String::from("[");
    for (index, one) in members.iter().enumerate() {
        match one {
            '!' | '^' if index == 0 => class.push('^'),
            '-' => class.push('-'),
            other if other.is_alphanumeric() => class.push(*other),
            other => class.push_str(&regex::escape(&other.to_string())),
        }
    }
    // A hyphen at the start or end of a class is a literal, both in ignore files and in regular
    // expressions.
    class.push(']');
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_rules_use_last_match_and_trailing_slash_for_folders() {
        let basic =
            |lines: &[&str]| IgnoreRules::parse(RuleSyntax::Basic, lines.iter().copied()).unwrap();
        let rules = basic(&["__pycache__/", "*.pyc", "!keep.pyc", "/top", "a/**/b", "d?[a-c].t"]);
        for (path, expected) in [
            ("tests/__pycache__/x.py", Some(true)),
            ("tests/x.pyc", Some(true)),
            ("tests/keep.pyc", Some(false)),
            ("top/x", Some(true)),
            ("sub/top", None),
            ("a/b", Some(true)),
            ("a/x/y/b", Some(true)),
            ("dxb.t", Some(true)),
            ("dxd.t", None),
        ] {
            assert_eq!(rules.excludes(path), expected, "{path}");
        }
        let git = IgnoreRules::parse(RuleSyntax::Git, ["logs/", "!logs/keep"]).unwrap();
        assert_eq!(git.excludes("logs/"), Some(true));
        assert_eq!(git.excludes("logs/keep"), Some(false));
        assert_eq!(git.excludes("logs"), None, "a file of that name");
        assert!(IgnoreRules::parse(RuleSyntax::Git, ["a\\"]).is_err());
        assert_eq!(IgnoreRules::parse(RuleSyntax::Git, ["[a", "/"]).unwrap().excludes("[a"), None);
        assert_eq!(basic(&["[a"]).excludes("[a"), Some(true));
    }
}
