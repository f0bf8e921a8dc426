//! Checks assignments and deletions.

use ruff_python_ast::{Expr, ExprContext, InterpolatedStringElement};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::{
    python::{
        constant::{constant_prefix, constant_string},
        names::top_level_name,
    },
    rules::Rule,
};

impl Walker<'_> {
    /// Checks a target that is assigned, deleted or bound.
    pub(super) fn check_target(&mut self, target: &Expr) {
        match target {
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|target| self.check_target(target)),
            Expr::List(list) => list.elts.iter().for_each(|target| self.check_target(target)),
            Expr::Starred(starred) => self.check_target(&starred.value),
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.check_attribute_assignment(target.range(), &attribute.value, name);
            }
            Expr::Subscript(subscript) => {
                self.check_entry_assignment(target.range(), &subscript.value);
                let Some(path) = self.names.dotted_path(&subscript.value) else { return };
                self.check_table_entry(target.range(), &path, subscript.ctx == ExprContext::Del);
                if path == "sys.modules" {
                    self.check_module_table(target.range(), Some(&subscript.slice));
                } else if path
                    .strip_suffix(".__dict__")
                    .is_some_and(|path| self.names.is_foreign(path))
                {
                    self.record_hits_where(target.range(), |rule| rule.foreign);
                }
            }
            Expr::Name(name) if name.id.as_str() == "__class__" => {
                let is_it = |rule: &Rule| rule.class_names.iter().any(|it| it == "__class__");
                self.record_hits_where(target.range(), is_it);
            }
            _ => {}
        }
    }

    /// Checks a function that code assigns to an attribute or as an entry of a namespace.
    pub(super) fn check_assigned_function(&mut self, target: &Expr, value: &Expr) {
        match target {
            Expr::Attribute(attribute) => {
                self.check_hook(target, value);
                self.check_given_method(target.range(), attribute.attr.as_str(), value);
            }
            Expr::Subscript(subscript) => self.check_namespace_entry(&subscript.slice, value),
            _ => {}
        }
    }

    /// Checks a method in the namespace of a class, such as `{"__eq__": f}`.
    pub(super) fn check_namespace_entry(&mut self, key: &Expr, value: &Expr) {
        if let Some(name) = constant_string(key) {
            self.check_given_method(key.range(), &name, value);
        }
    }

    /// Checks a table in which code assigns an entry.
    pub(super) fn check_entry_assignment(&mut self, range: TextRange, table: &Expr) {
        if let Expr::Attribute(table) = table {
            let name = table.attr.as_str();
            self.record_hits_where(range, |rule| rule.filled.iter().any(|it| it == name));
        }
    }

    /// Checks an attribute that is assigned or deleted.
    pub(super) fn check_attribute_assignment(&mut self, range: TextRange, base: &Expr, name: &str) {
        self.check_comparison_assignment(range, base, name);
        let path = self.names.dotted_path(base);
        if let Some(path) = path.filter(|path| self.names.is_foreign(path)) {
            let whole = format!("{path}.{name}");
            if !self.rules.table.extension_points.contains(&whole) {
                self.record_hits_as(range, &format!("{whole} ="), |rule| rule.foreign);
            }
        }
        if !is_self(base) {
            let written = format!("{} =", self.source_text(range));
            let is_it = |rule: &Rule| rule.assigned.iter().any(|it| it == name);
            self.record_hits_as(range, &written, is_it);
        }
    }

    /// Checks a change to `sys.modules`. A package may add its own modules.
    pub(super) fn check_module_table(&mut self, range: TextRange, key: Option<&Expr>) {
        if let Some(key) = key {
            if is_own_name(key) {
                return;
            }
            if let Some(text) = constant_prefix(key) {
                let is_whole = constant_string(key).is_some() || text.contains('.');
                if is_whole && self.names.owns_package(top_level_name(&text)) {
                    return;
                }
            }
        }
        self.record_hits_where(range, |rule| rule.module_table);
    }
}

/// Whether an expression is `self` or `cls`.
pub(super) fn is_self(expr: &Expr) -> bool {
    matches!(expr, Expr::Name(it) if matches!(it.id.as_str(), "self" | "cls"))
}

/// Whether an expression is `__name__` or an f-string that starts with it.
fn is_own_name(key: &Expr) -> bool {
    match key {
        Expr::Name(name) => name.id.as_str() == "__name__",
        Expr::FString(text) => matches!(
            text.value.elements().next(),
            Some(InterpolatedStringElement::Interpolation(value)) if is_own_name(&value.expression)
        ),
        _ => false,
    }
}
