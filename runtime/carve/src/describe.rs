//! Renders stubs of removed code: signatures and docstrings, copied from the source.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Decorator, Expr, ExprContext, Stmt, StmtAssign, StmtClassDef, StmtFunctionDef,
    visitor::{self, Visitor},
};
use ruff_text_size::Ranged;
use serde::{Deserialize, Serialize};

use super::{edits::line_start, scope::bound_names};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Function,
    Class,
    Method,
}

/// A carved object. An object may have several definitions, such as overloads, or a property's
/// getter and setter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Object {
    pub file: String,
    /// Dotted path within the file.
    pub path: String,
    pub kind: Kind,
    /// Aliases that were removed together with the object.
    pub aliases: Vec<String>,
    /// The definitions as Python code without bodies: decorators, signature, docstring and `...`.
    pub stub: String,
}

/// What stubs show in addition to the public interface.
#[derive(Clone, Copy)]
pub struct StubOptions<'a> {
    /// Returns the notes on the function at a dotted path. The function's stub shows them as
    /// comments.
    pub notes: &'a dyn Fn(&str) -> Vec<String>,
    /// Private names that are shown because tests use them. If `None`, the stubs of classes do not
    /// list instance attributes.
    pub used_names: Option<&'a BTreeSet<String>>,
}

impl StubOptions<'_> {
    pub const PLAIN: StubOptions<'static> =
        StubOptions { notes: &|_| Vec::new(), used_names: None };

    fn shows(&self, name: &str) -> bool {
        is_public(name) || self.used_names.is_some_and(|named| named.contains(name))
    }
}

/// Maximum length of a class attribute in lines. A longer attribute is shown with `...` as its
/// value.
const MAX_ATTRIBUTE_LINES: usize = 4;

/// Returns the stub of the definition at `path`, without indentation.
pub(super) fn render_stub(
    text: &str,
    stmt: &Stmt,
    path: &str,
    options: StubOptions<'_>,
) -> Option<String> {
    let mut out = String::new();
    match stmt {
        Stmt::FunctionDef(def) => render_function(text, def, path, options, &mut out),
        Stmt::ClassDef(def) => render_class(text, def, path, options, &mut out),
        _ => return None,
    }
    let start = stmt.start().to_usize();
    Some(dedent(&out, start - line_start(text, start)))
}

fn render_function(
    text: &str,
    def: &StmtFunctionDef,
    path: &str,
    options: StubOptions<'_>,
    out: &mut String,
) {
    let header_end = def.returns.as_ref().map_or(def.parameters.end(), |returns| returns.end());
    push_header(text, def.start().to_usize(), header_end.to_usize(), out);
    let inner = body_indent(text, def.start().to_usize(), &def.body);
    if let Some(docstring) = docstring_range(&def.body) {
        out.push_str(&inner);
        out.push_str(&text[docstring]);
        out.push('\n');
    }
    // Skip overloads: the implementation after them has the notes.
    let overload = |it: &Decorator| match &it.expression {
        Expr::Name(name) => name.id.as_str() == "overload",
        Expr::Attribute(attribute) => attribute.attr.as_str() == "overload",
        _ => false,
    };
    if !def.decorator_list.iter().any(overload) {
        (options.notes)(path).iter().for_each(|note| out.push_str(&format!("{inner}# {note}\n")));
    }
    out.push_str(&inner);
    out.push_str("...\n");
}

/// Writes a class's stub, with public attributes, methods and inner classes.
fn render_class(
    text: &str,
    def: &StmtClassDef,
    path: &str,
    options: StubOptions<'_>,
    out: &mut String,
) {
    let header_end = match (&def.arguments, &def.type_params) {
        (Some(arguments), _) => arguments.end(),
        (None, Some(parameters)) => parameters.end(),
        (None, None) => def.name.end(),
    };
    push_header(text, def.start().to_usize(), header_end.to_usize(), out);
    let inner = body_indent(text, def.start().to_usize(), &def.body);
    let mut shown = false;
    if let Some(docstring) = docstring_range(&def.body) {
        out.push_str(&format!("{inner}{}\n", &text[docstring]));
        shown = true;
    }
    let alias_targets = alias_targets(&def.body);
    let shows = |name: &str| {
        options.shows(name) || (options.used_names.is_some() && alias_targets.contains(name))
    };
    let instance_attributes = instance_attributes(&def.body, &shows);
    if options.used_names.is_some() && !instance_attributes.is_empty() {
        let names: Vec<String> = instance_attributes.into_iter().collect();
        out.push_str(&format!("{inner}# Instances have: {}.\n", names.join(", ")));
        shown = true;
    }
    for stmt in &def.body {
        match stmt {
            Stmt::FunctionDef(method) if shows(&method.name) => {
                out.push('\n');
                out.push_str(&inner);
                render_function(text, method, &format!("{path}.{}", method.name), options, out);
            }
            Stmt::ClassDef(nested) if shows(&nested.name) => {
                out.push('\n');
                out.push_str(&inner);
                render_class(text, nested, &format!("{path}.{}", nested.name), options, out);
            }
            Stmt::AnnAssign(field) if matches!(&*field.target, Expr::Name(name) if shows(&name.id)) =>
            {
                let field = &text[field.start().to_usize()..field.end().to_usize()];
                out.push_str(&format!("{inner}{field}\n"));
            }
            Stmt::Assign(assign) => match render_attribute(text, assign, &shows) {
                Some(attribute) => out.push_str(&format!("{inner}{attribute}\n")),
                None => continue,
            },
            _ => continue,
        }
        shown = true;
    }
    if !shown {
        out.push_str(&format!("{inner}...\n"));
    }
}

