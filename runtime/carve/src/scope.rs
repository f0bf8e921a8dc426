//! Finds the names that a module or class body binds.

use std::collections::BTreeSet;

use ruff_python_ast::{ExceptHandler, Expr, Stmt};
use ruff_python_parser::parse_module;

use super::edits::blocks;

/// Returns the names that a block binds in its own scope.
pub(super) fn bound_names(block: &[Stmt]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    collect_bound_names(block, &mut out);
    out
}

fn collect_bound_names(block: &[Stmt], out: &mut BTreeSet<String>) {
    for stmt in block {
        match stmt {
            Stmt::FunctionDef(def) => {
                out.insert(def.name.to_string());
                continue;
            }
            Stmt::ClassDef(def) => {
                out.insert(def.name.to_string());
                continue;
            }
            Stmt::Assign(stmt) => {
                stmt.targets.iter().for_each(|target| collect_target_names(target, out))
            }
            Stmt::AnnAssign(stmt) if stmt.value.is_some() => {
                collect_target_names(&stmt.target, out)
            }
            Stmt::For(stmt) => collect_target_names(&stmt.target, out),
            Stmt::With(stmt) => stmt
                .items
                .iter()
                .filter_map(|item| item.optional_vars.as_deref())
                .for_each(|target| collect_target_names(target, out)),
            Stmt::Import(stmt) => out.extend(stmt.names.iter().map(|alias| {
                let top = alias.name.split('.').next().unwrap_or_default();
                alias.asname.as_ref().map_or(top.to_owned(), ToString::to_string)
            })),
            Stmt::ImportFrom(stmt) => out.extend(
                stmt.names
                    .iter()
                    .map(|alias| alias.asname.as_ref().unwrap_or(&alias.name).to_string()),
            ),
            Stmt::Try(stmt) => {
                for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                    out.extend(handler.name.as_ref().map(ToString::to_string));
                }
            }
            _ => {}
        }
        for inner in blocks(stmt) {
            collect_bound_names(inner, out);
        }
    }
}

/// Returns the top-level names that `before` binds but `after` does not.
pub fn lost_names(before: &str, after: &str) -> BTreeSet<String> {
    let names = |text: &str| {
        parse_module(text).map(|parsed| bound_names(&parsed.syntax().body)).unwrap_or_default()
    };
    names(before).difference(&names(after)).cloned().collect()
}

/// Returns the statements in a block's own scope, including statements inside conditions and loops.
pub fn top_level_statements(block: &[Stmt]) -> Vec<&Stmt> {
    let mut out = Vec::new();
    for stmt in block {
        out.push(stmt);
        if !matches!(stmt, Stmt::FunctionDef(_) | Stmt::ClassDef(_)) {
            out.extend(blocks(stmt).into_iter().flat_map(top_level_statements));
        }
    }
    out
}

/// Adds the plain names in an assignment's target.
pub(super) fn collect_target_names(target: &Expr, out: &mut BTreeSet<String>) {
    match target {
        Expr::Name(name) => {
            out.insert(name.id.to_string());
        }
        Expr::Tuple(tuple) => {
            tuple.elts.iter().for_each(|target| collect_target_names(target, out))
        }
        Expr::List(list) => list.elts.iter().for_each(|target| collect_target_names(target, out)),
        Expr::Starred(starred) => collect_target_names(&starred.value, out),
        _ => {}
    }
}

/// Returns the bodies of the class at a dotted path. There are several bodies if the class is
/// defined conditionally.
pub(super) fn class_bodies<'a>(block: &'a [Stmt], path: &str) -> Vec<&'a [Stmt]> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let mut out = Vec::new();
    for stmt in block {
        match stmt {
            Stmt::ClassDef(def) if def.name.as_str() == head => match rest {
                Some(rest) => out.extend(class_bodies(&def.body, rest)),
                None => out.push(&def.body[..]),
            },
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            _ => {
                for inner in blocks(stmt) {
                    out.extend(class_bodies(inner, path));
                }
            }
        }
    }
    out
}
