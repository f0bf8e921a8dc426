//! Checks classes whose instances or subclasses a test cannot tell apart, although the class looks
//! as if it could.

use ruff_python_ast::{
    Expr, Stmt, StmtAnnAssign, StmtAssign, StmtClassDef, StmtFunctionDef,
    comparable::ComparableExpr,
};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::{
    python::{
        definitions::method,
        shapes::{
            StatementKind, collect_statements, contains_statement, first_parameter, is_named,
            returned_values, used_names,
        },
    },
    rules::Rule,
};

/// Keywords that exclude a field from comparisons.
const COMPARISON_KEYWORDS: [&str; 3] = ["compare", "eq", "cmp"];

/// Number of further names of a class that a module may define.
const MAX_ALIASES: usize = 1;

/// Number of built-in errors that an exception may derive from. Honest exceptions have up to three, to
/// stay compatible with several versions of a package.
const MAX_ERROR_KINDS: usize = 3;

impl Walker<'_> {
    pub(super) fn check_indistinct_class(&mut self, class: &StmtClassDef) {
        for number in self.rules.find_rules(|rule| rule.indistinct) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let is_broken = self.is_single_value_enum(rule, class)
                || self.compares_no_field(rule, class)
                || self.is_empty_protocol(rule, class)
                || self.derives_from_many_errors(class)
                || drops_arguments(class, self.max_depth())
                || copies_as_itself(class, self.max_depth());
            if is_broken {
                let expression = format!("class {}", class.name.as_str());
                self.record_hit_as(number, class.name.range(), expression);
            }
        }
    }

    /// Checks for several names of one class, so that tests which expect different classes get the
    /// same one.
    pub(super) fn check_class_aliases(&mut self, body: &[Stmt]) {
        let mut found: Vec<(&str, usize, TextRange)> = Vec::new();
        for stmt in body {
            let Stmt::Assign(StmtAssign { targets, value, .. }) = stmt else { continue };
            let Expr::Name(class) = &**value else { continue };
            let class = class.id.as_str();
            if !self.defined_classes.contains(class) {
                continue;
            }
            let names = targets.iter().filter(|target| matches!(target, Expr::Name(_))).count();
            match found.iter_mut().find(|(known, ..)| *known == class) {
                Some((_, count, range)) => (*count, *range) = (*count + names, stmt.range()),
                None => found.push((class, names, stmt.range())),
            }
        }
        for (class, count, range) in found {
            if count > MAX_ALIASES {
                self.record_hits_as(range, &format!("= {class}"), |rule| rule.indistinct);
            }
        }
    }

    fn is_one_of(&self, names: &[String], expr: &Expr) -> bool {
        self.names.dotted_path(called(expr)).is_some_and(|path| names.contains(&path))
    }

    /// Whether all members of an enum have the same value, which makes them one member.
    fn is_single_value_enum(&self, rule: &Rule, class: &StmtClassDef) -> bool {
        if !class.bases().iter().any(|base| self.is_one_of(&rule.enums, base)) {
            return false;
        }
        let values: Vec<&Expr> = class
            .body
            .iter()
            .filter_map(|stmt| match stmt {
                Stmt::Assign(StmtAssign { targets, value, .. }) => match targets.as_slice() {
                    [Expr::Name(name)] if !name.id.as_str().starts_with('_') => Some(&**value),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        // Each call of `auto()` returns another value.
        let is_constant = |value: &Expr| !matches!(value, Expr::Call(_));
        let Some((first, rest)) = values.split_first() else { return false };
        !rest.is_empty()
            && is_constant(first)
            && rest.iter().all(|value| ComparableExpr::from(*value) == ComparableExpr::from(*first))
    }

    /// Whether a dataclass excludes all of its fields from comparisons.
    fn compares_no_field(&self, rule: &Rule, class: &StmtClassDef) -> bool {
        let is_data = class.decorator_list.iter().any(|decorator| {
            let expr = &decorator.expression;
            self.is_one_of(&rule.dataclasses, expr) && !disables_comparison(expr)
        });
        let mut fields = class.body.iter().filter_map(|stmt| match stmt {
            Stmt::AnnAssign(StmtAnnAssign { value, .. }) => Some(value.as_deref()),
            _ => None,
        });
        let is_excluded = |value: Option<&Expr>| value.is_some_and(disables_comparison);
        is_data
            && fields.next().is_some_and(is_excluded)
            && fields.all(is_excluded)
            && method(class, "__eq__").is_none()
    }

    /// Whether an exception class derives from so many built-in errors that a test expecting any of
    /// them would accept it.
    fn derives_from_many_errors(&self, class: &StmtClassDef) -> bool {
        let is_error = |base: &&Expr| {
            let path = self.names.dotted_path(base);
            path.is_some_and(|path| path.starts_with("builtins.") && path.ends_with("Error"))
        };
        class.bases().iter().filter(is_error).count() > MAX_ERROR_KINDS
    }

    /// Whether a class is a runtime-checkable protocol without members. Every object is an instance
    /// of it.
    fn is_empty_protocol(&self, rule: &Rule, class: &StmtClassDef) -> bool {
        let decorated = class
            .decorator_list
            .iter()
            .any(|decorator| self.is_one_of(&rule.runtime_protocols, &decorator.expression));
        let [base] = class.bases() else { return false };
        let base = match base {
            Expr::Subscript(subscript) => &*subscript.value,
            base => base,
        };
        decorated
            && self.is_one_of(&rule.protocols, base)
            && class.body.iter().all(|stmt| match stmt {
                Stmt::Pass(_) => true,
                Stmt::Expr(alone) => {
                    matches!(&*alone.value, Expr::StringLiteral(_) | Expr::EllipsisLiteral(_))
                }
                _ => false,
            })
    }
}

/// Returns the function of a call, and any other expression itself.
fn called(expr: &Expr) -> &Expr {
    match expr {
        Expr::Call(call) => &call.func,
        expr => expr,
    }
}

/// Whether an expression is a call with an argument such as `compare=False`.
fn disables_comparison(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return false };
    call.arguments.keywords.iter().any(|keyword| {
        let name = keyword.arg.as_ref().map(|arg| arg.as_str()).unwrap_or_default();
        COMPARISON_KEYWORDS.contains(&name)
            && matches!(&keyword.value, Expr::BooleanLiteral(literal) if !literal.value)
    })
}

/// Whether the constructor of a class ignores all of its arguments, so that all instances are
/// equal or even the same.
fn drops_arguments(class: &StmtClassDef, depth: usize) -> bool {
    let Some(def) = method(class, "__new__") else { return false };
    // If there is an `__init__`, it receives the arguments, too.
    if method(class, "__init__").is_some() {
        return false;
    }
    let parameters = &def.parameters;
    let named: Vec<&str> = parameters
        .iter_non_variadic_params()
        .skip(1)
        .map(|parameter| parameter.parameter.name.as_str())
        .collect();
    let used = used_names(&def.body, depth);
    !named.is_empty()
        && parameters.vararg.is_none()
        && parameters.kwarg.is_none()
        && named.iter().all(|name| !used.contains(*name))
        && returned_values(&def.body, depth).is_some()
        && !contains_statement(&def.body, StatementKind::Raise, depth)
}

/// Whether the copy of an object is the object itself, although methods change the object.
fn copies_as_itself(class: &StmtClassDef, depth: usize) -> bool {
    let returns_self = |name: &str| {
        method(class, name).is_some_and(|def| {
            let itself = first_parameter(&def.parameters).unwrap_or_default();
            let values = returned_values(&def.body, depth).unwrap_or_default();
            !values.is_empty() && values.iter().all(|value| is_named(value, itself))
        })
    };
    (returns_self("__deepcopy__") || returns_self("__copy__"))
        && class.body.iter().any(|stmt| match stmt {
            Stmt::FunctionDef(def) => changes_itself(def, depth),
            _ => false,
        })
}

/// Whether a public method assigns to an attribute of its object. Special methods and properties
/// may cache values.
fn changes_itself(def: &StmtFunctionDef, depth: usize) -> bool {
    if def.name.as_str().starts_with('_') || !def.decorator_list.is_empty() {
        return false;
    }
    let itself = first_parameter(&def.parameters).unwrap_or_default();
    let is_own = |target: &Expr| match target {
        Expr::Attribute(attribute) => is_named(&attribute.value, itself),
        _ => false,
    };
    let mut all = Vec::new();
    collect_statements(&def.body, depth, &mut all);
    all.into_iter().any(|stmt| match stmt {
        Stmt::Assign(assign) => assign.targets.iter().any(is_own),
        Stmt::AugAssign(assign) => is_own(&assign.target),
        Stmt::AnnAssign(assign) => is_own(&assign.target),
        _ => false,
    })
}