/// Returns an assignment's code if all of its targets are shown.
fn render_attribute(
    text: &str,
    assign: &StmtAssign,
    is_visible: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let is_shown = |target: &Expr| matches!(target, Expr::Name(name) if is_visible(&name.id));
    if !assign.targets.iter().all(is_shown) {
        return None;
    }
    let whole = &text[assign.start().to_usize()..assign.end().to_usize()];
    if whole.lines().count() <= MAX_ATTRIBUTE_LINES {
        return Some(whole.to_owned());
    }
    let names = &text[assign.start().to_usize()..assign.value.start().to_usize()];
    Some(format!("{}...", names.trim_end_matches(['(', '\\', '\n', ' ']).to_owned() + " "))
}

/// Returns the names on the right side of assignments in a class body, such as `_refuse` in
/// `__ior__ = _refuse`.
fn alias_targets(body: &[Stmt]) -> BTreeSet<String> {
    let value = |stmt: &Stmt| match stmt {
        Stmt::Assign(assign) => match &*assign.value {
            Expr::Name(name) => Some(name.id.to_string()),
            _ => None,
        },
        _ => None,
    };
    body.iter().filter_map(value).collect()
}

/// Attributes that every object has.
const UNIVERSAL_ATTRIBUTES: [&str; 4] = ["__class__", "__dict__", "__module__", "__weakref__"];

/// Returns the attributes that methods set on `self`, except for those that the class body defines.
fn instance_attributes(body: &[Stmt], is_visible: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let mut attributes = SelfAttributes::default();
    body.iter().filter(|stmt| stmt.is_function_def_stmt()).for_each(|it| attributes.visit_stmt(it));
    let class_names = bound_names(body);
    attributes.0.retain(|name| {
        is_visible(name)
            && !class_names.contains(name)
            && !UNIVERSAL_ATTRIBUTES.contains(&name.as_str())
    });
    attributes.0
}

#[derive(Default)]
struct SelfAttributes(BTreeSet<String>);

impl<'a> Visitor<'a> for SelfAttributes {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Attribute(attribute) = expr
            && attribute.ctx == ExprContext::Store
            && matches!(&*attribute.value, Expr::Name(name) if name.id.as_str() == "self")
        {
            self.0.insert(attribute.attr.to_string());
        }
        visitor::walk_expr(self, expr);
    }
}

/// Copies a definition's header, from the first decorator to the colon.
fn push_header(text: &str, start: usize, end: usize, out: &mut String) {
    let colon = text[end..].find(':').map_or(end, |found| end + found + 1);
    out.push_str(&text[start..colon]);
    out.push('\n');
}

fn body_indent(text: &str, start: usize, body: &[Stmt]) -> String {
    let line_prefix = &text[line_start(text, start)..start];
    let first = body.first().map_or(start, |stmt| stmt.start().to_usize());
    let head = &text[line_start(text, first)..first];
    // If the body starts on the header's line, there is no indentation to copy.
    if head.trim().is_empty() && head.len() > line_prefix.len() {
        head.to_owned()
    } else {
        format!("{line_prefix}    ")
    }
}

fn docstring_range(body: &[Stmt]) -> Option<std::ops::Range<usize>> {
    let Stmt::Expr(stmt) = body.first()? else { return None };
    matches!(&*stmt.value, Expr::StringLiteral(_))
        .then(|| stmt.value.start().to_usize()..stmt.value.end().to_usize())
}

/// Whether a name is public. Dunder names are public. Other names that start with an underscore are
/// private.
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
