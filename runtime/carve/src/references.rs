//! Finds the names that a module needs while it is imported.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Expr, ExprContext, Parameters, Stmt, StmtIf,
    visitor::{self, Visitor},
};
use ruff_text_size::Ranged;

use super::scope;

/// Finds uses of removed names at import time: outside of function bodies, and in decorators,
/// defaults, base classes and annotations. Postponed annotations are ignored.
///
/// Comprehension variables are not distinguished from module names. As a result, a valid carve may
/// be rejected, but an invalid one is never accepted.
pub(super) struct References<'a> {
    /// Dotted paths removed from this module.
    removed_paths: &'a BTreeSet<String>,
    /// Paths removed from other modules, by the name that this module's import gives them.
    modules: &'a BTreeMap<String, BTreeSet<String>>,
    /// Whether annotations are not evaluated (`from __future__ import annotations`).
    has_postponed_annotations: bool,
    /// The enclosing classes, each with its path and the names that the class body binds.
    classes: Vec<(String, BTreeSet<String>)>,
    uses: Vec<(usize, String)>,
}

/// Returns the offset and the name of each use of a removed name at import time.
pub(super) fn find_uses(
    body: &[Stmt],
    removed_paths: &BTreeSet<String>,
    modules: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<(usize, String)> {
    let postponed = body.iter().any(|stmt| {
        matches!(stmt, Stmt::ImportFrom(import)
            if import.module.as_deref() == Some("__future__")
                && import.names.iter().any(|alias| alias.name.as_str() == "annotations"))
    });
    let mut visitor = References {
        removed_paths,
        modules,
        has_postponed_annotations: postponed,
        classes: Vec::new(),
        uses: Vec::new(),
    };
    body.iter().for_each(|stmt| visitor.visit_stmt(stmt));
    visitor.uses
}

impl References<'_> {
    fn check_parameters(&mut self, parameters: &Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            if let Some(default) = &parameter.default {
                self.visit_expr(default);
            }
        }
        for parameter in parameters.iter() {
            if let Some(annotation) = parameter.annotation() {
                self.visit_annotation(annotation);
            }
        }
    }

    fn check_name(&mut self, name: &str, offset: usize) {
        if let Some((class, own)) = self.classes.last() {
            if own.contains(name) {
                return;
            }
            let member = format!("{class}.{name}");
            if self.removed_paths.contains(&member) {
                self.uses.push((offset, member));
                return;
            }
        }
        if self.removed_paths.contains(name) {
            self.uses.push((offset, name.to_owned()));
        }
    }
}

impl<'a> Visitor<'a> for References<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                self.check_parameters(&def.parameters);
                if let Some(returns) = &def.returns {
                    self.visit_annotation(returns);
                }
            }
            Stmt::ClassDef(def) => {
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                if let Some(arguments) = &def.arguments {
                    self.visit_arguments(arguments);
                }
                let path = match self.classes.last() {
                    Some((outer, _)) => format!("{outer}.{}", def.name),
                    None => def.name.to_string(),
                };
                self.classes.push((path, scope::bound_names(&def.body)));
                def.body.iter().for_each(|stmt| self.visit_stmt(stmt));
                self.classes.pop();
            }
            Stmt::If(branch) if is_type_checking(branch) => {
                for clause in &branch.elif_else_clauses {
                    clause.body.iter().for_each(|stmt| self.visit_stmt(stmt));
                }
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_annotation(&mut self, expr: &'a Expr) {
        if !self.has_postponed_annotations {
            self.visit_expr(expr);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.check_parameters(parameters);
                }
            }
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.check_name(&name.id, name.start().to_usize());
            }
            Expr::Attribute(attribute) => {
                let at = attribute.start().to_usize();
                if let Some(owner) = dotted_name(&attribute.value) {
                    let member = format!("{owner}.{}", attribute.attr);
                    let elsewhere = self
                        .modules
                        .get(&owner)
                        .is_some_and(|gone| gone.contains(attribute.attr.as_str()));
                    if elsewhere || self.removed_paths.contains(&member) {
                        self.uses.push((at, member));
                        return;
                    }
                }
                visitor::walk_expr(self, expr);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

/// Whether this is `if TYPE_CHECKING:`. Its body never runs.
pub(super) fn is_type_checking(branch: &StmtIf) -> bool {
    dotted_name(&branch.test)
        .is_some_and(|name| name == "TYPE_CHECKING" || name.ends_with(".TYPE_CHECKING"))
}

/// Returns a dotted name, such as `a.b.c`, as text. Returns `None` for any other expression.
pub fn dotted_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => {
            Some(format!("{}.{}", dotted_name(&attribute.value)?, attribute.attr))
        }
        _ => None,
    }
}
