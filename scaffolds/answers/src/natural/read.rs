use serde::Serialize;

use super::{NO_NEWLINE, SnippetSide};
use crate::thinking;

/// A snippet of a file, as part of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The lines, without line breaks.
    pub lines: Vec<String>,
    /// Whether the snippet ends the file and the file has no final line feed.
    pub lacks_final_newline: bool,
}

/// An edit as written in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces one snippet with another.
    Replace {
        /// The file's path, relative to the repository root.
        file: String,
        /// The lines to replace.
        old_snippet: Snippet,
        /// The lines to insert instead.
        new_snippet: Snippet,
    },
    /// Deletes the file.
    Delete {
        /// The file's path, relative to the repository root.
        file: String,
    },
    /// Sets the file's Git mode.
    SetMode {
        /// The file's path, relative to the repository root.
        file: String,
        /// `0o100644` or `0o100755`.
        mode: u32,
    },
}

impl Edit {
    /// Returns the path of the file that the edit changes.
    pub fn file(&self) -> &str {
        match self {
            Self::Replace { file, .. } | Self::Delete { file } | Self::SetMode { file, .. } => file,
        }
    }
}

/// A part of an answer that could not be parsed as an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "problem", content = "file", rename_all = "snake_case")]
pub enum AnswerProblem {
    /// The answer ends inside a snippet or between two snippets of an edit.
    Cut(String),
    /// A new snippet does not follow an old one.
    NoBefore(String),
    /// The two snippets of an edit name different files.
    NamesDiffer(String),
}

/// A parsed natural answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NaturalAnswer {
    /// The edits, in the order of the answer.
    pub edits: Vec<Edit>,
    /// The parts that could not be parsed. The other edits are still used.
    pub problems: Vec<AnswerProblem>,
}

/// Parses as much of an answer as possible. Edits before an incomplete one remain valid.
pub fn parse_answer(answer: &str) -> NaturalAnswer {
    let mut natural = NaturalAnswer::default();
    let mut lines = thinking::strip_thinking(answer).split('\n');
    let mut before: Option<(String, Snippet)> = None;
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(edit) = parse_single_line_edit(line) {
            natural.edits.push(edit);
            continue;
        }
        let Some((time, file)) = parse_start_marker(line) else { continue };
        let Some(snippet) = parse_snippet(&mut lines, time, file) else {
            before = None;
            natural.problems.push(AnswerProblem::Cut(normalize_path(file)));
            break;
        };
        let file = normalize_path(file);
        match (time, before.take()) {
            (SnippetSide::Before, earlier) => {
                natural.problems.extend(earlier.map(|(file, _)| AnswerProblem::Cut(file)));
                before = Some((file, snippet));
            }
            (SnippetSide::After, None) => natural.problems.push(AnswerProblem::NoBefore(file)),
            (SnippetSide::After, Some((of, _))) if of != file => {
                natural.problems.push(AnswerProblem::NamesDiffer(of));
            }
            (SnippetSide::After, Some((file, before))) => {
                natural.edits.push(Edit::Replace {
                    file,
                    old_snippet: before,
                    new_snippet: snippet,
                });
            }
        }
    }
    natural.problems.extend(before.map(|(file, _)| AnswerProblem::Cut(file)));
    natural
}

fn parse_start_marker(line: &str) -> Option<(SnippetSide, &str)> {
    [SnippetSide::Before, SnippetSide::After].into_iter().find_map(|time| {
        let head = format!("[start of the snippet {} editing in ", time.name());
        let file = line.strip_prefix(head.as_str())?.strip_suffix(']')?;
        (!file.trim().is_empty()).then_some((time, file))
    })
}

/// Returns the lines before the matching end marker, or `None` if there is no such marker.
fn parse_snippet<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    side: SnippetSide,
    file: &str,
) -> Option<Snippet> {
    let end = format!("[end of the snippet {} editing in {file}]", side.name());
    let mut snippet = Snippet::default();
    for line in lines {
        if line.trim() == end {
            if snippet.lines.last().is_some_and(|line| line == NO_NEWLINE) {
                snippet.lines.pop();
                snippet.lacks_final_newline = true;
            }
            return Some(snippet);
        }
        snippet.lines.push(line.to_owned());
    }
    None
}

fn parse_single_line_edit(line: &str) -> Option<Edit> {
    let inner = |head: &str| line.strip_prefix(head)?.strip_suffix(']');
    if let Some(file) = inner("[delete ") {
        return Some(Edit::Delete { file: normalize_path(file) });
    }
    let (file, mode) = inner("[mode ")?.rsplit_once(' ')?;
    let mode = match mode {
        "100644" => proctor_patch::MODE_FILE,
        "100755" => proctor_patch::MODE_EXECUTABLE,
        _ => return None,
    };
    Some(Edit::SetMode { file: normalize_path(file), mode })
}

/// Converts a path to normal form, relative to the repository root.
fn normalize_path(file: &str) -> String {
    let file = file.trim();
    file.strip_prefix("./").unwrap_or(file).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit_block(file: &str, old_text: &str, new_text: &str) -> String {
        format!(
            "[start of the snippet before editing in {file}]\n{old_text}[end of the snippet before editing in {file}]\n\n\
             [start of the snippet after editing in {file}]\n{new_text}[end of the snippet after editing in {file}]\n"
        )
    }

    #[test]
    fn snippet_lines_are_parsed_verbatim() {
        let answer =
            format!("Here:\n```\n<edit>\n{}</edit>\n```\nDone.", edit_block("a.py", "", "\nx \n"));
        let natural = parse_answer(&answer);
        assert!(natural.problems.is_empty());
        let Edit::Replace { file, old_snippet: before, new_snippet: after } = &natural.edits[0]
        else {
            panic!()
        };
        assert_eq!((file.as_str(), before.lines.len()), ("a.py", 0));
        assert_eq!(after.lines, ["", "x "]);
    }

    #[test]
    fn incomplete_edit_keeps_earlier_edits() {
        let whole = edit_block("a.py", "a\n", "b\n");
        let cut = &edit_block("b.py", "a\n", "b\n");
        for end in [60, 100, 180] {
            let natural = parse_answer(&format!("{whole}{}", &cut[..end]));
            assert_eq!(natural.edits.len(), 1, "{end}");
            assert_eq!(natural.problems, [AnswerProblem::Cut("b.py".into())], "{end}");
        }
        let natural = parse_answer(&format!(
            "{}{whole}",
            edit_block("b.py", "a\n", "b\n").replacen("b.py", "c.py", 2)
        ));
        assert_eq!(natural.edits.len(), 1);
        assert_eq!(natural.problems, [AnswerProblem::NamesDiffer("c.py".into())]);
        let after = &whole[whole.find("[start of the snippet after").unwrap()..];
        assert_eq!(parse_answer(after).problems, [AnswerProblem::NoBefore("a.py".into())]);
    }

    #[test]
    fn parse_answer_ignores_reasoning() {
        let draft = edit_block("a.py", "a\n", "draft\n");
        let answer = format!("<think>\n{draft}</think>\n{}", edit_block("a.py", "a\n", "b\n"));
        assert_eq!(parse_answer(&answer).edits.len(), 1);
        assert!(parse_answer(&format!("<think>\n{draft}")).edits.is_empty());
    }
}
