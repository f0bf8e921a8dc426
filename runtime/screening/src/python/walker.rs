//! Walks a file and notes where it breaks a rule.

use ruff_python_ast::{
    Arguments, BoolOp, Expr, ExprAttribute, ExprCall, ExprContext, ExprLambda,
    InterpolatedStringElement, Parameters, Stmt, StmtClassDef, StmtFunctionDef, StmtImport,
    StmtImportFrom, UnaryOp,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange};

use super::{
    constant::{fold, is_literal, leading},
    names::{Code, Kind, Names, top},
    nests_too_deeply, parse,
    shapes::{
        Sought, asks_whether_given, bodies, holds, is_false, is_made_up, is_true, returned,
        statements,
    },
};
use crate::{
    rules::{Rule, Rules},
    screen::Hit,
};

/// Bytes of a text beyond which it names nothing.
const LONGEST_NAME: usize = 4096;

/// Functions that take parts of paths.
const OF_PATHS: [&str; 11] = [
    "join",
    "joinpath",
    "Path",
    "PurePath",
    "PosixPath",
    "open",
    "glob",
    "rglob",
    "scandir",
    "listdir",
    "walk",
];

pub(super) struct Walker<'a> {
    rules: &'static Rules,
    text: &'a str,
    names: Names<'a>,
    /// The line of the call that runs this text, where it stands in another one.
    line: Option<usize>,
    depth: usize,
    /// A name that is only looked at where it stands.
    looked_at: Option<TextRange>,
    pub too_deep: bool,
    pub hits: Vec<Hit>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(rules: &'static Rules, text: &'a str, names: Names<'a>) -> Self {
        Self {
            rules,
            text,
            names,
            line: None,
            depth: 0,
            looked_at: None,
            too_deep: false,
            hits: Vec::new(),
        }
    }

    pub(super) fn module(&mut self, body: &[Stmt]) {
        self.names.enter(Kind::Module, None, &Code::Body(body));
        body.iter().for_each(|stmt| self.visit_stmt(stmt));
        self.names.leave();
    }

    fn most(&self) -> usize {
        self.rules.table.limits.depth
    }

    fn written(&self, range: TextRange) -> String {
        let slice = self.text.get(range.start().to_usize()..range.end().to_usize());
        let words: Vec<&str> = slice.unwrap_or_default().split_whitespace().collect();
        words.join(" ")
    }

    fn line_of(&self, range: TextRange) -> usize {
        let before = self.text.get(..range.start().to_usize()).unwrap_or_default();
        self.line.unwrap_or_else(|| 1 + before.bytes().filter(|byte| *byte == b'\n').count())
    }

    /// Notes a hit that is compared by an expression of its own.
    fn hit_as(&mut self, rule: usize, range: TextRange, expression: String) {
        let start = range.start().to_usize();
        let before = self.text.get(..start).unwrap_or_default();
        let first = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text.get(first..).and_then(|rest| rest.lines().next());
        let limit = self.rules.table.limits.snippet;
        let snippet = line.unwrap_or_default().trim().chars().take(limit).collect();
        let line = self.line_of(range);
        self.hits.push(Hit { rule, line, expression, snippet });
    }

    /// Notes a hit that is compared by its text.
    fn hit(&mut self, rule: usize, range: TextRange) {
        let written = self.written(range);
        self.hit_as(rule, range, written);
    }

    fn hit_each(&mut self, range: TextRange, holds: impl Fn(&Rule) -> bool) {
        for rule in self.rules.which(holds) {
            self.hit(rule, range);
        }
    }

    /// A dotted name, and the part of it that is looked at by itself.
    fn reference(&mut self, range: TextRange, path: &str, shorter: Option<&str>) {
        for (rule, reference) in self.rules.broken(path, shorter) {
            self.hit_as(rule, range, reference.to_owned());
        }
    }

    fn imported(&mut self, range: TextRange, module: &str) {
        let mut parts = module.split('.');
        let first = parts.next().unwrap_or(module);
        let is_own = self.names.owns(first);
        if !is_own {
            let is_below = |known: &String| {
                module
                    .strip_prefix(known.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            for rule in self.rules.which(|rule| rule.imports.iter().any(is_below)) {
                self.hit_as(rule, range, format!("import {first}"));
            }
        }
        let is_test = if is_own {
            parts.any(|part| self.rules.is_test_module(part))
        } else {
            // The standard library has a package of that name.
            first != "test" && self.rules.is_test_module(first)
        };
        if is_test {
            self.hit_each(range, |rule| rule.test_imports);
        }
    }

    fn import(&mut self, import: &StmtImport, range: TextRange) {
        for alias in &import.names {
            let module = alias.name.as_str();
            self.look_alike(alias.name.range(), module);
            self.imported(range, module);
            self.reference(range, module, None);
        }
    }

    fn import_from(&mut self, import: &StmtImportFrom, range: TextRange) {
        let module = import.module.as_ref().map(|module| module.as_str()).unwrap_or_default();
        let names = || import.names.iter().map(|alias| alias.name.as_str());
        if import.level > 0 {
            let is_test = |name: &str| !name.is_empty() && self.rules.is_test_module(name);
            if module.split('.').any(is_test) || (module.is_empty() && names().any(is_test)) {
                self.hit_each(range, |rule| rule.test_imports);
            }
            return;
        }
        if let Some(module) = &import.module {
            self.look_alike(module.range(), module.as_str());
        }
        for alias in &import.names {
            self.look_alike(alias.name.range(), alias.name.as_str());
        }
        self.imported(range, module);
        self.reference(range, module, None);
        for name in names() {
            if name == "*" {
                if self.rules.has_references_below(module) {
                    self.hit_each(range, |rule| rule.joined_names);
                }
            } else {
                self.reference(range, &format!("{module}.{name}"), Some(module));
            }
        }
    }

    /// Something that is assigned, deleted or bound.
    fn target(&mut self, target: &Expr) {
        match target {
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|target| self.target(target)),
            Expr::List(list) => list.elts.iter().for_each(|target| self.target(target)),
            Expr::Starred(starred) => self.target(&starred.value),
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.assigned(target.range(), &attribute.value, name);
            }
            Expr::Subscript(subscript) => {
                let Some(path) = self.names.path(&subscript.value) else { return };
                if path == "sys.modules" {
                    self.module_table(target.range(), Some(&subscript.slice));
                } else if path
                    .strip_suffix(".__dict__")
                    .is_some_and(|path| self.names.is_foreign(path))
                {
                    self.hit_each(target.range(), |rule| rule.foreign);
                }
            }
            Expr::Name(name) if name.id.as_str() == "__class__" => {
                self.hit_each(target.range(), |rule| !rule.class_names.is_empty());
            }
            _ => {}
        }
    }

    /// An attribute that is assigned or deleted.
    fn assigned(&mut self, range: TextRange, base: &Expr, name: &str) {
        let path = self.names.path(base);
        if let Some(path) = path.filter(|path| self.names.is_foreign(path)) {
            let whole = format!("{path}.{name}");
            if !self.rules.table.extension_points.contains(&whole) {
                for rule in self.rules.which(|rule| rule.foreign) {
                    self.hit_as(rule, range, format!("{whole} ="));
                }
            }
        }
        let is_own = matches!(base, Expr::Name(it) if matches!(it.id.as_str(), "self" | "cls"));
        if !is_own {
            for rule in self.rules.which(|rule| rule.assigned.iter().any(|it| it == name)) {
                let written = self.written(range);
                self.hit_as(rule, range, format!("{written} ="));
            }
        }
    }

    /// A change of `sys.modules`. A package may put itself there.
    fn module_table(&mut self, range: TextRange, key: Option<&Expr>) {
        if let Some(key) = key {
            if is_own_name(key) {
                return;
            }
            if let Some(text) = leading(key) {
                let is_whole = fold(key).is_some() || text.contains('.');
                if is_whole && self.names.owns(top(&text)) {
                    return;
                }
            }
        }
        self.hit_each(range, |rule| rule.module_table);
    }

    fn attribute(&mut self, range: TextRange, attribute: &ExprAttribute, path: Option<String>) {
        let name = attribute.attr.as_str();
        if let Some(path) = path {
            let of = self.names.path(&attribute.value);
            self.reference(range, &path, of.as_deref());
            if of.is_some_and(|of| self.names.is_foreign(&of)) {
                let is_it = |rule: &Rule| rule.foreign_attributes.iter().any(|it| it == name);
                for rule in self.rules.which(is_it) {
                    self.hit_as(rule, range, path.clone());
                }
            }
        }
        self.attribute_name(range, name);
    }

    fn attribute_name(&mut self, range: TextRange, name: &str) {
        self.hit_each(range, |rule| rule.attributes.iter().any(|it| it == name));
    }

    /// A name that is written in other letters than it is read in.
    fn look_alike(&mut self, range: TextRange, name: &str) {
        let slice = self.text.get(range.start().to_usize()..range.end().to_usize());
        if name.is_ascii() && slice.is_some_and(|slice| !slice.is_ascii()) {
            self.hit_each(range, |rule| rule.joined_names);
        }
    }

    fn string(&mut self, range: TextRange, text: &str) {
        if text.len() > LONGEST_NAME {
            return;
        }
        for rule in self.rules.broken_by_text(text) {
            self.hit_as(rule, range, text.to_owned());
        }
        if text.contains('\n') || text.trim().contains(' ') {
            return;
        }
        let parts = || text.split(['/', '\\']).filter(|part| !part.is_empty());
        let is_path = parts().nth(1).is_some() || text.ends_with(".py");
        if is_path && parts().any(|part| self.rules.is_test_name(part)) {
            for rule in self.rules.which(|rule| rule.test_paths) {
                self.hit_as(rule, range, text.to_owned());
            }
        }
    }

    fn call(&mut self, range: TextRange, call: &ExprCall) {
        let Arguments { args, keywords, .. } = &call.arguments;
        for keyword in keywords {
            if let Some(name) = &keyword.arg {
                let name = name.as_str();
                self.hit_each(range, |rule| rule.keywords.iter().any(|it| it == name));
            }
        }
        let Some(function) = self.names.path(&call.func) else { return };
        self.reference(range, &format!("{function}()"), Some(&function));
        let (first, second) = (args.first(), args.get(1));
        let is = |names: &[String]| names.contains(&function);
        for rule in self.rules.which(|rule| is(&rule.dynamic)) {
            self.dynamic(rule, range, (function.as_str(), first, second));
        }
        if first.and_then(fold).is_some() {
            self.hit_each(range, |rule| is(&rule.decoders));
        }
        let named = match function.as_str() {
            "builtins.getattr" | "builtins.setattr" => second,
            "builtins.__import__" | "importlib.import_module" => first,
            _ => None,
        };
        if named.is_some_and(|name| !is_literal(name) && fold(name).is_some()) {
            self.hit_each(range, |rule| rule.joined_names);
        }
        let last = function.rsplit('.').next().unwrap_or(&function);
        if let (Some(base), Some(name)) = (first, second)
            && matches!(last, "setattr" | "delattr" | "__setattr__" | "__delattr__")
        {
            match fold(name) {
                Some(name) => self.assigned(range, base, &name),
                None if self.names.path(base).is_some_and(|path| self.names.is_foreign(&path)) => {
                    self.hit_each(range, |rule| rule.foreign);
                }
                None => {}
            }
        }
        let changes =
            ["pop", "update", "setdefault", "__setitem__", "__delitem__", "clear", "popitem"];
        if function.strip_prefix("sys.modules.") == Some(last) && changes.contains(&last) {
            self.module_table(range, first);
        }
        if function == "builtins.type" && args.len() == 3 {
            args.get(2).into_iter().for_each(|namespace| self.namespace(namespace));
        }
        if let (Some(of), Some(name)) = (first, second.and_then(fold))
            && function == "builtins.getattr"
        {
            self.attribute_name(range, &name);
            if let Some(of) = self.names.path(of) {
                self.reference(range, &format!("{of}.{name}"), Some(&of));
            }
        }
        if OF_PATHS.contains(&last) {
            for text in args.iter().filter_map(fold) {
                if self.rules.is_test_name(&text) {
                    for rule in self.rules.which(|rule| rule.test_paths) {
                        self.hit_as(rule, range, text.clone());
                    }
                }
            }
        }
    }

    /// A text that is run. One that is written in the source is read as the rest of the file is.
    fn dynamic(
        &mut self,
        rule: usize,
        range: TextRange,
        (function, text, mode): (&str, Option<&Expr>, Option<&Expr>),
    ) {
        let Some(text) = text.and_then(fold) else { return self.hit(rule, range) };
        if function == "builtins.compile" && mode.is_none() {
            return;
        }
        let text = text.trim();
        if self.depth > self.most() || nests_too_deeply(text, &self.rules.table.limits) {
            return self.hit(rule, range);
        }
        let parsed = parse(text);
        if !parsed.has_valid_syntax() {
            return self.hit(rule, range);
        }
        let line = Some(self.line_of(range));
        let mut inner = Walker {
            rules: self.rules,
            text,
            names: self.names.clone(),
            line,
            depth: self.depth + 1,
            looked_at: None,
            too_deep: false,
            hits: Vec::new(),
        };
        inner.module(&parsed.syntax().body);
        self.too_deep |= inner.too_deep;
        self.hits.append(&mut inner.hits);
    }

    /// The namespace of a class that `type` makes.
    fn namespace(&mut self, namespace: &Expr) {
        let Expr::Dict(dict) = namespace else { return };
        for item in &dict.items {
            let Some(key) = &item.key else { continue };
            let Some(name) = fold(key) else { continue };
            if name == "__module__" {
                self.module_name(&item.value);
            }
            self.hit_each(key.range(), |rule| rule.class_names.contains(&name));
        }
    }

    /// The module that a class says it is of.
    fn module_name(&mut self, value: &Expr) {
        let Some(module) = fold(value) else { return };
        if !self.names.owns(top(&module)) && module != "__main__" {
            self.hit_each(value.range(), |rule| rule.foreign_module);
        }
    }

    fn class(&mut self, class: &StmtClassDef) {
        for stmt in &class.body {
            match stmt {
                Stmt::FunctionDef(def) => self.method(def),
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        self.class_name(stmt.range(), target, &assign.value);
                    }
                }
                Stmt::AnnAssign(assign) => {
                    if let Some(value) = &assign.value {
                        self.class_name(stmt.range(), &assign.target, value);
                    }
                }
                _ => {}
            }
        }
    }

    fn class_name(&mut self, range: TextRange, target: &Expr, value: &Expr) {
        let Expr::Name(name) = target else { return };
        let name = name.id.as_str();
        if name == "__module__" {
            self.module_name(value);
        }
        let has = |names: &[String]| names.iter().any(|it| it == name);
        // `None` switches a protocol off.
        if !matches!(value, Expr::NoneLiteral(_)) {
            self.hit_each(range, |rule| has(&rule.class_names));
        }
        if let Expr::Lambda(ExprLambda { body, parameters, .. }) = value {
            self.hit_each(range, |rule| {
                (is_true(body) && (has(&rule.always_true) || has(&rule.swallows)))
                    || (is_false(body) && has(&rule.always_false))
                    || (is_made_up(body, parameters.as_deref()) && has(&rule.always_answers))
            });
        }
    }

    fn method(&mut self, def: &StmtFunctionDef) {
        let name = def.name.as_str();
        let has = |names: &[String]| names.iter().any(|it| it == name);
        let most = self.most();
        let values = returned(&def.body, most).unwrap_or_default();
        let all =
            |holds: &dyn Fn(&Expr) -> bool| !values.is_empty() && values.iter().copied().all(holds);
        let (all_true, all_false) = (all(&is_true), all(&is_false));
        let answers = all(&|value| is_made_up(value, Some(&def.parameters)))
            && !holds(&def.body, Sought::Raise, most);
        let broken = self.rules.which(|rule| {
            has(&rule.methods)
                || (all_true && has(&rule.always_true))
                || (all_false && has(&rule.always_false))
                || (answers && has(&rule.always_answers))
                || (has(&rule.swallows) && self.swallows(rule, &def.body, &def.parameters, most))
        });
        for rule in broken {
            self.hit_as(rule, def.name.range(), format!("def {name}"));
        }
    }

    /// Whether the end of a `with` statement lets an assertion through, whatever it is.
    fn swallows(&self, rule: &Rule, body: &[Stmt], parameters: &Parameters, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        body.iter().any(|stmt| match stmt {
            Stmt::Return(returned) => returned.value.as_deref().is_some_and(|value| {
                is_true(value)
                    || asks_whether_given(value, parameters)
                    || self.asks_for_any(rule, value)
            }),
            Stmt::If(branch) => {
                asks_whether_given(&branch.test, parameters)
                    && self.swallows(rule, &branch.body, parameters, depth)
            }
            Stmt::With(_) => {
                bodies(stmt).into_iter().any(|body| self.swallows(rule, body, parameters, depth))
            }
            Stmt::Try(tried) => [&tried.body[..], &tried.orelse[..], &tried.finalbody[..]]
                .into_iter()
                .any(|body| self.swallows(rule, body, parameters, depth)),
            _ => false,
        })
    }

    /// `isinstance(error, Exception)` and the like.
    fn asks_for_any(&self, rule: &Rule, expr: &Expr) -> bool {
        let Expr::Call(call) = expr else { return false };
        let Expr::Name(name) = &*call.func else { return false };
        let is_asked = matches!(name.id.as_str(), "isinstance" | "issubclass");
        is_asked && call.arguments.args.get(1).is_some_and(|of| self.is_broad(rule, Some(of)))
    }

    /// Whether a clause catches a failed assertion.
    fn is_broad(&self, rule: &Rule, caught: Option<&Expr>) -> bool {
        match caught {
            None => true,
            Some(Expr::Tuple(tuple)) => {
                tuple.elts.iter().any(|caught| self.is_broad(rule, Some(caught)))
            }
            Some(caught) => self.names.path(caught).is_some_and(|path| {
                let name = path.strip_prefix("builtins.");
                name.is_some_and(|name| rule.caught.iter().any(|it| it == name))
            }),
        }
    }

    /// A generator that is a context manager, and keeps the exception of its `with` statement.
    fn manager(&mut self, def: &StmtFunctionDef) {
        let decorators: Vec<String> = def
            .decorator_list
            .iter()
            .filter_map(|decorator| self.names.path(&decorator.expression))
            .collect();
        let manages = |rule: &Rule| rule.managers.iter().any(|it| decorators.contains(it));
        let broken = self.rules.which(manages);
        if broken.is_empty() {
            return;
        }
        let most = self.most();
        let mut all = Vec::new();
        statements(&def.body, most, &mut all);
        for number in broken {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let keeps = all.iter().any(|stmt| match stmt {
                Stmt::Try(tried) if holds(&tried.body, Sought::Yield, most) => {
                    tried.handlers.iter().any(|handler| {
                        let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                        self.is_broad(rule, handler.type_.as_deref())
                            && !holds(&handler.body, Sought::Raise, most)
                    })
                }
                Stmt::With(with) if holds(&with.body, Sought::Yield, most) => {
                    with.items.iter().any(|item| self.suppresses(rule, &item.context_expr))
                }
                _ => false,
            });
            if keeps {
                self.hit_as(number, def.name.range(), format!("def {}", def.name.as_str()));
            }
        }
    }

    fn suppresses(&self, rule: &Rule, expr: &Expr) -> bool {
        let Expr::Call(call) = expr else { return false };
        let path = self.names.path(&call.func);
        path.is_some_and(|path| rule.suppressors.contains(&path))
            && call.arguments.args.iter().any(|caught| self.is_broad(rule, Some(caught)))
    }

    /// Whether syntax is still followed at this depth.
    fn descends(&mut self) -> bool {
        let follows = self.depth <= self.most();
        self.too_deep |= !follows;
        follows
    }

    /// Visits an expression that is compared, tested or asked for an attribute, and not passed on.
    fn looks(&mut self, expr: &Expr) {
        self.mark(expr);
        self.visit_expr(expr);
    }

    fn mark(&mut self, expr: &Expr) {
        if matches!(expr, Expr::Name(_)) {
            self.looked_at = Some(expr.range());
        }
    }

    /// A module that is handed to code which may know it by another name.
    fn passed(&mut self, range: TextRange, name: &str, path: &str) {
        let is_passed = self.looked_at != Some(range);
        if is_passed && self.names.is_module(name) && self.names.is_foreign(path) {
            for rule in self.rules.which(|rule| rule.passed_modules) {
                self.hit_as(rule, range, path.to_owned());
            }
        }
    }

    fn defaults(&mut self, parameters: &Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            if let Some(default) = &parameter.default {
                self.visit_expr(default);
            }
        }
    }
}

