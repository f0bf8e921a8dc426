//! Recognizes functions whose result does not depend on their arguments.

use std::collections::BTreeSet;

use ruff_python_ast::{
    BoolOp, CmpOp, ExceptHandler, Expr, Number, Parameters, Stmt, StmtReturn, UnaryOp,
    comparable::ComparableExpr,
    visitor::{self, Visitor},
};

/// Returns whether an expression is always true or always false. Returns `None` if this depends on
/// the values of its names.
pub(super) fn constant_truth(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::NoneLiteral(_) => Some(false),
        Expr::BooleanLiteral(literal) => Some(literal.value),
        Expr::NumberLiteral(literal) => Some(!is_zero(&literal.value)),
        Expr::StringLiteral(literal) => Some(!literal.value.is_empty()),
        Expr::BytesLiteral(literal) => Some(!literal.value.is_empty()),
        Expr::BoolOp(several) => {
            // A single true operand decides `or`; a single false operand decides `and`.
            let decisive = several.op == BoolOp::Or;
            let all = || several.values.iter().map(constant_truth);
            match all().any(|value| value == Some(decisive)) {
                true => Some(decisive),
                false => all().all(|value| value == Some(!decisive)).then_some(!decisive),
            }
        }
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => {
            constant_truth(&unary.operand).map(|one| !one)
        }
        Expr::Call(call) if is_named(&call.func, "bool") => {
            call.arguments.args.first().map_or(Some(false), constant_truth)
        }
        Expr::If(either) => {
            constant_truth(&either.body).filter(|one| constant_truth(&either.orelse) == Some(*one))
        }
        Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
            ([CmpOp::Eq | CmpOp::Is | CmpOp::LtE | CmpOp::GtE], [right]) => {
                (ComparableExpr::from(&*compare.left) == ComparableExpr::from(right))
                    .then_some(true)
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_zero(number: &Number) -> bool {
    match number {
        Number::Int(number) => number.as_u64() == Some(0),
        Number::Float(number) => *number == 0.0,
        Number::Complex { real, imag } => *real == 0.0 && *imag == 0.0,
    }
}

/// Whether an expression is a certain name.
pub(super) fn is_named(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Name(found) if found.id.as_str() == name)
}

/// Returns the bodies of a compound statement that belong to the same function.
pub(super) fn bodies(stmt: &Stmt) -> Vec<&[Stmt]> {
    match stmt {
        Stmt::For(it) => vec![&it.body[..], &it.orelse[..]],
        Stmt::While(it) => vec![&it.body[..], &it.orelse[..]],
        Stmt::With(it) => vec![&it.body[..]],
        Stmt::If(it) => {
            let clauses = it.elif_else_clauses.iter().map(|clause| &clause.body[..]);
            std::iter::once(&it.body[..]).chain(clauses).collect()
        }
        Stmt::Match(it) => it.cases.iter().map(|case| &case.body[..]).collect(),
        Stmt::Try(it) => {
            let mut all = vec![&it.body[..], &it.orelse[..], &it.finalbody[..]];
            all.extend(it.handlers.iter().map(|handler| {
                let ExceptHandler::ExceptHandler(handler) = handler;
                &handler.body[..]
            }));
            all
        }
        _ => Vec::new(),
    }
}

/// Collects every statement of a function, including nested statements, but excluding the
/// statements of inner functions and classes.
pub(super) fn collect_statements<'a>(body: &'a [Stmt], depth: usize, output: &mut Vec<&'a Stmt>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for stmt in body {
        output.push(stmt);
        for body in bodies(stmt) {
            collect_statements(body, depth, output);
        }
    }
}

/// Returns the expressions that a function returns. Returns `None` if a `return` has no value or
/// there is no `return`.
pub(super) fn returned_values(body: &[Stmt], depth: usize) -> Option<Vec<&Expr>> {
    let mut all = Vec::new();
    collect_statements(body, depth, &mut all);
    let mut values = Vec::new();
    for stmt in all {
        if let Stmt::Return(StmtReturn { value, .. }) = stmt {
            values.push(value.as_deref()?);
        }
    }
    (!values.is_empty()).then_some(values)
}

/// Returns the name of a function's first positional parameter.
pub(super) fn first_parameter(parameters: &Parameters) -> Option<&str> {
    let first = parameters.posonlyargs.first().or_else(|| parameters.args.first());
    first.map(|parameter| parameter.parameter.name.as_str())
}

