//! Splits lines of shell scripts and Dockerfiles into words by the rules of Python's `shlex`, which
//! Harbor's lint uses.

use std::{iter::Peekable, str::Chars};

use proctor_types::quote_shell_word;

/// Words that end a command.
const SEPARATORS: [&str; 5] = [";", "&&", "||", "&", "|"];

/// Returns lines with their numbers, counted from 1. Continued lines are joined. Comments, and
/// lines with a heredoc, are skipped.
pub(super) fn logical_lines(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut pending, mut start) = (String::new(), 1);
    let mut delimiters: Vec<String> = Vec::new();
    for (index, raw) in source.lines().enumerate() {
        if let Some(delimiter) = delimiters.first() {
            if raw.trim() == delimiter {
                delimiters.remove(0);
            }
            continue;
        }
        if raw.trim().is_empty() || raw.trim_start().starts_with('#') {
            continue;
        }
        if pending.is_empty() {
            start = index + 1;
        }
        if let Some(continued) = raw.trim_end().strip_suffix('\\') {
            pending.push_str(continued);
            pending.push(' ');
            continue;
        }
        pending.push_str(raw);
        delimiters = heredoc_delimiters(&pending);
        let line = std::mem::take(&mut pending);
        if delimiters.is_empty() {
            found.push((start, line));
        }
    }
    if !pending.is_empty() {
        found.push((start, pending));
    }
    found
}

/// Returns the delimiters of the heredocs that start on a line.
fn heredoc_delimiters(line: &str) -> Vec<String> {
    let mut delimiters = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = skip_quoted(rest) {
            rest = after;
        } else if let Some((delimiter, after)) = rest.strip_prefix("<<").and_then(split_delimiter) {
            delimiters.push(delimiter.to_owned());
            rest = after;
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    delimiters
}

/// Returns the text after a leading quoted string, or `None` if the closing quote is missing.
fn skip_quoted(text: &str) -> Option<&str> {
    if let Some(inner) = text.strip_prefix('\'') {
        return inner.split_once('\'').map(|(_, after)| after);
    }
    let inner = text.strip_prefix('"')?;
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(&inner[at + 1..]),
            '\\' => {
                chars.next();
            }
            _ => {}
        }
    }
    None
}

/// Returns the delimiter after `<<`, followed by the remaining text.
fn split_delimiter(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('-').unwrap_or(text).trim_start();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let text = quote.map_or(text, |_| &text[1..]);
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if word.is_empty() {
        return None;
    }
    match quote {
        Some(quote) => Some((word, after.strip_prefix(quote)?)),
        None => Some((word, after)),
    }
}

/// Returns the value of a Dockerfile instruction without leading options such as `--from=x`.
pub(super) fn strip_options(value: &str) -> &str {
    let mut rest = value;
    while rest.starts_with("--") {
        let Some(end) = rest.find(char::is_whitespace).filter(|end| *end > 2) else { break };
        rest = rest[end..].trim_start();
    }
    rest
}

/// Splits a string at whitespace. Returns `None` if a closing quote is missing.
pub(super) fn split_words(text: &str) -> Option<Vec<String>> {
    Lexer { chars: text.chars().peekable(), is_shell: false }.words()
}

/// Joins words into a line. Splitting the line yields the same words.
pub(super) fn join_words(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_shell_word(word)).collect();
    words.join(" ")
}

/// Returns the commands on a line, each with its separator. Returns no commands if the line is not
/// valid shell syntax.
pub(super) fn split_commands(line: &str) -> Vec<(Vec<String>, String)> {
    let lexer = Lexer { chars: line.chars().peekable(), is_shell: true };
    let Some(tokens) = lexer.words() else { return Vec::new() };
    let (mut commands, mut command) = (Vec::new(), Vec::new());
    for token in tokens {
        if !SEPARATORS.contains(&token.as_str()) {
            command.push(token);
        } else if !command.is_empty() {
            commands.push((std::mem::take(&mut command), token));
        }
    }
    if !command.is_empty() {
        commands.push((command, String::new()));
    }
    commands
}

struct Lexer<'t> {
    chars: Peekable<Chars<'t>>,
    /// Whether `;`, `&` and `|` are separate words, and `#` starts a comment.
    is_shell: bool,
}

impl Lexer<'_> {
    fn words(mut self) -> Option<Vec<String>> {
        let mut words = Vec::new();
        // The current word, or `None` between words. A quoted empty string also counts as a word.
        let mut word: Option<String> = None;
        while let Some(c) = self.chars.next() {
            if c.is_ascii_whitespace() {
                words.extend(word.take());
            } else if self.is_shell && c == '#' {
                // A line contains no line breaks, so the comment extends to the end of the line.
                break;
            } else if self.is_punctuation(c) {
                words.extend(word.take());
                let mut token = String::from(c);
                while let Some(&next) = self.chars.peek()
                    && self.is_punctuation(next)
                {
                    token.push(next);
                    self.chars.next();
                }
                words.push(token);
            } else if matches!(c, '\'' | '"') {
                let inner = self.read_quoted(c)?;
                word.get_or_insert_default().push_str(&inner);
            } else if c == '\\' {
                let escaped = self.chars.next()?;
                word.get_or_insert_default().push(escaped);
            } else {
                word.get_or_insert_default().push(c);
            }
        }
        words.extend(word);
        Some(words)
    }

    fn is_punctuation(&self, c: char) -> bool {
        self.is_shell && matches!(c, ';' | '&' | '|')
    }

    /// Returns the text up to the closing quote.
    fn read_quoted(&mut self, quote: char) -> Option<String> {
        let mut inner = String::new();
        loop {
            match self.chars.next()? {
                c if c == quote => return Some(inner),
                '\\' if quote == '"' => match self.chars.next()? {
                    c @ ('"' | '\\') => inner.push(c),
                    c => inner.extend(['\\', c]),
                },
                c => inner.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_without_comments_and_heredocs() {
        let source = "#!/bin/bash\n\na \\\n  # no\n  b\ncat > x <<'END' && y\npip install z\nEND\nc \"<<no\"\nd <<< e\ne\n";
        let found = logical_lines(source);
        let found: Vec<(usize, &str)> =
            found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        // Harbor's lint treats `<<< e` as a heredoc.
        assert_eq!(found, [(3, "a    b"), (9, "c \"<<no\"")]);
    }

    #[test]
    fn commands_are_split_at_unquoted_separators() {
        let found = split_commands("a 'b c';d&&e \"f\\\"\\n\" | sh # g");
        let shown: Vec<String> =
            found.iter().map(|(words, end)| format!("{}{end}", words.join(","))).collect();
        assert_eq!(shown, ["a,b c;", "d&&", "e,f\"\\n|", "sh"]);
        assert!(split_commands("echo 'open").is_empty());
        assert_eq!(split_words("a '' b#c").unwrap(), ["a", "", "b#c"]);
        assert_eq!(strip_options("--mount=type=x --a b --c"), "b --c");
    }
}
