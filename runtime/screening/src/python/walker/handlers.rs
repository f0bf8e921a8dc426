//! Checks functions that the interpreter calls: signal handlers, which receive the frame of the code
//! that they interrupt, and hooks for uncaught exceptions, which can end the process.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Expr, ExprCall, ExprContext, Parameters, Stmt, UnaryOp,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{Walker, operands::positional_names};
use crate::{
    python::{
        names::{NameTable, ScopeCode},
        operands::STORING_METHODS,
        shapes::{BoundedVisitor, constant_truth, is_named},
    },
    rules::Rule,
};

/// Maximum number of functions through which a frame is followed.
const MAX_CALLS: usize = 4;

/// Position of the frame among the arguments of a handler.
const FRAME_POSITION: usize = 1;

/// The module whose functions may receive a frame, such as `signal.default_int_handler`.
const SIGNAL_MODULE: &str = "signal.";

/// The functions through which a frame was followed.
#[derive(Default)]
struct FollowedCalls {
    depth: usize,
    /// Each function, by its position, and the parameter that is the frame. A function is followed
    /// only once: with thousands of functions of the same name, there would be too many paths.
    functions: BTreeSet<(TextSize, String)>,
}

impl Walker<'_> {
    /// Checks a call such as `signal.signal(number, handler)`.
    pub(super) fn check_frame_handler(&mut self, call: &ExprCall, function: &str) {
        for number in self.rules.find_rules(|rule| rule.frame_handlers.contains_key(function)) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let position = rule.frame_handlers.get(function).copied().unwrap_or_default();
            let Some(handler) = call.arguments.find_argument_value("handler", position) else {
                continue;
            };
            let mut broken: Vec<TextRange> = Vec::new();
            if let Expr::Lambda(lambda) = handler {
                let code = ScopeCode::Expr(&lambda.body);
                let parameters = lambda.parameters.as_deref();
                let frame = parameters.and_then(|of| frame_parameter(of, false));
                if frame.is_some_and(|frame| {
                    self.reads_frame(rule, frame, &code, &mut FollowedCalls::default())
                }) {
                    broken.push(lambda.range());
                }
            }
            let is_partial = matches!(handler, Expr::Call(_));
            for def in self.definitions.referenced_functions(handler) {
                let code = ScopeCode::Body(&def.body);
                let frame = frame_parameter(&def.parameters, is_partial);
                if frame.is_some_and(|frame| {
                    self.reads_frame(rule, frame, &code, &mut FollowedCalls::default())
                }) {
                    broken.push(def.name.range());
                }
            }
            for range in broken {
                self.record_hit_as(number, range, format!("{function}(frame)"));
            }
        }
    }

    /// Whether code uses a parameter that is a frame. Passing it on to a function that does not use
    /// it is honest.
    fn reads_frame(
        &self,
        rule: &Rule,
        name: &str,
        code: &ScopeCode<'_>,
        followed: &mut FollowedCalls,
    ) -> bool {
        if followed.depth == MAX_CALLS {
            return true;
        }
        let mut uses =
            ParameterUses { name, depth: self.max_depth(), is_read: false, passed: Vec::new() };
        match code {
            ScopeCode::Body(body) => body.iter().for_each(|stmt| uses.visit_stmt(stmt)),
            ScopeCode::Expr(expr) => uses.visit_expr(expr),
        }
        let ParameterUses { is_read, passed, .. } = uses;
        if is_read {
            return true;
        }
        followed.depth += 1;
        let is_passed_on = passed.into_iter().any(|(function, position)| {
            self.function_reads_frame(rule, (function, position), followed)
        });
        followed.depth -= 1;
        is_passed_on
    }

    /// Whether a function uses a frame that it receives as an argument.
    fn function_reads_frame(
        &self,
        rule: &Rule,
        (function, position): (&Expr, usize),
        followed: &mut FollowedCalls,
    ) -> bool {
        let own = match function {
            // The result of a call is a function from elsewhere, such as a previous handler.
            Expr::Call(_) => Vec::new(),
            function => self.definitions.referenced_functions(function),
        };
        if own.is_empty() {
            return !self.is_frame_receiver(rule, function, position);
        }
        own.into_iter().any(|def| {
            // A method receives its object first.
            let objects = usize::from(matches!(function, Expr::Attribute(_)));
            let mut names = positional_names(&def.parameters).skip(position + objects);
            let rest = def.parameters.vararg.as_ref().map(|rest| rest.name.as_str());
            let name = names.next().or(rest);
            let code = ScopeCode::Body(&def.body);
            name.is_some_and(|name| {
                followed.functions.insert((def.name.range().start(), name.to_owned()))
                    && self.reads_frame(rule, name, &code, followed)
            })
        })
    }

    /// Whether a function that the file does not define may receive a frame: a printer, a handler of
    /// the `signal` module, or a previous handler, which receives the number of the signal first.
    fn is_frame_receiver(&self, rule: &Rule, function: &Expr, position: usize) -> bool {
        let path = self.names.dotted_path(function);
        if path.as_ref().is_some_and(|path| rule.frame_printers.contains(path)) {
            return true;
        }
        let stores = match function {
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                STORING_METHODS.contains(&name) || name == "__setitem__"
            }
            _ => false,
        };
        let is_handler = path.is_none_or(|path| {
            path.contains(['(', '['])
                || path.starts_with(SIGNAL_MODULE)
                || self.names.is_owned(&path)
        });
        is_handler && position == FRAME_POSITION && !stores
    }

    /// Checks a function that code assigns to a hook for uncaught exceptions.
    pub(super) fn check_hook(&mut self, target: &Expr, value: &Expr) {
        let Some(path) = self.names.dotted_path(target) else { return };
        let most = self.max_depth();
        for number in self.rules.find_rules(|rule| rule.exit_hooks.contains(&path)) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let mut broken = Vec::new();
            for def in self.definitions.referenced_functions(value) {
                broken.extend(find_exit(rule, &self.names, &ScopeCode::Body(&def.body), most));
            }
            if let Expr::Lambda(lambda) = value {
                broken.extend(find_exit(rule, &self.names, &ScopeCode::Expr(&lambda.body), most));
            }
            for range in broken {
                self.record_hit_as(number, range, format!("{path} exits"));
            }
        }
    }

    /// Whether a call ends the process with a constant status that means failure, as the child after
    /// a fork does if it cannot start a program.
    pub(super) fn is_failing_exit(&self, call: &ExprCall) -> bool {
        is_failure_status(call) == Some(true)
            && self.names.dotted_path(&call.func).is_some_and(|path| {
                self.rules.table.rules.iter().any(|rule| rule.exits.contains(&path))
            })
    }

    /// Checks the statements that run when a module is imported. They must not end the process with
    /// status 0. A file that is started as a script may.
    pub(super) fn check_import_exit(&mut self, body: &[Stmt]) {
        let most = self.max_depth();
        let mut broken: Vec<(usize, TextRange)> = Vec::new();
        for number in self.rules.find_rules(|rule| !rule.exit_hooks.is_empty()) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            for stmt in body {
                let is_script = match stmt {
                    Stmt::If(branch) => mentions_name(&branch.test, "__name__", most),
                    _ => false,
                };
                let code = ScopeCode::Body(std::slice::from_ref(stmt));
                if !is_script && let Some(range) = find_exit(rule, &self.names, &code, most) {
                    broken.push((number, range));
                }
            }
        }
        for (number, range) in broken {
            self.record_hit_as(number, range, "import exits".to_owned());
        }
    }
}