/// `__name__`, or a text that begins with it.
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

impl<'b> Visitor<'b> for Walker<'_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        if !self.descends() {
            return;
        }
        self.depth += 1;
        match stmt {
            Stmt::FunctionDef(def) => {
                for decorator in &def.decorator_list {
                    self.visit_expr(&decorator.expression);
                }
                self.defaults(&def.parameters);
                self.look_alike(def.name.range(), def.name.as_str());
                self.manager(def);
                let code = Code::Body(&def.body);
                self.names.enter(Kind::Function, Some(&def.parameters), &code);
                self.visit_body(&def.body);
                self.names.leave();
            }
            Stmt::ClassDef(class) => {
                for decorator in &class.decorator_list {
                    self.visit_expr(&decorator.expression);
                }
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                self.class(class);
                self.names.enter(Kind::Class, None, &Code::Body(&class.body));
                self.visit_body(&class.body);
                self.names.leave();
            }
            // Documentation.
            Stmt::Expr(alone) if is_literal(&alone.value) => {}
            Stmt::Import(import) => self.import(import, stmt.range()),
            Stmt::ImportFrom(import) => self.import_from(import, stmt.range()),
            _ => {
                match stmt {
                    Stmt::Assign(assign) => {
                        assign.targets.iter().for_each(|target| self.target(target));
                        // Another name in the same scope is followed.
                        if assign.targets.iter().all(|target| matches!(target, Expr::Name(_))) {
                            self.mark(&assign.value);
                        }
                    }
                    Stmt::If(branch) => self.mark(&branch.test),
                    Stmt::While(repeated) => self.mark(&repeated.test),
                    Stmt::Assert(assertion) => self.mark(&assertion.test),
                    Stmt::Expr(alone) => self.mark(&alone.value),
                    Stmt::AnnAssign(assign) if assign.value.is_some() => {
                        self.target(&assign.target)
                    }
                    Stmt::AugAssign(assign) => self.target(&assign.target),
                    Stmt::Delete(delete) => {
                        delete.targets.iter().for_each(|target| self.target(target));
                    }
                    Stmt::For(each) => self.target(&each.target),
                    Stmt::With(with) => {
                        for item in &with.items {
                            if let Some(target) = &item.optional_vars {
                                self.target(target);
                            }
                        }
                    }
                    _ => {}
                }
                visitor::walk_stmt(self, stmt);
            }
        }
        self.depth -= 1;
    }

    /// Annotations are not run for their effects.
    fn visit_annotation(&mut self, _expr: &'b Expr) {}

    fn visit_expr(&mut self, expr: &'b Expr) {
        if !self.descends() {
            return;
        }
        self.depth += 1;
        let range = expr.range();
        let is_pieces = !is_literal(expr) && fold(expr).is_some();
        match expr {
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.defaults(parameters);
                }
                let code = Code::Expr(&lambda.body);
                self.names.enter(Kind::Function, lambda.parameters.as_deref(), &code);
                self.visit_expr(&lambda.body);
                self.names.leave();
            }
            Expr::Name(name) => {
                self.look_alike(range, name.id.as_str());
                if name.ctx == ExprContext::Load
                    && let Some(path) = self.names.path(expr)
                {
                    self.reference(range, &path, None);
                    self.passed(range, name.id.as_str(), &path);
                }
            }
            Expr::Compare(compare) => {
                self.looks(&compare.left);
                compare.comparators.iter().for_each(|value| self.looks(value));
            }
            Expr::BoolOp(several) => {
                // `a and b` is `b` or nothing; `a or b` may be either.
                let tested = match several.op {
                    BoolOp::And => several.values.len().saturating_sub(1),
                    BoolOp::Or => 0,
                };
                for (number, value) in several.values.iter().enumerate() {
                    if number < tested {
                        self.looks(value);
                    } else {
                        self.visit_expr(value);
                    }
                }
            }
            Expr::UnaryOp(unary) => self.looks(&unary.operand),
            Expr::If(either) => {
                self.looks(&either.test);
                self.visit_expr(&either.body);
                self.visit_expr(&either.orelse);
            }
            Expr::Attribute(attribute) => {
                self.look_alike(attribute.attr.range(), attribute.attr.as_str());
                let path = self.names.path(expr);
                self.attribute(range, attribute, path);
                self.looks(&attribute.value);
            }
            _ if is_pieces || is_literal(expr) => {
                if let Some(text) = fold(expr) {
                    self.string(range, &text);
                }
            }
            Expr::Call(call) => {
                self.call(range, call);
                self.visit_expr(&call.func);
                let function = self.names.path(&call.func);
                let looking = &self.rules.table.looking_functions;
                let only_looks = function.is_some_and(|function| looking.contains(&function));
                if let Some(module) = call.arguments.args.first().filter(|_| only_looks) {
                    self.mark(module);
                }
                self.visit_arguments(&call.arguments);
            }
            _ => {
                match expr {
                    Expr::Named(named) => self.target(&named.target),
                    Expr::Subscript(subscript) => {
                        if let Some(path) = self.names.path(expr) {
                            let of = self.names.path(&subscript.value);
                            self.reference(range, &path, of.as_deref());
                        }
                        if is_literal(&subscript.value) && is_reversed(&subscript.slice) {
                            self.hit_each(range, |rule| rule.joined_names);
                        }
                    }
                    _ => {}
                }
                visitor::walk_expr(self, expr);
            }
        }
        self.depth -= 1;
    }

    fn visit_interpolated_string_element(&mut self, element: &'b InterpolatedStringElement) {
        if let InterpolatedStringElement::Literal(literal) = element {
            self.string(literal.range, &literal.value);
        }
        visitor::walk_interpolated_string_element(self, element);
    }
}

/// A slice with a negative step.
fn is_reversed(slice: &Expr) -> bool {
    let Expr::Slice(slice) = slice else { return false };
    let step = slice.step.as_deref();
    matches!(step, Some(Expr::UnaryOp(step)) if step.op == UnaryOp::USub)
}
