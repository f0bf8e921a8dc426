//! Applies parsed edits to file contents.

use std::collections::BTreeMap;

use proctor_patch::{MODE_EXECUTABLE, MODE_FILE};
use serde::{Deserialize, Serialize};

use crate::{
    lines::Lines,
    natural::{Edit, Snippet},
};

/// How a snippet is matched against its file. The run record contains this setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchMode {
    /// Line by line, byte for byte.
    #[default]
    Exact,
    /// In the same way as FEA-Bench's own code: ignores blank lines at the start and end of a
    /// snippet and whitespace at line ends, and strips `a/` or `b/` from a path.
    Reference,
}

/// The result of one edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EditReport {
    /// The path that the edit refers to.
    pub file: String,
    /// Whether the edit was applied and, if not, why.
    #[serde(flatten)]
    pub status: EditResult,
}

/// The possible outcomes of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum EditResult {
    /// The edit was applied.
    Applied,
    /// The old and the new snippet are equal.
    NoDifference,
    /// The file does not contain the old snippet.
    NoMatch,
    /// The file contains the old snippet more than once.
    Ambiguous {
        /// The number of occurrences.
        times: usize,
    },
    /// An earlier edit changed the same lines.
    Overlap,
    /// The old snippet is not empty, but the file does not exist.
    NoFile,
    /// The old snippet is empty, but the file has content.
    NotEmpty,
    /// The file is a symlink or not text.
    NotText,
    /// The path leads outside the repository.
    ForbiddenPath,
}

/// The Git mode and content at a path; `None` if nothing exists there. For a symlink, the content
/// is its target.
pub type FileState = Option<(u32, Vec<u8>)>;

/// A function that returns the state of a path before the answer is applied.
pub type FileLookup<'a> = dyn Fn(&str) -> FileState + 'a;

/// The result of applying an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyOutcome {
    /// The files that changed, with their new state.
    pub files: BTreeMap<String, FileState>,
    /// One report per edit, in the order of the answer.
    pub edits: Vec<EditReport>,
}

/// Applies edits to files. `lookup` returns the state of a path before the edits.
///
/// Each old snippet is searched for in the original file and must occur there exactly once. Lines
/// that both snippets start or end with are context. If an edit cannot be applied, it is skipped,
/// and its report says why.
pub fn apply(edits: &[Edit], match_mode: MatchMode, lookup: &FileLookup<'_>) -> ApplyOutcome {
    let mut work: BTreeMap<String, EditedFile> = BTreeMap::new();
    let mut applied = ApplyOutcome::default();
    for (index, edit) in edits.iter().enumerate() {
        let path = resolve_path(edit.file(), match_mode, lookup);
        let status = match proctor_patch::check_path(&path.as_str().into()) {
            Err(_) => EditResult::ForbiddenPath,
            Ok(()) => {
                let file =
                    work.entry(path.clone()).or_insert_with(|| EditedFile::new(lookup(&path)));
                file.apply_edit(index, edit, match_mode)
            }
        };
        applied.edits.push(EditReport { file: path, status });
    }
    for (path, file) in work {
        let before = lookup(&path);
        let after = file.finish();
        if after != before {
            applied.files.insert(path, after);
        }
    }
    applied
}

/// Returns the path that an edit refers to.
fn resolve_path(file: &str, match_mode: MatchMode, lookup: &FileLookup<'_>) -> String {
    let stripped = file.strip_prefix("a/").or_else(|| file.strip_prefix("b/"));
    match (match_mode, stripped) {
        (MatchMode::Reference, Some(stripped)) if lookup(file).is_none() => stripped.to_owned(),
        _ => file.to_owned(),
    }
}

