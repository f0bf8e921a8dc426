//! Checks methods that compare an object with an operand, or combine the two, for results that do
//! not depend on both of them, and for equalities that are another relation.

use ruff_python_ast::{
    BoolOp, Expr, ExprLambda, Parameters, Stmt, StmtClassDef, StmtFunctionDef, UnaryOp,
    visitor::Visitor,
};
use ruff_text_size::{Ranged, TextRange};

use super::{Walker, relations::is_other_relation};
use crate::{
    python::{
        operands::{OperandFinder, OperandUse},
        shapes::{
            StatementKind, collect_statements, constant_truth, contains_statement, returned_values,
        },
    },
    rules::Rule,
};

/// A method that has an operand.
struct Method<'a> {
    name: &'a str,
    range: TextRange,
    /// The results, except for `NotImplemented`.
    results: Vec<&'a Expr>,
    can_raise: bool,
    /// Whether the result is true for every operand of some class.
    is_decided_by_class: bool,
}

/// A method's name, and the class that has the method if it is known.
#[derive(Clone, Copy)]
pub(super) struct MethodName<'n> {
    pub class: Option<&'n str>,
    pub name: &'n str,
}

impl Walker<'_> {
    /// Checks the methods of a class, including lambdas.
    pub(super) fn check_operands(&mut self, class: &StmtClassDef) {
        let class_name = Some(class.name.as_str());
        for stmt in &class.body {
            let Stmt::FunctionDef(def) = stmt else { continue };
            let method = MethodName { class: class_name, name: def.name.as_str() };
            if let Some(names) = operand_names(&def.parameters) {
                self.check_method_operand(method, def, names);
            }
        }
    }

    /// Checks a function that is a method with this name.
    pub(super) fn check_method_operand(
        &mut self,
        MethodName { class, name }: MethodName<'_>,
        def: &StmtFunctionDef,
        names: (&str, &str),
    ) {
        let most = self.max_depth();
        let is_own = |kind: &Expr| self.is_own_class(class, kind);
        let mut finder = OperandFinder::new(names, &is_own, most);
        def.body.iter().for_each(|stmt| finder.visit_stmt(stmt));
        let found = finder.found;
        let only_class = |expr: &Expr| {
            let mut finder = OperandFinder::new(names, &is_own, most);
            finder.visit_expr(expr);
            finder.found.is_only_class()
        };
        let mut results = returned_values(&def.body, most).unwrap_or_default();
        results.retain(|value| !is_not_implemented(value));
        let mut all = Vec::new();
        collect_statements(&def.body, most, &mut all);
        let is_decided_by_class = results.iter().any(|value| accepts_class(value, &only_class))
            || all.into_iter().any(|stmt| agrees_after_class_check(stmt, &only_class));
        let method = Method {
            name,
            range: def.name.range(),
            results,
            can_raise: contains_statement(&def.body, StatementKind::Raise, most),
            is_decided_by_class,
        };
        self.record_operand_use(&method, &found);
    }

    pub(super) fn check_lambda_operand(
        &mut self,
        MethodName { class, name }: MethodName<'_>,
        lambda: &ExprLambda,
    ) {
        let Some(names) = lambda.parameters.as_deref().and_then(operand_names) else { return };
        let most = self.max_depth();
        let is_own = |kind: &Expr| self.is_own_class(class, kind);
        let mut finder = OperandFinder::new(names, &is_own, most);
        finder.visit_expr(&lambda.body);
        let found = finder.found;
        let only_class = |expr: &Expr| {
            let mut finder = OperandFinder::new(names, &is_own, most);
            finder.visit_expr(expr);
            finder.found.is_only_class()
        };
        let method = Method {
            name,
            range: lambda.range(),
            results: vec![&*lambda.body],
            can_raise: false,
            is_decided_by_class: accepts_class(&lambda.body, &only_class),
        };
        self.record_operand_use(&method, &found);
    }

    fn record_operand_use(&mut self, method: &Method<'_>, found: &OperandUse) {
        let checks = found.class_checks + found.none_checks;
        // Separate rules cover methods that always return the same constant.
        let is_constant =
            checks == 0 && method.results.iter().all(|value| constant_truth(value).is_some());
        let can_ignore = !method.results.is_empty()
            && !method.can_raise
            && !is_constant
            && found.own_class_checks == 0;
        let (ignores_operand, ignores_object) =
            (can_ignore && found.values == 0, can_ignore && found.object_uses == 0);
        let has = |names: &[String]| names.iter().any(|it| it == method.name);
        // `other - other` is always 0.
        let combines_operand = ignores_object
            && found.values > 0
            && method.results.iter().any(|value| matches!(value, Expr::BinOp(_)));
        let most = self.max_depth();
        let is_broken = |rule: &Rule| {
            let is_relation = |value: &&Expr| is_other_relation(rule, value, most);
            ((ignores_operand || method.is_decided_by_class)
                && has(&rule.comparisons_without_value))
                || (ignores_object && has(&rule.comparisons_without_object))
                || (ignores_operand && checks == 0 && has(&rule.sums_without_value))
                || (combines_operand && has(&rule.sums_without_object))
                || (has(&rule.equalities) && method.results.iter().any(is_relation))
                || (found.is_looked_up && has(&rule.lookups))
                || (found.is_stored && has(&rule.storing_comparisons))
        };
        self.record_hits_as(method.range, &format!("def {}", method.name), is_broken);
    }

    /// Whether an expression is a class of the repository itself, such as the class that contains
    /// the method.
    fn is_own_class(&self, class: Option<&str>, kind: &Expr) -> bool {
        match kind {
            Expr::Name(name) => {
                let name = name.id.as_str();
                Some(name) == class
                    || name == "__class__"
                    || self.defined_classes.contains(name)
                    || self.names.dotted_path(kind).is_some_and(|path| self.names.is_owned(&path))
            }
            Expr::Attribute(attribute) => {
                attribute.attr.as_str() == "__class__"
                    || self.names.dotted_path(kind).is_some_and(|path| self.names.is_owned(&path))
            }
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "type")
            }
            _ => false,
        }
    }
}