/// Returns the parameter of a signal handler that is a frame. `is_partial` means that other
/// parameters may come first, which are already bound.
fn frame_parameter(parameters: &Parameters, is_partial: bool) -> Option<&str> {
    let rest = parameters.vararg.as_ref().map(|rest| rest.name.as_str());
    let first = positional_names(parameters).next();
    let object = usize::from(first.is_some_and(|first| matches!(first, "self" | "cls")));
    let frame = match is_partial {
        true => positional_names(parameters).last(),
        false => positional_names(parameters).nth(object + 1),
    };
    frame.or(rest)
}

/// Whether an expression contains a name.
fn mentions_name(expr: &Expr, name: &str, depth: usize) -> bool {
    let mut uses = ParameterUses { name, depth, is_read: false, passed: Vec::new() };
    uses.visit_expr(expr);
    uses.is_read || !uses.passed.is_empty()
}

/// Finds the uses of a parameter.
struct ParameterUses<'b, 'n> {
    name: &'n str,
    depth: usize,
    /// Whether the code uses the parameter other than as an argument.
    is_read: bool,
    /// The functions to which the code passes the parameter, each with the argument's position.
    passed: Vec<(&'b Expr, usize)>,
}

impl<'b> BoundedVisitor<'b> for ParameterUses<'b, '_> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for ParameterUses<'b, '_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        self.descend(|own| visitor::walk_stmt(own, stmt));
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        match expr {
            Expr::Name(name) if name.id.as_str() == self.name => {
                self.is_read |= name.ctx == ExprContext::Load;
            }
            Expr::Call(call) => self.descend(|own| {
                own.visit_expr(&call.func);
                for (position, argument) in call.arguments.args.iter().enumerate() {
                    let (value, position) = match argument {
                        // All arguments of the handler.
                        Expr::Starred(rest) => (&*rest.value, FRAME_POSITION),
                        argument => (argument, position),
                    };
                    if is_named(value, own.name) {
                        own.passed.push((&*call.func, position));
                    } else {
                        own.visit_expr(argument);
                    }
                }
                for keyword in &call.arguments.keywords {
                    own.visit_expr(&keyword.value);
                }
            }),
            _ => self.descend(|own| visitor::walk_expr(own, expr)),
        }
    }
}

