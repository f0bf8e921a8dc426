//! Checks methods that compare an object with an operand, or combine the two, for results that do
//! not depend on the operand.

use ruff_python_ast::{
    Expr, ExprLambda, Parameters, Stmt, StmtClassDef, StmtFunctionDef, visitor::Visitor,
};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::{
    python::{
        operands::{OperandFinder, OperandUse},
        shapes::{StatementKind, constant_truth, contains_statement, returned_values},
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
}

impl Walker<'_> {
    /// Checks the methods of a class, including lambdas.
    pub(super) fn check_operands(&mut self, class: &StmtClassDef) {
        for stmt in &class.body {
            match stmt {
                Stmt::FunctionDef(def) => self.check_method_operand(class, def),
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        if let (Expr::Name(name), Expr::Lambda(lambda)) = (target, &*assign.value) {
                            self.check_lambda_operand(class, name.id.as_str(), lambda);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn check_method_operand(&mut self, class: &StmtClassDef, def: &StmtFunctionDef) {
        let Some(operand) = operand_name(&def.parameters) else { return };
        let most = self.max_depth();
        let is_own = |kind: &Expr| self.is_own_class(class, kind);
        let mut finder = OperandFinder::new(operand, &is_own, most);
        def.body.iter().for_each(|stmt| finder.visit_stmt(stmt));
        let found = finder.found;
        let mut results = returned_values(&def.body, most).unwrap_or_default();
        results.retain(|value| !is_not_implemented(value));
        let method = Method {
            name: def.name.as_str(),
            range: def.name.range(),
            results,
            can_raise: contains_statement(&def.body, StatementKind::Raise, most),
        };
        self.record_operand_use(&method, &found);
    }

    fn check_lambda_operand(&mut self, class: &StmtClassDef, name: &str, lambda: &ExprLambda) {
        let Some(operand) = lambda.parameters.as_deref().and_then(operand_name) else { return };
        let is_own = |kind: &Expr| self.is_own_class(class, kind);
        let mut finder = OperandFinder::new(operand, &is_own, self.max_depth());
        finder.visit_expr(&lambda.body);
        let found = finder.found;
        let method =
            Method { name, range: lambda.range(), results: vec![&*lambda.body], can_raise: false };
        self.record_operand_use(&method, &found);
    }

    fn record_operand_use(&mut self, method: &Method<'_>, found: &OperandUse) {
        // Methods that always return the same constant have rules of their own.
        let is_constant = found.class_checks == 0
            && method.results.iter().all(|value| constant_truth(value).is_some());
        let is_ignored = !method.results.is_empty()
            && !method.can_raise
            && !is_constant
            && found.values == 0
            && found.own_class_checks == 0;
        let has = |names: &[String]| names.iter().any(|it| it == method.name);
        let is_broken = |rule: &Rule| {
            (is_ignored && has(&rule.comparisons_without_value))
                || (is_ignored && found.class_checks == 0 && has(&rule.sums_without_value))
                || (found.is_looked_up && has(&rule.lookups))
                || (found.is_stored && has(&rule.storing_comparisons))
        };
        self.record_hits_as(method.range, &format!("def {}", method.name), is_broken);
    }

    /// Whether an expression is a class of the repository itself, such as the class that contains
    /// the method.
    fn is_own_class(&self, class: &StmtClassDef, kind: &Expr) -> bool {
        match kind {
            Expr::Name(name) => {
                let name = name.id.as_str();
                name == class.name.as_str()
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

/// Returns the name of a method's second parameter.
fn operand_name(parameters: &Parameters) -> Option<&str> {
    let mut positional = parameters.posonlyargs.iter().chain(&parameters.args);
    positional.nth(1).map(|parameter| parameter.parameter.name.as_str())
}

fn is_not_implemented(expr: &Expr) -> bool {
    matches!(expr, Expr::Name(name) if name.id.as_str() == "NotImplemented")
}
