//! Checks functions that empty an argument and then return a value that fits the empty argument. A
//! test that computes its expectation from the argument afterwards agrees with any such result.

use ruff_python_ast::{
    Expr, ExprCall, Number, Operator, Parameters, Stmt, StmtFunctionDef,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::python::{
    constant::constant_string,
    shapes::{BoundedVisitor, bodies, collect_statements, constant_truth, is_named, used_names},
};

/// Methods that remove one element.
const POPS: [&str; 3] = ["pop", "popitem", "popleft"];

/// Built-in functions that don't change their arguments.
const READERS: [&str; 14] = [
    "all", "any", "bool", "dict", "len", "list", "max", "min", "print", "repr", "set", "sorted",
    "sum", "tuple",
];

impl Walker<'_> {
    /// Checks the parameters of a function, except for the object itself.
    pub(super) fn check_emptied_arguments(&mut self, def: &StmtFunctionDef) {
        let most = self.max_depth();
        let mut all = Vec::new();
        collect_statements(&def.body, most, &mut all);
        let names: Vec<&str> = argument_names(&def.parameters)
            .filter(|name| !all.iter().any(|stmt| binds(stmt, name)))
            .collect();
        let mut broken: Vec<TextRange> = Vec::new();
        for name in &names {
            find_emptied(name, (&def.body[..], false), most, &mut broken);
        }
        let returns_value = all.iter().any(|stmt| match stmt {
            Stmt::Return(returned) => {
                returned.value.as_deref().is_some_and(|it| !matches!(it, Expr::NoneLiteral(_)))
            }
            _ => false,
        });
        if returns_value {
            for stmt in &all {
                let call = match stmt {
                    Stmt::Expr(alone) => &alone.value,
                    Stmt::Return(returned) => match &returned.value {
                        Some(value) => value,
                        None => continue,
                    },
                    Stmt::Assign(assign) => &assign.value,
                    _ => continue,
                };
                if let Expr::Call(call) = &**call
                    && names.iter().any(|name| self.empties_file(name, call))
                {
                    broken.push(call.range());
                }
            }
        }
        for range in broken {
            self.record_hits_where(range, |rule| rule.emptied_arguments);
        }
    }

    /// Whether a call empties the file that a parameter names.
    fn empties_file(&self, name: &str, call: &ExprCall) -> bool {
        let first = call.arguments.args.first();
        let is_zero = |size: Option<&Expr>| size.and_then(constant_truth) == Some(false);
        if self.names.dotted_path(&call.func).is_some_and(|path| path == "os.truncate") {
            return first.is_some_and(|path| is_path(name, path))
                && is_zero(call.arguments.args.get(1));
        }
        let Expr::Attribute(function) = &*call.func else { return false };
        match function.attr.as_str() {
            "write_text" | "write_bytes" => {
                is_path(name, &function.value)
                    && first.and_then(constant_string).is_some_and(|text| text.is_empty())
            }
            // `open(path, "w").close()`
            "close" => match &*function.value {
                Expr::Call(opened) => opens_for_writing(name, opened),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Returns the names of a function's parameters, except for the object that a method belongs to.
fn argument_names(parameters: &Parameters) -> impl Iterator<Item = &str> {
    let all = parameters.iter_non_variadic_params();
    let names = all.map(|parameter| parameter.parameter.name.as_str());
    names.filter(|name| !matches!(*name, "self" | "cls"))
}

/// Whether a statement gives a name another value.
fn binds(stmt: &Stmt, name: &str) -> bool {
    let is_it = |target: &Expr| is_named(target, name);
    match stmt {
        Stmt::Assign(assign) => assign.targets.iter().any(|target| match target {
            Expr::Tuple(tuple) => tuple.elts.iter().any(is_it),
            target => is_it(target),
        }),
        Stmt::AnnAssign(assign) => is_it(&assign.target),
        Stmt::For(each) => is_it(&each.target),
        Stmt::With(with) => {
            with.items.iter().filter_map(|item| item.optional_vars.as_deref()).any(is_it)
        }
        _ => false,
    }
}

/// Adds the places where a block returns a value that fits the emptied argument. A statement between
/// the two may fill the argument again.
fn find_emptied(
    name: &str,
    (block, is_emptied): (&[Stmt], bool),
    depth: usize,
    output: &mut Vec<TextRange>,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let mut is_emptied = is_emptied;
    for stmt in block {
        if empties(stmt, name) {
            is_emptied = true;
            continue;
        }
        if let Stmt::Return(returned) = stmt {
            if let Some(value) = returned.value.as_deref().filter(|_| is_emptied)
                && (is_empty(value) || used_names(std::slice::from_ref(stmt), depth).contains(name))
            {
                output.push(value.range());
            }
            continue;
        }
        for block in bodies(stmt) {
            find_emptied(name, (block, is_emptied), depth, output);
        }
        is_emptied = is_emptied && !refills(stmt, name, depth);
    }
}

/// Whether a statement may fill an object again.
fn refills(stmt: &Stmt, name: &str, depth: usize) -> bool {
    let mut finder = RefillFinder { name, depth, has_match: false };
    finder.visit_stmt(stmt);
    finder.has_match
}

struct RefillFinder<'n> {
    name: &'n str,
    depth: usize,
    has_match: bool,
}

impl<'b> BoundedVisitor<'b> for RefillFinder<'_> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for RefillFinder<'_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        let is_part = |target: &Expr| match target {
            Expr::Subscript(subscript) => is_named(&subscript.value, self.name),
            Expr::Attribute(attribute) => is_named(&attribute.value, self.name),
            target => is_named(target, self.name),
        };
        self.has_match |= match stmt {
            Stmt::Assign(assign) => assign.targets.iter().any(is_part),
            Stmt::AugAssign(assign) => is_part(&assign.target),
            _ => false,
        };
        if !self.has_match {
            self.descend(|own| visitor::walk_stmt(own, stmt));
        }
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        if let Expr::Call(call) = expr {
            let reads = match &*call.func {
                Expr::Name(function) => READERS.contains(&function.id.as_str()),
                _ => false,
            };
            let is_method = match &*call.func {
                Expr::Attribute(function) => is_named(&function.value, self.name),
                _ => false,
            };
            let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
            let mut values = call.arguments.args.iter().chain(keywords);
            self.has_match |= is_method || (!reads && values.any(|it| is_named(it, self.name)));
        }
        if !self.has_match {
            self.descend(|own| visitor::walk_expr(own, expr));
        }
    }
}

/// Whether a statement empties an object or sets it to zero.
fn empties(stmt: &Stmt, name: &str) -> bool {
    let is_whole = |target: &Expr| match target {
        Expr::Subscript(subscript) => {
            is_named(&subscript.value, name)
                && match &*subscript.slice {
                    Expr::Slice(slice) => slice.lower.is_none() && slice.upper.is_none(),
                    slice => matches!(slice, Expr::EllipsisLiteral(_)),
                }
        }
        _ => false,
    };
    match stmt {
        Stmt::Expr(alone) => match &*alone.value {
            Expr::Call(call) => is_emptying_call(name, call),
            _ => false,
        },
        Stmt::Delete(delete) => delete.targets.iter().any(is_whole),
        Stmt::Assign(assign) => assign.targets.iter().any(is_whole) && is_empty(&assign.value),
        // For numpy's arrays, `x *= 0` changes the array itself.
        Stmt::AugAssign(assign) => {
            (is_named(&assign.target, name) || is_whole(&assign.target))
                && match assign.op {
                    Operator::Mult | Operator::BitAnd => is_empty(&assign.value),
                    Operator::Sub | Operator::BitXor => is_named(&assign.value, name),
                    _ => false,
                }
        }
        // `while items: items.pop()`
        Stmt::While(repeated) => {
            is_named(&repeated.test, name)
                && repeated.body.iter().all(|stmt| match stmt {
                    Stmt::Expr(alone) => match &*alone.value {
                        Expr::Call(call) => is_method_of(name, call, &POPS),
                        _ => false,
                    },
                    _ => false,
                })
        }
        _ => false,
    }
}

fn is_emptying_call(name: &str, call: &ExprCall) -> bool {
    let first = call.arguments.args.first();
    (is_method_of(name, call, &["clear"]) && first.is_none())
        || (is_method_of(name, call, &["fill"]) && first.is_some_and(is_empty))
}

/// Whether a call invokes one of `methods` on the variable `name`.
fn is_method_of(name: &str, call: &ExprCall, methods: &[&str]) -> bool {
    match &*call.func {
        Expr::Attribute(function) => {
            is_named(&function.value, name) && methods.contains(&function.attr.as_str())
        }
        _ => false,
    }
}

/// Whether a value is empty or zero.
fn is_empty(value: &Expr) -> bool {
    match value {
        Expr::List(list) => list.elts.is_empty(),
        Expr::Tuple(tuple) => tuple.elts.is_empty(),
        Expr::Dict(dict) => dict.items.is_empty(),
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(number) => number.as_u64() == Some(0),
            Number::Float(number) => *number == 0.0,
            Number::Complex { .. } => false,
        },
        Expr::StringLiteral(literal) => literal.value.is_empty(),
        Expr::BytesLiteral(literal) => literal.value.is_empty(),
        _ => false,
    }
}

/// Whether an expression is a parameter, or a path made of nothing else.
fn is_path(name: &str, expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => match &*call.arguments.args {
            [only] => is_named(only, name),
            _ => false,
        },
        expr => is_named(expr, name),
    }
}

/// Whether a call opens the file that a parameter names and deletes its content.
fn opens_for_writing(name: &str, call: &ExprCall) -> bool {
    let args = &call.arguments.args;
    let (is_opened, mode) = match &*call.func {
        Expr::Name(function) => {
            (function.id.as_str() == "open" && args.first().is_some_and(|it| is_path(name, it)), 1)
        }
        Expr::Attribute(function) => {
            (function.attr.as_str() == "open" && is_path(name, &function.value), 0)
        }
        _ => (false, 0),
    };
    let mode = call.arguments.find_argument_value("mode", mode).and_then(constant_string);
    is_opened && mode.is_some_and(|mode| mode.contains('w'))
}