/// Returns the first place where code ends the process with status 0, not counting inner functions
/// and classes.
fn find_exit(
    rule: &Rule,
    names: &NameTable<'_>,
    code: &ScopeCode<'_>,
    depth: usize,
) -> Option<TextRange> {
    let is_exit = |function: &Expr| {
        let path = names.dotted_path(function).or_else(|| written_path(function));
        path.is_some_and(|path| rule.exits.contains(&path))
    };
    let mut finder = ExitFinder { is_exit: &is_exit, depth, found: None };
    match code {
        ScopeCode::Body(body) => body.iter().for_each(|stmt| finder.visit_stmt(stmt)),
        ScopeCode::Expr(expr) => finder.visit_expr(expr),
    }
    finder.found
}

/// Whether a call that ends the process passes a status other than 0, which means failure. `None` if
/// the status is not constant.
fn is_failure_status(call: &ExprCall) -> Option<bool> {
    match call.arguments.args.first()? {
        // `sys.exit(-1)`
        Expr::UnaryOp(negative) if negative.op == UnaryOp::USub => {
            constant_truth(&negative.operand)
        }
        status => constant_truth(status),
    }
}

/// Returns a dotted name as it is written. A function may import the module itself.
fn written_path(expr: &Expr) -> Option<String> {
    let Expr::Attribute(attribute) = expr else { return None };
    let Expr::Name(module) = &*attribute.value else { return None };
    Some(format!("{}.{}", module.id.as_str(), attribute.attr.as_str()))
}

struct ExitFinder<'f> {
    /// Whether an expression is a function or an exception that ends the process.
    is_exit: &'f dyn Fn(&Expr) -> bool,
    depth: usize,
    found: Option<TextRange>,
}

impl<'b> BoundedVisitor<'b> for ExitFinder<'_> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }
}

impl<'b> Visitor<'b> for ExitFinder<'_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        match stmt {
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => return,
            Stmt::Raise(raised) => {
                if let Some(exception) = raised.exc.as_deref().filter(|it| (self.is_exit)(it)) {
                    self.found = self.found.or(Some(exception.range()));
                }
            }
            _ => {}
        }
        self.descend(|own| visitor::walk_stmt(own, stmt));
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        if let Expr::Call(call) = expr
            && (self.is_exit)(&call.func)
        {
            // A status that is not constant may be 0.
            if is_failure_status(call) != Some(true) {
                self.found = self.found.or(Some(call.range()));
            }
        }
        if !matches!(expr, Expr::Lambda(_)) {
            self.descend(|own| visitor::walk_expr(own, expr));
        }
    }
}
