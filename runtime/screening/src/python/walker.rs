//! Walks the syntax tree of a file and records rule violations.

use std::collections::HashSet;

use ruff_python_ast::{
    BoolOp, CmpOp, Comprehension, Expr, ExprBinOp, ExprContext, InterpolatedStringElement,
    Operator, Parameters, Stmt, UnaryOp,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange};

use super::{
    constant::{constant_string, constant_template, is_literal},
    definitions::Definitions,
    names::{NameTable, ScopeCode, ScopeKind},
    shapes::{collect_statements, is_named},
};
use crate::{
    language::Hit,
    rules::{Rule, Rules},
};

mod annotations;
mod assignments;
mod attributes;
mod calls;
mod classes;
mod emptied;
mod handlers;
mod held;
mod imports;
mod indirect;
mod indistinct;
mod managers;
mod operands;
mod patterns;
mod positions;
mod programs;
mod registered;
mod relations;
mod results;
mod subclasses;
mod tables;
mod test_names;

/// Maximum length in bytes of a string that is checked as a name.
const MAX_NAME_BYTES: usize = 4096;

pub(super) struct Walker<'a> {
    rules: &'static Rules,
    text: &'a str,
    names: NameTable<'a>,
    /// The line number in the file, if `text` is a string in that file that is run as code.
    line: Option<usize>,
    depth: usize,
    /// The range of a value that is only inspected, not passed on.
    inspected_range: Option<TextRange>,
    /// The range of a table from which code only reads an entry with a constant name.
    entered_range: Option<TextRange>,
    /// Ranges of values whose use is allowed although a rule restricts it.
    allowed_ranges: HashSet<TextRange>,
    /// Ranges of classes that are only compared or named.
    compared_ranges: HashSet<TextRange>,
    /// Ranges of functions that are called.
    called_ranges: HashSet<TextRange>,
    /// Names that refer to the object that a method of other code belongs to.
    owner_names: HashSet<String>,
    /// Names of the classes that the module defines.
    defined_classes: HashSet<String>,
    /// The functions and classes of the module.
    definitions: Definitions<'a>,
    /// Names of lists of attributes, such as `dir(it)`.
    listed_names: HashSet<String>,
    /// Names of single elements of such lists.
    selected_names: HashSet<String>,
    /// Whether other code imports the module.
    pub is_package_module: bool,
    pub is_too_deep: bool,
    pub hits: Vec<Hit>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(rules: &'static Rules, text: &'a str, names: NameTable<'a>) -> Self {
        Self {
            rules,
            text,
            names,
            line: None,
            depth: 0,
            inspected_range: None,
            entered_range: None,
            allowed_ranges: HashSet::new(),
            compared_ranges: HashSet::new(),
            called_ranges: HashSet::new(),
            owner_names: HashSet::new(),
            defined_classes: HashSet::new(),
            definitions: Definitions::default(),
            listed_names: HashSet::new(),
            selected_names: HashSet::new(),
            is_package_module: false,
            is_too_deep: false,
            hits: Vec::new(),
        }
    }

    pub(super) fn walk_module(&mut self, body: &'a [Stmt]) {
        self.definitions = Definitions::new(body, self.max_depth());
        let mut all = Vec::new();
        collect_statements(body, self.max_depth(), &mut all);
        self.defined_classes.extend(all.iter().filter_map(|stmt| match stmt {
            Stmt::ClassDef(class) => Some(class.name.as_str().to_owned()),
            _ => None,
        }));
        self.names.enter_scope(ScopeKind::Module, None, &ScopeCode::Body(body));
        self.check_class_aliases(body);
        self.check_results(body);
        if self.is_package_module {
            self.check_import_exit(body);
        }
        body.iter().for_each(|stmt| self.visit_stmt(stmt));
        self.names.leave_scope();
    }

    fn max_depth(&self) -> usize {
        self.rules.table.limits.depth
    }

    fn source_text(&self, range: TextRange) -> String {
        let slice = self.text.get(range.start().to_usize()..range.end().to_usize());
        let words: Vec<&str> = slice.unwrap_or_default().split_whitespace().collect();
        words.join(" ")
    }

    fn line_number(&self, range: TextRange) -> usize {
        let before = self.text.get(..range.start().to_usize()).unwrap_or_default();
        self.line.unwrap_or_else(|| 1 + before.bytes().filter(|byte| *byte == b'\n').count())
    }

    /// Records a hit with the given expression for comparison.
    fn record_hit_as(&mut self, rule: usize, range: TextRange, expression: String) {
        let start = range.start().to_usize();
        let before = self.text.get(..start).unwrap_or_default();
        let first = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text.get(first..).and_then(|rest| rest.lines().next());
        let limit = self.rules.table.limits.snippet;
        let snippet = line.unwrap_or_default().trim().chars().take(limit).collect();
        let line = self.line_number(range);
        self.hits.push(Hit { rule, line, expression, snippet, group: None });
    }

    /// Records a hit with its source text as the expression.
    fn record_hit(&mut self, rule: usize, range: TextRange) {
        let written = self.source_text(range);
        self.record_hit_as(rule, range, written);
    }

    fn record_hits_where(&mut self, range: TextRange, predicate: impl Fn(&Rule) -> bool) {
        for rule in self.rules.find_rules(predicate) {
            self.record_hit(rule, range);
        }
    }

    /// Records the rules that a dotted name violates, and its uses in combinations. `shorter_path`
    /// is a prefix that is checked separately.
    fn check_reference(&mut self, range: TextRange, path: &str, shorter_path: Option<&str>) {
        self.check_single_reference(range, path, shorter_path);
        for (rule, group, reference) in self.rules.groups_of_reference(path, shorter_path) {
            self.record_grouped_hit((rule, group), range, reference);
        }
    }

    /// Records a hit in a group of a rule that needs hits in several groups.
    fn record_grouped_hit(
        &mut self,
        (rule, group): (usize, usize),
        range: TextRange,
        reference: &str,
    ) {
        self.record_hit_as(rule, range, reference.to_owned());
        if let Some(hit) = self.hits.last_mut() {
            hit.group = Some(group);
        }
    }

    /// Records the rules that a dotted name violates on its own.
    fn check_single_reference(&mut self, range: TextRange, path: &str, shorter_path: Option<&str>) {
        for (rule, reference) in self.rules.rules_violated_by_reference(path, shorter_path) {
            if self.compared_ranges.contains(&range) && self.rules.is_type_check(rule, path) {
                continue;
            }
            self.record_hit_as(rule, range, reference.to_owned());
        }
    }

    /// Like [`Walker::record_hits_where`], with the given expression for comparison.
    fn record_hits_as(
        &mut self,
        range: TextRange,
        expression: &str,
        predicate: impl Fn(&Rule) -> bool,
    ) {
        for rule in self.rules.find_rules(predicate) {
            self.record_hit_as(rule, range, expression.to_owned());
        }
    }

    /// Checks a sum of the address of an object and a number.
    fn check_address_sum(&mut self, range: TextRange, sum: &ExprBinOp) {
        let is_address = |expr: &Expr| match expr {
            Expr::Call(call) => {
                self.names.dotted_path(&call.func).is_some_and(|path| path == "builtins.id")
            }
            _ => false,
        };
        let is_number = |expr: &Expr| match expr {
            Expr::UnaryOp(unary) => matches!(&*unary.operand, Expr::NumberLiteral(_)),
            expr => matches!(expr, Expr::NumberLiteral(_)),
        };
        let is_sum = matches!(sum.op, Operator::Add | Operator::Sub)
            && ((is_address(&sum.left) && is_number(&sum.right))
                || (is_number(&sum.left) && is_address(&sum.right)));
        if is_sum {
            self.record_hits_as(range, "id() +", |rule| rule.id_arithmetic);
        }
    }

    fn check_string(&mut self, range: TextRange, text: &str) {
        if text.len() > MAX_NAME_BYTES {
            return;
        }
        for rule in self.rules.rules_violated_by_text(text) {
            self.record_hit_as(rule, range, text.to_owned());
        }
        if text.contains('\n') || text.trim().contains(' ') {
            return;
        }
        let parts = || text.split(['/', '\\']).filter(|part| !part.is_empty());
        let is_path = parts().nth(1).is_some() || text.ends_with(".py");
        if is_path && parts().any(|part| self.rules.is_test_name(part)) {
            self.record_hits_as(range, text, |rule| rule.test_paths);
        }
    }

    /// Checks a string with parts that are not constant, such as a path in `/proc`.
    fn check_template(&mut self, range: TextRange, text: &str) {
        if text.len() <= MAX_NAME_BYTES && text.contains("{}") {
            for rule in self.rules.rules_violated_by_text(text) {
                self.record_hit_as(rule, range, text.to_owned());
            }
        }
    }

    /// Whether the walk may continue at the current depth. If not, sets `is_too_deep`.
    fn can_descend(&mut self) -> bool {
        let follows = self.depth <= self.max_depth();
        self.is_too_deep |= !follows;
        follows
    }

    /// Visits an expression that is only inspected: it is compared, tested or has an attribute
    /// read.
    fn visit_inspected(&mut self, expr: &Expr) {
        self.mark_inspected(expr);
        self.visit_expr(expr);
    }

    fn mark_inspected(&mut self, expr: &Expr) {
        let names_module =
            matches!(expr, Expr::Name(_) | Expr::Call(_) | Expr::Subscript(_) | Expr::Attribute(_));
        if names_module {
            self.inspected_range = Some(expr.range());
        }
    }

    /// Checks for a module of another package that is passed on as a value, since code may then
    /// change it under another name.
    fn check_passed_module(&mut self, range: TextRange, name: &str, path: &str) {
        let is_passed = self.inspected_range != Some(range);
        if is_passed && self.names.is_module(name) && self.names.is_foreign(path) {
            self.record_hits_as(range, path, |rule| rule.passed_modules);
        }
    }

    /// Like [`Walker::check_passed_module`], for a module that is not an imported name.
    fn check_passed_import(&mut self, range: TextRange, expr: &Expr) {
        if self.inspected_range != Some(range)
            && let Some(module) = self.names.find_module_path(expr)
            && self.names.is_foreign(&module)
        {
            self.record_hits_as(range, &module, |rule| rule.passed_modules);
        }
    }

    fn visit_defaults(&mut self, parameters: &Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            if let Some(default) = &parameter.default {
                self.visit_expr(default);
            }
        }
    }

    /// Checks for a table such as `sys.modules` that code iterates over or passes as a whole.
    fn check_iterated_table(&mut self, expr: &Expr) {
        let whole = match expr {
            Expr::Starred(starred) => &*starred.value,
            whole => whole,
        };
        if let Some(path) = self.names.dotted_path(whole) {
            self.record_hits_as(expr.range(), &path, |rule| rule.listed.contains(&path));
        }
    }
}

