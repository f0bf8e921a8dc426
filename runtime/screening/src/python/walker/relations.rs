//! Checks methods that code gives to a class as values: `__eq__ = int.__ge__`, the namespace of
//! `type(name, bases, {"__eq__": f})`, `setattr(cls, "__eq__", f)`. An equality must not be another
//! relation.

use ruff_python_ast::{BoolOp, CmpOp, Expr, Stmt, StmtClassDef};
use ruff_text_size::{Ranged, TextRange};

use super::{
    Walker,
    calls::called_name,
    operands::{MethodName, operand_names, outer_operand_names},
};
use crate::{
    python::shapes::{is_named, used_names_and_attributes},
    rules::Rule,
};

/// Functions that only check the class of a value.
const CLASS_CHECKS: [&str; 4] = ["isinstance", "issubclass", "callable", "hasattr"];

/// Functions that bind some of the parameters of another function.
const PARTIAL_FUNCTIONS: [&str; 2] = ["partial", "partialmethod"];

impl Walker<'_> {
    /// Checks the methods that the body of a class assigns.
    pub(super) fn check_assigned_methods(&mut self, class: &StmtClassDef) {
        let class_name = Some(class.name.as_str());
        for stmt in &class.body {
            match stmt {
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        if let Expr::Name(name) = target {
                            let method = MethodName { class: class_name, name: name.id.as_str() };
                            self.check_method_value(stmt.range(), method, &assign.value);
                        }
                    }
                }
                Stmt::AnnAssign(assign) => {
                    if let (Expr::Name(name), Some(value)) = (&*assign.target, &assign.value) {
                        let method = MethodName { class: class_name, name: name.id.as_str() };
                        self.check_method_value(stmt.range(), method, value);
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks a method that code gives to a class outside the body of the class.
    pub(super) fn check_given_method(&mut self, range: TextRange, name: &str, value: &Expr) {
        if is_special(name) {
            self.check_given_result(range, name, value);
            self.check_method_value(range, MethodName { class: None, name }, value);
        }
    }

    fn check_method_value(&mut self, range: TextRange, method: MethodName<'_>, value: &Expr) {
        if !is_special(method.name) {
            return;
        }
        if let Expr::Lambda(lambda) = value {
            return self.check_lambda_operand(method, lambda);
        }
        let has = |names: &[String]| names.iter().any(|it| it == method.name);
        let written = format!("{} =", method.name);
        self.record_hits_as(range, &written, |rule| {
            has(&rule.equalities) && gives_other_relation(rule, value)
        });
        // An attribute such as `Base.compare` may be a method of any class.
        let is_followed = match value {
            Expr::Name(_) => true,
            Expr::Call(call) => PARTIAL_FUNCTIONS.contains(&called_name(&call.func)),
            _ => false,
        };
        if !is_followed {
            return;
        }
        for def in self.definitions.referenced_functions(value) {
            self.check_method(method.name, def);
            let names = match value {
                Expr::Call(_) => outer_operand_names(&def.parameters),
                _ => operand_names(&def.parameters),
            };
            if let Some(names) = names {
                self.check_method_operand(method, def, names);
            }
        }
    }
}

/// Whether a name belongs to a special method.
fn is_special(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

/// Whether a value is the function of another relation, or wraps one.
fn gives_other_relation(rule: &Rule, value: &Expr) -> bool {
    match value {
        Expr::Call(call) => {
            let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
            let mut values = call.arguments.args.iter().chain(keywords);
            values.any(|value| names_other_relation(rule, value))
        }
        value => names_other_relation(rule, value),
    }
}

fn names_other_relation(rule: &Rule, value: &Expr) -> bool {
    let name = match value {
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        Expr::Name(name) => name.id.as_str(),
        _ => return false,
    };
    rule.other_relations.iter().any(|relation| relation == name)
}

/// Whether the result of an equality is another relation between the two values. A comparison of a
/// distance with a tolerance is an equality.
pub(super) fn is_other_relation(rule: &Rule, result: &Expr, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match result {
        // Several conditions may be an equality together, such as `a <= b and b <= a`.
        Expr::BoolOp(several) if several.op == BoolOp::And => {
            let mut rest = several.values.iter().filter(|value| !is_class_check(value));
            match (rest.next(), rest.next()) {
                (Some(only), None) => is_other_relation(rule, only, depth),
                _ => false,
            }
        }
        Expr::Compare(compare) => {
            let is_order =
                |op: &CmpOp| matches!(op, CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE);
            compare.ops.iter().all(is_order) && !measures_distance(rule, result, depth)
        }
        Expr::Call(call) if is_named(&call.func, "bool") => {
            let value = call.arguments.args.first();
            value.is_some_and(|value| is_other_relation(rule, value, depth))
        }
        Expr::Call(call) => names_other_relation(rule, &call.func),
        _ => false,
    }
}

fn is_class_check(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => CLASS_CHECKS.iter().any(|name| is_named(&call.func, name)),
        _ => false,
    }
}

fn measures_distance(rule: &Rule, expr: &Expr, depth: usize) -> bool {
    let names = used_names_and_attributes(expr, depth);
    rule.distances.iter().any(|distance| names.contains(distance.as_str()))
}