/// Returns the names that occur in the body of a function, including its inner functions.
pub(super) fn used_names(body: &[Stmt], depth: usize) -> BTreeSet<&str> {
    let mut names = NameCollector { depth, takes_attributes: false, names: BTreeSet::new() };
    body.iter().for_each(|stmt| names.visit_stmt(stmt));
    names.names
}

/// Returns the names and the attributes that occur in an expression.
pub(super) fn used_names_and_attributes(expr: &Expr, depth: usize) -> BTreeSet<&str> {
    let mut names = NameCollector { depth, takes_attributes: true, names: BTreeSet::new() };
    names.visit_expr(expr);
    names.names
}

/// A visitor that stops at a maximum nesting depth, because code may be nested so deeply that the
/// stack overflows.
pub(super) trait BoundedVisitor<'b>: Visitor<'b> + Sized {
    /// How many levels the visitor may still descend.
    fn depth(&mut self) -> &mut usize;

    /// Visits the children of a node, unless they are nested too deeply.
    fn descend(&mut self, visit_children: impl FnOnce(&mut Self)) {
        let Some(depth) = self.depth().checked_sub(1) else { return };
        *self.depth() = depth;
        visit_children(self);
        *self.depth() += 1;
    }
}

struct NameCollector<'b> {
    depth: usize,
    takes_attributes: bool,
    names: BTreeSet<&'b str>,
}

impl<'b> BoundedVisitor<'b> for NameCollector<'b> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for NameCollector<'b> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        self.descend(|own| visitor::walk_stmt(own, stmt));
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        match expr {
            Expr::Name(name) => {
                self.names.insert(name.id.as_str());
            }
            Expr::Attribute(attribute) if self.takes_attributes => {
                self.names.insert(attribute.attr.as_str());
            }
            _ => {}
        }
        self.descend(|own| visitor::walk_expr(own, expr));
    }
}

/// Whether a value is fabricated: a constant, a lambda, the object itself or a new object of its
/// class.
pub(super) fn is_fabricated(expr: &Expr, parameters: Option<&Parameters>) -> bool {
    let first = parameters.and_then(first_parameter);
    let is_self = |expr: &Expr| first.is_some_and(|first| is_named(expr, first));
    match expr {
        Expr::StringLiteral(_)
        | Expr::BytesLiteral(_)
        | Expr::NumberLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_)
        | Expr::EllipsisLiteral(_)
        | Expr::Lambda(_) => true,
        Expr::Name(_) => is_self(expr),
        Expr::Call(call) => match &*call.func {
            Expr::Call(inner) => is_named(&inner.func, "type"),
            Expr::Attribute(attribute) => attribute.attr.as_str() == "__class__",
            function => is_self(function),
        },
        _ => false,
    }
}

/// Whether a condition only checks that one of the parameters is set.
pub(super) fn is_presence_check(expr: &Expr, parameters: &Parameters) -> bool {
    let is_parameter = |expr: &Expr| match expr {
        Expr::Name(name) => {
            let mut names = parameters.iter().map(|parameter| parameter.name().as_str());
            names.any(|parameter| parameter == name.id.as_str())
        }
        _ => false,
    };
    match expr {
        Expr::Name(_) => is_parameter(expr),
        Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
            ([CmpOp::IsNot | CmpOp::NotEq], [Expr::NoneLiteral(_)]) => is_parameter(&compare.left),
            _ => false,
        },
        _ => false,
    }
}

/// The kind of statement that [`contains_statement`] searches for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementKind {
    Yield,
    Raise,
}

/// Whether statements contain a `yield` or a `raise`, not counting inner functions and classes.
pub(super) fn contains_statement(body: &[Stmt], kind: StatementKind, depth: usize) -> bool {
    let mut finder = StatementFinder { kind, has_match: false, depth };
    body.iter().for_each(|stmt| finder.visit_stmt(stmt));
    finder.has_match
}

struct StatementFinder {
    kind: StatementKind,
    has_match: bool,
    depth: usize,
}

impl<'b> BoundedVisitor<'b> for StatementFinder {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for StatementFinder {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        match stmt {
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => return,
            Stmt::Raise(_) if self.kind == StatementKind::Raise => self.has_match = true,
            _ => {}
        }
        if !self.has_match {
            self.descend(|own| visitor::walk_stmt(own, stmt));
        }
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        match expr {
            Expr::Lambda(_) => return,
            Expr::Yield(_) | Expr::YieldFrom(_) if self.kind == StatementKind::Yield => {
                self.has_match = true;
            }
            _ => {}
        }
        if !self.has_match {
            self.descend(|own| visitor::walk_expr(own, expr));
        }
    }
}