impl<'b> Visitor<'b> for Walker<'_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        if !self.can_descend() {
            return;
        }
        self.depth += 1;
        match stmt {
            Stmt::FunctionDef(def) => {
                for decorator in &def.decorator_list {
                    self.visit_expr(&decorator.expression);
                }
                self.visit_defaults(&def.parameters);
                for parameter in def.parameters.iter() {
                    if let Some(annotation) = parameter.annotation() {
                        self.visit_annotation(annotation);
                    }
                }
                if let Some(returns) = &def.returns {
                    self.visit_annotation(returns);
                }
                if let Some(parameters) = &def.type_params {
                    self.visit_type_params(parameters);
                }
                self.check_look_alike(def.name.range(), def.name.as_str());
                self.check_manager(def);
                self.check_emptied_arguments(def);
                let code = ScopeCode::Body(&def.body);
                self.names.enter_scope(ScopeKind::Function, Some(&def.parameters), &code);
                self.visit_body(&def.body);
                self.names.leave_scope();
            }
            Stmt::ClassDef(class) => {
                for decorator in &class.decorator_list {
                    self.visit_expr(&decorator.expression);
                }
                if let Some(parameters) = &class.type_params {
                    self.visit_type_params(parameters);
                }
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                self.check_class(class);
                self.check_operands(class);
                self.check_assigned_methods(class);
                self.check_reductions(class);
                self.check_registering_decorators(class);
                self.check_indistinct_class(class);
                self.check_subclass_hook(class);
                self.names.enter_scope(ScopeKind::Class, None, &ScopeCode::Body(&class.body));
                self.visit_body(&class.body);
                self.names.leave_scope();
            }
            // Skip docstrings.
            Stmt::Expr(alone) if is_literal(&alone.value) => {}
            Stmt::Import(import) => self.check_import(import, stmt.range()),
            Stmt::ImportFrom(import) => self.check_import_from(import, stmt.range()),
            _ => {
                match stmt {
                    Stmt::Assign(assign) => {
                        assign.targets.iter().for_each(|target| self.check_target(target));
                        // Assigning to a plain name only creates an alias, which `NameTable`
                        // tracks. But code can reach an attribute of a class in ways that
                        // `NameTable` does not track.
                        if assign.targets.iter().all(|target| matches!(target, Expr::Name(_)))
                            && !self.names.is_in_class()
                        {
                            self.mark_inspected(&assign.value);
                        }
                        for target in &assign.targets {
                            self.check_assigned_function(target, &assign.value);
                            self.remember_listing(target, &assign.value);
                        }
                        if let [target] = &*assign.targets {
                            self.allow_assignment(target, &assign.value);
                            self.remember_owner(target, &assign.value);
                        }
                    }
                    Stmt::If(branch) => self.mark_inspected(&branch.test),
                    Stmt::While(repeated) => self.mark_inspected(&repeated.test),
                    Stmt::Assert(assertion) => self.mark_inspected(&assertion.test),
                    Stmt::Expr(alone) => {
                        self.mark_inspected(&alone.value);
                        self.allow_use(&alone.value);
                    }
                    Stmt::AnnAssign(assign) => {
                        if let Some(value) = &assign.value {
                            self.check_target(&assign.target);
                            self.allow_assignment(&assign.target, value);
                        }
                    }
                    Stmt::AugAssign(assign) => self.check_target(&assign.target),
                    Stmt::Delete(delete) => {
                        delete.targets.iter().for_each(|target| self.check_target(target));
                    }
                    Stmt::For(each) => {
                        self.check_target(&each.target);
                        self.check_iterated_table(&each.iter);
                        self.allow_stack_loop(&each.target, &each.iter);
                    }
                    Stmt::Match(choice) => {
                        for case in &choice.cases {
                            self.check_match(&case.pattern, &choice.subject);
                        }
                    }
                    Stmt::With(with) => {
                        for item in &with.items {
                            if let Some(target) = &item.optional_vars {
                                self.check_target(target);
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

    fn visit_annotation(&mut self, expr: &'b Expr) {
        self.visit_inspected(expr);
        self.check_annotation_texts(expr);
    }

    fn visit_comprehension(&mut self, comprehension: &'b Comprehension) {
        self.check_target(&comprehension.target);
        self.check_iterated_table(&comprehension.iter);
        self.allow_stack_loop(&comprehension.target, &comprehension.iter);
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        if !self.can_descend() {
            return;
        }
        self.depth += 1;
        let range = expr.range();
        let is_pieces = !is_literal(expr) && constant_string(expr).is_some();
        if matches!(expr, Expr::BinOp(_) | Expr::FString(_) | Expr::Call(_)) && !is_pieces {
            self.check_template(range, &constant_template(expr));
        }
        if matches!(expr, Expr::Call(_) | Expr::Subscript(_) | Expr::Attribute(_)) {
            self.check_passed_import(range, expr);
        }
        if let Expr::BinOp(sum) = expr {
            self.check_address_sum(range, sum);
        }
        match expr {
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.visit_defaults(parameters);
                }
                let code = ScopeCode::Expr(&lambda.body);
                self.names.enter_scope(ScopeKind::Function, lambda.parameters.as_deref(), &code);
                self.visit_expr(&lambda.body);
                self.names.leave_scope();
            }
            Expr::Name(name) => {
                self.check_look_alike(range, name.id.as_str());
                if name.ctx == ExprContext::Load
                    && let Some(path) = self.names.dotted_path(expr)
                {
                    self.check_reference(range, &path, None);
                    self.check_restricted_use(range, &path);
                    self.check_passed_function(range, &path);
                    self.check_passed_module(range, name.id.as_str(), &path);
                }
            }
            Expr::Compare(compare) => {
                // `==` and `in` may call methods of the other operand, which then receives the
                // class.
                if compare.ops.iter().all(|op| matches!(op, CmpOp::Is | CmpOp::IsNot)) {
                    self.compared_ranges.insert(compare.left.range());
                    self.compared_ranges.extend(compare.comparators.iter().map(Ranged::range));
                }
                self.check_name_comparison(compare);
                self.visit_inspected(&compare.left);
                compare.comparators.iter().for_each(|value| self.visit_inspected(value));
            }
            Expr::BoolOp(several) => {
                // The value of `a and b` is `b` or falsy; the value of `a or b` may be either
                // operand.
                let tested = match several.op {
                    BoolOp::And => several.values.len().saturating_sub(1),
                    BoolOp::Or => 0,
                };
                for (number, value) in several.values.iter().enumerate() {
                    if number < tested {
                        self.visit_inspected(value);
                    } else {
                        self.visit_expr(value);
                    }
                }
            }
            Expr::UnaryOp(unary) => self.visit_inspected(&unary.operand),
            Expr::If(either) => {
                self.visit_inspected(&either.test);
                self.visit_expr(&either.body);
                self.visit_expr(&either.orelse);
            }
            Expr::Attribute(attribute) => {
                self.check_look_alike(attribute.attr.range(), attribute.attr.as_str());
                let path = self.names.dotted_path(expr);
                if let Some(path) = &path {
                    self.check_passed_function(range, path);
                }
                self.check_attribute(range, attribute, path);
                self.visit_inspected(&attribute.value);
            }
            _ if is_pieces || is_literal(expr) => {
                if let Some(text) = constant_string(expr) {
                    self.check_string(range, &text);
                    self.check_program_text(range, &text);
                }
            }
            Expr::Call(call) => {
                self.check_call(range, call);
                self.called_ranges.insert(call.func.range());
                if !self.is_failing_exit(call) {
                    self.visit_expr(&call.func);
                }
                let function = self.names.dotted_path(&call.func);
                let looking = &self.rules.table.looking_functions;
                let only_looks = function.is_some_and(|function| looking.contains(&function));
                if let Some(module) = call.arguments.args.first().filter(|_| only_looks) {
                    self.mark_inspected(module);
                }
                self.visit_arguments(&call.arguments);
            }
            _ => {
                match expr {
                    Expr::Named(named) => self.check_target(&named.target),
                    Expr::Starred(_) => self.check_iterated_table(expr),
                    Expr::Dict(dict) => {
                        for item in &dict.items {
                            match &item.key {
                                Some(key) => self.check_namespace_entry(key, &item.value),
                                None => self.check_iterated_table(&item.value),
                            }
                        }
                    }
                    Expr::Subscript(subscript) => {
                        if constant_string(&subscript.slice).is_some() {
                            self.entered_range = Some(subscript.value.range());
                        }
                        if let Some(path) = self.names.dotted_path(expr) {
                            let of = self.names.dotted_path(&subscript.value);
                            if names_own_module(&subscript.slice) {
                                self.check_single_reference(range, &path, of.as_deref());
                            } else {
                                self.check_reference(range, &path, of.as_deref());
                            }
                            self.check_restricted_use(range, &path);
                            if let Some(of) = &of {
                                self.allow_stack_entry(&subscript.value, of, &subscript.slice);
                            }
                            if of.is_some_and(|of| of == "sys.modules")
                                && self.names_test_module(&subscript.slice)
                            {
                                self.record_hits_where(range, |rule| rule.test_imports);
                            }
                        }
                        if is_literal(&subscript.value) && is_reversed(&subscript.slice) {
                            self.record_hits_where(range, |rule| rule.joined_names);
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
            self.check_string(literal.range, &literal.value);
        }
        visitor::walk_interpolated_string_element(self, element);
    }
}

/// Whether a key of `sys.modules` is the name of the module itself or of a known class's module.
fn names_own_module(key: &Expr) -> bool {
    match key {
        Expr::Attribute(attribute) => attribute.attr.as_str() == "__module__",
        key => is_named(key, "__name__"),
    }
}

/// Whether this is a slice with a negative step.
fn is_reversed(slice: &Expr) -> bool {
    let Expr::Slice(slice) = slice else { return false };
    let step = slice.step.as_deref();
    matches!(step, Some(Expr::UnaryOp(step)) if step.op == UnaryOp::USub)
}
