//! What was taken away, as its interface: signatures and docstrings, verbatim from the source.

use ruff_python_ast::{Expr, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::Ranged;
use serde::{Deserialize, Serialize};

use super::edits::line_start;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Function,
    Class,
    Method,
}

/// One carved name. Overloads and a property's getter and setter are one object of several
/// definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Object {
    pub file: String,
    /// Dotted path in the file.
    pub path: String,
    pub kind: Kind,
    /// Other names of it that went too.
    pub aliases: Vec<String>,
    /// Its definitions without their bodies, as Python: decorators, signature, docstring, `...`.
    pub stub: String,
}

/// The stub of a definition, moved to the left margin.
pub(super) fn stub(text: &str, stmt: &Stmt) -> Option<String> {
    let mut out = String::new();
    match stmt {
        Stmt::FunctionDef(def) => function(text, def, &mut out),
        Stmt::ClassDef(def) => class(text, def, &mut out),
        _ => return None,
    }
    let start = stmt.start().to_usize();
    Some(dedent(&out, start - line_start(text, start)))
}

fn function(text: &str, def: &StmtFunctionDef, out: &mut String) {
    let header_end = def.returns.as_ref().map_or(def.parameters.end(), |returns| returns.end());
    push_header(text, def.start().to_usize(), header_end.to_usize(), out);
    let inner = body_indent(text, def.start().to_usize(), &def.body);
    if let Some(docstring) = docstring(&def.body) {
        out.push_str(&inner);
        out.push_str(&text[docstring]);
        out.push('\n');
    }
    out.push_str(&inner);
    out.push_str("...\n");
}

/// A class shows its public interface: typed attributes, methods, inner classes.
fn class(text: &str, def: &StmtClassDef, out: &mut String) {
    let header_end = match (&def.arguments, &def.type_params) {
        (Some(arguments), _) => arguments.end(),
        (None, Some(parameters)) => parameters.end(),
        (None, None) => def.name.end(),
    };
    push_header(text, def.start().to_usize(), header_end.to_usize(), out);
    let inner = body_indent(text, def.start().to_usize(), &def.body);
    let mut shown = false;
    if let Some(docstring) = docstring(&def.body) {
        out.push_str(&format!("{inner}{}\n", &text[docstring]));
        shown = true;
    }
    for stmt in &def.body {
        match stmt {
            Stmt::FunctionDef(method) if is_public(&method.name) => {
                out.push('\n');
                out.push_str(&inner);
                function(text, method, out);
            }
            Stmt::ClassDef(nested) if is_public(&nested.name) => {
                out.push('\n');
                out.push_str(&inner);
                class(text, nested, out);
            }
            Stmt::AnnAssign(field) if matches!(&*field.target, Expr::Name(name) if is_public(&name.id)) =>
            {
                out.push_str(&format!(
                    "{inner}{}\n",
                    &text[field.start().to_usize()..field.end().to_usize()]
                ));
            }
            _ => continue,
        }
        shown = true;
    }
    if !shown {
        out.push_str(&format!("{inner}...\n"));
    }
}

/// From the first decorator to the colon.
fn push_header(text: &str, start: usize, end: usize, out: &mut String) {
    let colon = text[end..].find(':').map_or(end, |found| end + found + 1);
    out.push_str(&text[start..colon]);
    out.push('\n');
}

fn body_indent(text: &str, start: usize, body: &[Stmt]) -> String {
    let own = &text[line_start(text, start)..start];
    let first = body.first().map_or(start, |stmt| stmt.start().to_usize());
    let head = &text[line_start(text, first)..first];
    // A body on the header's own line has no indentation to copy.
    if head.trim().is_empty() && head.len() > own.len() {
        head.to_owned()
    } else {
        format!("{own}    ")
    }
}

fn docstring(body: &[Stmt]) -> Option<std::ops::Range<usize>> {
    let Stmt::Expr(stmt) = body.first()? else { return None };
    matches!(&*stmt.value, Expr::StringLiteral(_))
        .then(|| stmt.value.start().to_usize()..stmt.value.end().to_usize())
}

/// Dunder methods are part of an interface; single underscores are not.
fn is_public(name: &str) -> bool {
    !name.starts_with('_') || (name.starts_with("__") && name.ends_with("__"))
}

fn dedent(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        let blank = line.bytes().take(columns).all(|byte| byte == b' ' || byte == b'\t');
        let cut = if index > 0 && blank { line.get(columns..).unwrap_or_default() } else { line };
        out.push_str(cut.trim_end());
        out.push('\n');
    }
    out
}
