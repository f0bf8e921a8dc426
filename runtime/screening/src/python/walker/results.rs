//! Checks functions whose result cannot be right, because it ignores every argument or fits every
//! comparison.

use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged;

use super::Walker;
use crate::{
    python::{
        constant::constant_string,
        shapes::{StatementKind, constant_truth, contains_statement, returned_values, used_names},
    },
    rules::Rule,
};

/// Names that read the arguments without naming them.
const ARGUMENT_READERS: [&str; 3] = ["locals", "vars", "super"];

impl Walker<'_> {
    /// Checks the public functions of a module. Methods and inner functions often have parameters
    /// only because an interface requires them, and so do functions that are defined in a branch.
    pub(super) fn check_results(&mut self, body: &[Stmt]) {
        for stmt in body {
            let Stmt::FunctionDef(def) = stmt else { continue };
            if def.name.as_str().starts_with('_') || !def.decorator_list.is_empty() {
                continue;
            }
            let most = self.max_depth();
            let Some(values) = returned_values(&def.body, most) else { continue };
            let is_generator = contains_statement(&def.body, StatementKind::Yield, most);
            if is_generator || contains_statement(&def.body, StatementKind::Raise, most) {
                continue;
            }
            let is_void = values.iter().all(|value| self.is_void(value));
            let is_broken = |rule: &Rule| {
                (!rule.void_values.is_empty() && is_void)
                    || (!rule.context_parameters.is_empty()
                        && ignores_parameters(rule, def, &values, most))
            };
            let expression = format!("def {}", def.name.as_str());
            self.record_hits_as(def.name.range(), &expression, is_broken);
        }
    }

    /// Whether a value fits comparisons with any other value, such as NaN, is always empty, or always
    /// raises an error.
    fn is_void(&self, value: &Expr) -> bool {
        if let Expr::Subscript(subscript) = value
            && (is_empty_slice(&subscript.slice) || is_empty_display(&subscript.value))
        {
            return true;
        }
        let Some(path) = self.names.dotted_path(value) else { return false };
        let is_nan = |call: &Expr| match call {
            Expr::Call(call) => call
                .arguments
                .args
                .first()
                .and_then(constant_string)
                .is_some_and(|text| text.trim().eq_ignore_ascii_case("nan")),
            _ => false,
        };
        let rules = &self.rules.table.rules;
        rules.iter().any(|rule| rule.void_values.contains(&path))
            || (path == "builtins.float()" && is_nan(value))
    }
}

/// Whether a slice such as `[:0]` selects nothing.
fn is_empty_slice(slice: &Expr) -> bool {
    let Expr::Slice(slice) = slice else { return false };
    let is_zero = |bound: &Expr| {
        matches!(bound, Expr::NumberLiteral(_)) && constant_truth(bound) == Some(false)
    };
    slice.upper.as_deref().is_some_and(is_zero)
        && slice.lower.as_deref().is_none_or(is_zero)
        && slice.step.is_none()
}

/// Whether an expression is an empty collection, as in `{}[key]`.
fn is_empty_display(expr: &Expr) -> bool {
    match expr {
        Expr::Dict(dict) => dict.items.is_empty(),
        Expr::List(list) => list.elts.is_empty(),
        Expr::Tuple(tuple) => tuple.elts.is_empty(),
        _ => false,
    }
}

/// Whether a function returns a value although it uses none of its parameters.
fn ignores_parameters(rule: &Rule, def: &StmtFunctionDef, values: &[&Expr], depth: usize) -> bool {
    let parameters = &def.parameters;
    if parameters.vararg.is_some() || parameters.kwarg.is_some() {
        return false;
    }
    let named = || {
        let all = parameters.iter_non_variadic_params();
        all.map(|parameter| parameter.parameter.name.as_str())
    };
    let is_context =
        |name: &str| name.starts_with('_') || rule.context_parameters.iter().any(|it| it == name);
    let used = used_names(&def.body, depth);
    let is_value = |value: &&Expr| match value {
        Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) => false,
        Expr::Name(name) => name.id.as_str() != "NotImplemented",
        _ => true,
    };
    named().next().is_some()
        && !named().any(|name| is_context(name) || used.contains(name))
        && !ARGUMENT_READERS.iter().any(|reader| used.contains(reader))
        && values.iter().all(is_value)
}