/// Returns the names of a method's first two parameters, the object and the operand.
pub(super) fn operand_names(parameters: &Parameters) -> Option<(&str, &str)> {
    let mut names = positional_names(parameters);
    Some((names.next()?, names.next()?))
}

/// Like [`operand_names`], for a function whose parameters between the two are bound.
pub(super) fn outer_operand_names(parameters: &Parameters) -> Option<(&str, &str)> {
    let mut names = positional_names(parameters);
    Some((names.next()?, names.last()?))
}

/// Returns the names of the parameters that can be passed by position.
pub(super) fn positional_names(parameters: &Parameters) -> impl Iterator<Item = &str> {
    let positional = parameters.posonlyargs.iter().chain(&parameters.args);
    positional.map(|parameter| parameter.parameter.name.as_str())
}

/// Whether a result is true for every operand of some class, as in
/// `isinstance(other, int) or other == self.x`.
fn accepts_class(result: &Expr, only_class: &dyn Fn(&Expr) -> bool) -> bool {
    match result {
        Expr::BoolOp(several) if several.op == BoolOp::Or => {
            several.values.iter().any(|value| !is_negated(value) && only_class(value))
        }
        result => only_class(result),
    }
}

/// Whether a statement returns a true constant if the operand has some class.
fn agrees_after_class_check(stmt: &Stmt, only_class: &dyn Fn(&Expr) -> bool) -> bool {
    let Stmt::If(branch) = stmt else { return false };
    let is_true = |stmt: &Stmt| match stmt {
        Stmt::Return(returned) => {
            returned.value.as_deref().is_some_and(|value| constant_truth(value) == Some(true))
        }
        _ => false,
    };
    !is_negated(&branch.test) && only_class(&branch.test) && branch.body.iter().any(is_true)
}

/// Whether an expression is a negation. `not isinstance(other, Mapping)` is honest in `__ne__`.
fn is_negated(expr: &Expr) -> bool {
    matches!(expr, Expr::UnaryOp(unary) if unary.op == UnaryOp::Not)
}

fn is_not_implemented(expr: &Expr) -> bool {
    matches!(expr, Expr::Name(name) if name.id.as_str() == "NotImplemented")
}