/// A file and the edits that were applied to it.
struct EditedFile {
    /// `None` if the file does not exist.
    original: FileState,
    /// `None` if the file is not text.
    text: Option<Lines>,
    spans: Vec<Span>,
    is_deleted: bool,
    mode: Option<u32>,
    /// Whether the new file ends in a newline. Set if an edit reaches the end of the file.
    ends_with_newline: Option<bool>,
    /// Whether carriage returns count as part of the lines.
    keeps_carriage_returns: Option<bool>,
    is_created: bool,
}

/// A range of original lines and its replacement.
struct Span {
    start: usize,
    end: usize,
    lines: Vec<String>,
    index: usize,
}

impl EditedFile {
    fn new(original: FileState) -> Self {
        let text = match &original {
            None => Some(Lines::from_text("")),
            Some((mode, _)) if mode & 0o170_000 != 0o100_000 => None,
            Some((_, bytes)) => std::str::from_utf8(bytes).ok().map(Lines::from_text),
        };
        Self {
            original,
            text,
            spans: Vec::new(),
            is_deleted: false,
            mode: None,
            ends_with_newline: None,
            keeps_carriage_returns: None,
            is_created: false,
        }
    }

    fn apply_edit(&mut self, index: usize, edit: &Edit, match_mode: MatchMode) -> EditResult {
        match edit {
            Edit::Delete { .. } if self.original.is_none() => EditResult::NoFile,
            Edit::Delete { .. } if !self.spans.is_empty() => EditResult::Overlap,
            Edit::Delete { .. } => {
                self.is_deleted = true;
                EditResult::Applied
            }
            Edit::SetMode { mode, .. } => {
                self.mode = Some(*mode);
                EditResult::Applied
            }
            Edit::Replace { .. } if self.is_deleted => EditResult::Overlap,
            Edit::Replace { old_snippet: before, new_snippet: after, .. } => {
                self.replace(index, before, after, match_mode)
            }
        }
    }

