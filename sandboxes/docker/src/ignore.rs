//! Parses `.dockerignore` in the same way as the Docker client.

/// The rules of one file, in order. The last rule that matches a path or one of its parents
/// applies.
#[derive(Debug, Clone, Default)]
pub struct IgnoreRules {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    /// Whether the rule starts with `!`. Paths that match such a rule are sent.
    includes: bool,
    segments: Vec<String>,
}

impl IgnoreRules {
    pub fn parse(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::trim);
        let rules = lines.filter(|line| !line.is_empty()).filter_map(|line| {
            let (includes, pattern) = match line.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim()),
                None => (false, line),
            };
            let mut segments: Vec<String> = Vec::new();
            for segment in pattern.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
                match segment {
                    ".." => drop(segments.pop()),
                    segment => segments.push(segment.to_owned()),
                }
            }
            (!segments.is_empty()).then_some(Rule { includes, segments })
        });
        Self { rules: rules.collect() }
    }

    /// Returns whether any rule may include entries below an excluded directory.
    pub fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| rule.includes)
    }

    /// Returns whether a path is excluded. The path is relative to the build context.
    pub fn excludes(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let matched = |rule: &&Rule| {
            (1..=parts.len()).any(|length| matches_path(&rule.segments, &parts[..length]))
        };
        self.rules.iter().rev().find(matched).is_some_and(|rule| !rule.includes)
    }
}

fn matches_path(pattern: &[String], path: &[&str]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((first, rest)) if first == "**" => {
            (0..=path.len()).any(|skipped| matches_path(rest, &path[skipped..]))
        }
        Some((first, rest)) => match path.split_first() {
            Some((name, below)) => {
                let (first, name): (Vec<char>, Vec<char>) =
                    (first.chars().collect(), name.chars().collect());
                matches_name(&first, &name) && matches_path(rest, below)
            }
            None => false,
        },
    }
}

/// Matches one name in the same way as Go's `filepath.Match`.
fn matches_name(pattern: &[char], name: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('*', rest)) => (0..=name.len()).any(|skipped| matches_name(rest, &name[skipped..])),
        Some(('?', rest)) => !name.is_empty() && matches_name(rest, &name[1..]),
        Some(('[', rest)) => match (parse_class(rest), name.split_first()) {
            (Some((class, after)), Some((one, below))) => {
                class.contains(*one) && matches_name(after, below)
            }
            _ => false,
        },
        Some(('\\', rest)) if !rest.is_empty() => {
            name.first() == Some(&rest[0]) && matches_name(&rest[1..], &name[1..])
        }
        Some((one, rest)) => name.first() == Some(one) && matches_name(rest, &name[1..]),
    }
}

struct CharacterClass {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl CharacterClass {
    fn contains(&self, character: char) -> bool {
        self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != self.is_negated
    }
}

/// Parses a bracket expression and returns it with the rest of the pattern. Returns `None` if the
/// bracket is not closed.
fn parse_class(pattern: &[char]) -> Option<(CharacterClass, &[char])> {
    let mut rest = pattern;
    let negated = rest.first() == Some(&'^');
    if negated {
        rest = &rest[1..];
    }
    let mut ranges = Vec::new();
    loop {
        let (low, after) = parse_member(rest)?;
        rest = after;
        let mut high = low;
        if rest.first() == Some(&'-') && rest.get(1).is_some_and(|next| *next != ']') {
            (high, rest) = parse_member(&rest[1..])?;
        }
        ranges.push((low, high));
        if rest.first() == Some(&']') {
            return Some((CharacterClass { is_negated: negated, ranges }, &rest[1..]));
        }
    }
}

fn parse_member(pattern: &[char]) -> Option<(char, &[char])> {
    match pattern {
        ['\\', one, rest @ ..] | [one, rest @ ..] => Some((*one, rest)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excludes_matches_the_docker_client() {
        for (rules, excluded, sent) in [
            ("*.log", vec!["a.log"], vec!["sub/a.log", "a.txt"]),
            ("**/*.log", vec!["a.log", "sub/a.log", "x/y/a.log"], vec!["a.txt"]),
            ("node_modules", vec!["node_modules", "node_modules/x/y"], vec!["sub/node_modules"]),
            ("/build/", vec!["build", "build/a"], vec!["sub/build"]),
            ("*\n!keep\nkeep/no", vec!["a", "keep/no"], vec!["keep", "keep/yes"]),
            ("# a comment\n\n  a  \n", vec!["a"], vec!["# a comment", "b"]),
            ("a?b\n[x-z]*\n[^a-w]9", vec!["acb", "xyz", "y", "x9"], vec!["ab", "wyz", "a9"]),
            ("\\*", vec!["*"], vec!["a"]),
            ("a/../b", vec!["b"], vec!["a"]),
            ("docs/**", vec!["docs/a", "docs/a/b"], vec!["a"]),
            ("[", vec![], vec!["[", "a"]),
        ] {
            let ignore = IgnoreRules::parse(rules);
            for path in excluded {
                assert!(ignore.excludes(path), "{rules:?} sends {path}");
            }
            for path in sent {
                assert!(!ignore.excludes(path), "{rules:?} excludes {path}");
            }
        }
    }
}
