//! Checks the text of programs. Code may run such a text in another process.

use ruff_python_ast::Stmt;
use ruff_text_size::TextRange;

use super::Walker;
use crate::python::parser::{nests_too_deeply, parse};

/// Minimum number of statements in a program.
const MIN_STATEMENTS: usize = 2;

impl Walker<'_> {
    /// Checks a string like the rest of the file if it is a Python program: several statements,
    /// one of which is an import.
    pub(super) fn check_program_text(&mut self, range: TextRange, text: &str) {
        let limits = &self.rules.table.limits;
        if !text.contains("import ")
            || !text.contains(['\n', ';'])
            || text.len() > limits.file_bytes
        {
            return;
        }
        let text = dedent(text);
        if self.depth > self.max_depth() || nests_too_deeply(&text, limits) {
            return;
        }
        let parsed = parse(&text);
        let body = &parsed.syntax().body;
        let imports = body.iter().any(|stmt| matches!(stmt, Stmt::Import(_) | Stmt::ImportFrom(_)));
        if parsed.has_valid_syntax() && imports && body.len() >= MIN_STATEMENTS {
            self.check_inner_code(range, &text, body);
        }
    }
}

/// Removes the indentation of the first line from all lines, like `textwrap.dedent`.
fn dedent(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let indentation = first.get(..first.len() - first.trim_start().len()).unwrap_or_default();
    let lines = text.lines().map(|line| line.strip_prefix(indentation).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}
