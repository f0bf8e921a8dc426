//! Text edits, and the traversal of statements that creates the edits.

use ruff_python_ast::{ExceptHandler, Stmt};
use ruff_text_size::Ranged;

/// Replaces the bytes `start..end` with the text `replacement`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) replacement: String,
}

impl Edit {
    pub(super) fn deletion(start: usize, end: usize) -> Self {
        Self { start, end, replacement: String::new() }
    }
}

/// Applies edits. They may be in any order and may overlap.
pub(super) fn apply_edits(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        if edit.start > at {
            out.push_str(&text[at..edit.start]);
        }
        out.push_str(&edit.replacement);
        at = at.max(edit.end);
    }
    out.push_str(&text[at..]);
    out
}

/// What the traversal does with a statement.
pub(super) enum StatementAction {
    /// Keep the statement and visit the statements inside it.
    Keep,
    Remove,
    /// Keep the statement, but apply these edits to it.
    Change(Vec<Edit>),
}

/// The definitions that enclose a statement, as a dotted path.
#[derive(Debug, Clone, Copy)]
pub(super) struct EnclosingScope<'a> {
    pub(super) prefix: &'a str,
    pub(super) is_in_function: bool,
}

impl EnclosingScope<'_> {
    pub(super) fn path(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

/// Calls `decide` for every statement, outer statements first, and returns the resulting edits. If
/// a block would become empty, `pass` is inserted into it.
pub(super) fn collect_edits(
    text: &str,
    block: &[Stmt],
    scope: EnclosingScope<'_>,
    decide: &mut dyn FnMut(&Stmt, EnclosingScope<'_>) -> StatementAction,
) -> Vec<Edit> {
    let mut out = Vec::new();
    let mut removed = Vec::new();
    for (index, stmt) in block.iter().enumerate() {
        match decide(stmt, scope) {
            StatementAction::Keep => {
                let path;
                let inner = match stmt {
                    Stmt::FunctionDef(def) => {
                        path = scope.path(&def.name);
                        EnclosingScope { prefix: &path, is_in_function: true }
                    }
                    Stmt::ClassDef(def) => {
                        path = scope.path(&def.name);
                        EnclosingScope { prefix: &path, ..scope }
                    }
                    _ => scope,
                };
                for inner_block in blocks(stmt) {
                    out.extend(collect_edits(text, inner_block, inner, decide));
                }
            }
            StatementAction::Change(edits) => out.extend(edits),
            StatementAction::Remove => removed.push(index),
        }
    }
    // Every block except a module needs at least one statement.
    let empty = removed.len() == block.len()
        && block.first().is_some_and(|stmt| statement_indent(text, stmt) > 0);
    for (count, &index) in removed.iter().enumerate() {
        // Whether all later statements in the block are removed.
        let last = removed[count..].len() == block.len() - index;
        let mut edit = statement_removal(text, block, index, last);
        if empty && count == 0 && edit.replacement.is_empty() {
            let column = statement_indent(text, &block[index]);
            let start = line_start(text, block[index].start().to_usize());
            edit.replacement = format!("{}pass{}", &text[start..start + column], line_ending(text));
            // Keep the blank lines between the header and the first statement.
            edit.start = edit.start.max(start_of_comments(text, block, index));
        }
        out.push(edit);
    }
    out
}

/// Returns the blocks of statements inside a compound statement.
pub(super) fn blocks(stmt: &Stmt) -> Vec<&[Stmt]> {
    match stmt {
        Stmt::FunctionDef(stmt) => vec![&stmt.body],
        Stmt::ClassDef(stmt) => vec![&stmt.body],
        Stmt::If(stmt) => {
            let clauses = stmt.elif_else_clauses.iter().map(|clause| &clause.body[..]);
            std::iter::once(&stmt.body[..]).chain(clauses).collect()
        }
        Stmt::For(stmt) => vec![&stmt.body, &stmt.orelse],
        Stmt::While(stmt) => vec![&stmt.body, &stmt.orelse],
        Stmt::With(stmt) => vec![&stmt.body],
        Stmt::Match(stmt) => stmt.cases.iter().map(|case| &case.body[..]).collect(),
        Stmt::Try(stmt) => {
            let mut out = vec![&stmt.body[..]];
            for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                out.push(&handler.body);
            }
            out.push(&stmt.orelse);
            out.push(&stmt.finalbody);
            out
        }
        _ => Vec::new(),
    }
}

/// Returns an edit that removes a statement's lines and comments. If the statement shares a line
/// with another statement, it is replaced with `pass` instead.
fn statement_removal(text: &str, block: &[Stmt], index: usize, is_last: bool) -> Edit {
    let stmt = &block[index];
    let (start, end) = (stmt.start().to_usize(), stmt.end().to_usize());
    let first = line_start(text, start);
    let rest = text[end..line_end(text, end)].trim();
    let alone = text[first..start].trim().is_empty() && (rest.is_empty() || rest.starts_with('#'));
    if !alone {
        return Edit { start, end, replacement: "pass".into() };
    }
    let mut from = start_of_comments(text, block, index);
    let mut to = line_end(text, end);
    // Comments below the body belong to the statement if their indentation is deeper than the
    // statement's.
    let column = statement_indent(text, stmt);
    let mut ahead = to;
    while ahead < text.len() {
        let line = &text[ahead..line_end(text, ahead)];
        let bare = line.trim_start();
        let deep = bare.starts_with('#') && line.len() - bare.len() > column;
        if !deep && !bare.is_empty() {
            break;
        }
        ahead = line_end(text, ahead);
        if deep {
            to = ahead;
        }
    }
    if !is_last {
        while to < text.len() && text[to..line_end(text, to)].trim().is_empty() {
            to = line_end(text, to);
        }
    } else {
        // This is the last statement in a block. Keep the blank lines after it, and remove those
        // before it.
        while from > 0 && text[line_start(text, from - 1)..from].trim().is_empty() {
            from = line_start(text, from - 1);
        }
    }
    Edit::deletion(from, to)
}

/// Returns the start of the comment lines that are directly above a statement and have the same
/// indentation as the statement.
fn start_of_comments(text: &str, block: &[Stmt], index: usize) -> usize {
    let stmt = &block[index];
    let column = statement_indent(text, stmt);
    let mut from = line_start(text, stmt.start().to_usize());
    // Stop at the previous statement. It may end with a string that looks like a comment.
    let floor = match index.checked_sub(1).and_then(|before| block.get(before)) {
        Some(before) => line_end(text, before.end().to_usize()),
        None => 0,
    };
    while from > floor {
        let above = line_start(text, from - 1);
        let line = &text[above..from];
        let bare = line.trim_start();
        let code = bare.starts_with("#!") || bare.contains("coding:") || bare.contains("coding=");
        if !bare.starts_with('#') || line.len() - bare.len() != column || code {
            break;
        }
        from = above;
    }
    from
}

fn statement_indent(text: &str, stmt: &Stmt) -> usize {
    let start = stmt.start().to_usize();
    let first = line_start(text, start);
    let head = &text[first..start];
    head.len() - head.trim_start().len()
}

pub(super) fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |found| found + 1)
}

/// Returns the start of the next line, or the end of the text.
pub(super) fn line_end(text: &str, offset: usize) -> usize {
    text[offset..].find('\n').map_or(text.len(), |found| offset + found + 1)
}

pub(super) fn line_number(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn line_ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