    fn replace(
        &mut self,
        index: usize,
        old_snippet: &Snippet,
        new_snippet: &Snippet,
        match_mode: MatchMode,
    ) -> EditResult {
        let Some(text) = &self.text else { return EditResult::NotText };
        let (before, after) = match match_mode {
            MatchMode::Exact => (old_snippet.clone(), new_snippet.clone()),
            MatchMode::Reference => (trim_blank_lines(old_snippet), trim_blank_lines(new_snippet)),
        };
        let empty = text.lines.is_empty();
        if before.lines.is_empty() {
            if !empty {
                return EditResult::NotEmpty;
            }
            return self.fill_empty_file(index, &after);
        }
        if self.original.is_none() {
            return EditResult::NoFile;
        }
        // A snippet without carriage returns also matches lines that end in CRLF.
        let written = |snippet: &Snippet| snippet.lines.iter().any(|line| line.ends_with('\r'));
        let literal = text.has_crlf && (written(&before) || written(&after));
        if self.keeps_carriage_returns.is_some_and(|other| text.has_crlf && other != literal) {
            return EditResult::Overlap;
        }
        let held = if literal { text.clone().with_carriage_returns() } else { text.clone() };
        let places = find_matches(&held, &before, match_mode);
        let at = match places.as_slice() {
            [] => return EditResult::NoMatch,
            [at] => *at,
            more => return EditResult::Ambiguous { times: more.len() },
        };
        let reaches_end = at + before.lines.len() == held.lines.len();
        // Only the last lines of a file can lack a final newline.
        if after.lacks_final_newline && !reaches_end {
            return EditResult::NoMatch;
        }
        let ended = match (before.lacks_final_newline, after.lacks_final_newline) {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        };
        let same = |a: &String, b: &String| match match_mode {
            MatchMode::Exact => a == b,
            MatchMode::Reference => a.trim_end() == b.trim_end(),
        };
        let head = before.lines.iter().zip(&after.lines).take_while(|(a, b)| same(a, b)).count();
        let (old, new) = (&before.lines[head..], &after.lines[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| same(a, b)).count();
        let (start, end) = (at + head, at + before.lines.len() - tail);
        let lines = new[..new.len() - tail].to_vec();
        let nothing = start == end && lines.is_empty();
        if nothing && ended.is_none_or(|ended| ended == held.ends_with_newline) {
            return EditResult::NoDifference;
        }
        if !nothing {
            let meets = |span: &Span| match (span.start == span.end, start == end) {
                // Two insertions at the same position don't overlap. The second comes after the
                // first.
                (true, true) => false,
                (true, false) => start < span.start && span.start < end,
                (false, true) => span.start < start && start < span.end,
                (false, false) => start < span.end && span.start < end,
            };
            if self.spans.iter().any(meets) {
                return EditResult::Overlap;
            }
            self.spans.push(Span { start, end, lines, index });
        }
        self.ends_with_newline = ended.or(self.ends_with_newline);
        self.keeps_carriage_returns = text.has_crlf.then_some(literal);
        EditResult::Applied
    }

    /// Sets the whole content of an empty or missing file.
    fn fill_empty_file(&mut self, index: usize, new_snippet: &Snippet) -> EditResult {
        if self.is_created {
            return EditResult::Overlap;
        }
        if self.original.is_some() && new_snippet.lines.is_empty() {
            return EditResult::NoDifference;
        }
        self.is_created = true;
        self.ends_with_newline = Some(!new_snippet.lacks_final_newline);
        self.spans.push(Span { start: 0, end: 0, lines: new_snippet.lines.clone(), index });
        EditResult::Applied
    }

    fn finish(self) -> FileState {
        if self.is_deleted {
            return None;
        }
        let mode = self.mode.or(self.original.as_ref().map(|(mode, _)| *mode)).unwrap_or(MODE_FILE);
        let executable = |mode: u32| if mode & 0o100 == 0 { MODE_FILE } else { MODE_EXECUTABLE };
        if self.spans.is_empty() && self.ends_with_newline.is_none() && !self.is_created {
            return self.original.map(|(was, bytes)| match self.mode {
                None => (was, bytes),
                Some(mode) => (executable(mode), bytes),
            });
        }
        let mut text = self.text.unwrap_or_else(|| Lines::from_text(""));
        if self.keeps_carriage_returns == Some(true) {
            text = text.with_carriage_returns();
        }
        let mut spans = self.spans;
        spans.sort_by_key(|span| (span.start, span.end, span.index));
        for span in spans.into_iter().rev() {
            text.lines.splice(span.start..span.end, span.lines);
        }
        text.ends_with_newline =
            self.ends_with_newline.unwrap_or(text.ends_with_newline) || text.lines.is_empty();
        let bytes = text.text().into_bytes();
        Some((if self.mode.is_some() { executable(mode) } else { mode }, bytes))
    }
}

/// Returns the positions at which a snippet occurs in a file.
fn find_matches(file_lines: &Lines, snippet: &Snippet, match_mode: MatchMode) -> Vec<usize> {
    let lines = &snippet.lines;
    let Some(last) = file_lines.lines.len().checked_sub(lines.len()) else { return Vec::new() };
    let same = |a: &str, b: &str| match match_mode {
        MatchMode::Exact => a == b,
        MatchMode::Reference => a.trim_end() == b.trim_end(),
    };
    let fits = |at: &usize| {
        let slice = &file_lines.lines[*at..*at + lines.len()];
        let ends = !snippet.lacks_final_newline || (!file_lines.ends_with_newline && *at == last);
        ends && slice.iter().zip(lines).all(|(a, b)| same(a, b))
    };
    (0..=last).filter(fits).collect()
}

fn trim_blank_lines(snippet: &Snippet) -> Snippet {
    let blank = |line: &&String| line.trim().is_empty();
    let head = snippet.lines.iter().take_while(blank).count();
    let tail = snippet.lines[head..].iter().rev().take_while(blank).count();
    let lines = snippet.lines[head..snippet.lines.len() - tail].to_vec();
    Snippet { lines, lacks_final_newline: snippet.lacks_final_newline }
}
