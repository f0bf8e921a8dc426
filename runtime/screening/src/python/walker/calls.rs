//! Checks calls, and strings that are run as code.

use ruff_python_ast::{Arguments, Expr, ExprCall, Stmt};
use ruff_text_size::{Ranged, TextRange};

use super::{Walker, assignments::is_self, attributes::is_code};
use crate::python::{
    constant::{constant_string, is_literal},
    names::named_object,
    parser::{nests_too_deeply, parse},
};

/// Functions with paths, or parts of paths, as arguments.
const PATH_FUNCTIONS: [&str; 11] = [
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

impl Walker<'_> {
    pub(super) fn check_call(&mut self, range: TextRange, call: &ExprCall) {
        let Arguments { args, keywords, .. } = &call.arguments;
        for keyword in keywords {
            if let Some(name) = &keyword.arg {
                let name = name.as_str();
                self.check_given_method(keyword.range(), name, &keyword.value);
                self.record_hits_where(range, |rule| rule.keywords.iter().any(|it| it == name));
                if !is_false(&keyword.value) {
                    let called = called_name(&call.func);
                    self.record_hits_where(range, |rule| {
                        rule.enabled_keywords.iter().any(|it| it == name)
                            && !rule.unaffected_functions.iter().any(|it| it == called)
                    });
                }
            }
            self.check_iterated_table(&keyword.value);
        }
        args.iter().for_each(|value| self.check_iterated_table(value));
        self.check_name_test(range, call);
        if let Expr::Attribute(function) = &*call.func
            && matches!(function.attr.as_str(), "update" | "setdefault" | "__setitem__")
        {
            self.check_entry_assignment(range, &function.value);
        }
        let Some(function) = self.names.dotted_path(&call.func) else { return };
        let result = format!("{function}()");
        // A module with a constant name is known.
        if args.first().and_then(constant_string).is_some() {
            self.check_single_reference(range, &result, Some(&function));
        } else {
            self.check_reference(range, &result, Some(&function));
        }
        self.check_restricted_use(range, &result);
        self.check_stack_call(range, call, &function);
        self.check_reader(range, call, &function);
        self.check_attribute_position(range, call, &function);
        self.check_frame_handler(call, &function);
        self.check_table_change(range, call, &function);
        self.check_registration(range, call, &function);
        let (first, second) = (args.first(), args.get(1));
        let is = |names: &[String]| names.contains(&function);
        self.record_hits_where(range, |rule| {
            let position = rule.enabled_positions.get(&function);
            position.and_then(|at| args.get(*at)).is_some_and(|value| !is_false(value))
        });
        if matches!(function.as_str(), "pkgutil.resolve_name" | "pydoc.locate")
            && let Some(name) = first.and_then(constant_string)
        {
            self.check_reference(range, &named_object(&name), None);
        }
        for rule in self.rules.find_rules(|rule| is(&rule.dynamic)) {
            self.check_dynamic_code(rule, range, (function.as_str(), first, second));
        }
        if first.and_then(constant_string).is_some() {
            self.record_hits_where(range, |rule| is(&rule.decoders));
        }
        let named = match function.as_str() {
            "builtins.getattr" | "builtins.setattr" => second,
            "builtins.__import__" | "importlib.import_module" => first,
            _ => None,
        };
        if named.is_some_and(|name| !is_literal(name) && constant_string(name).is_some()) {
            self.record_hits_where(range, |rule| rule.joined_names);
        }
        let importing = self.rules.find_rules(|rule| is(&rule.importers));
        if !importing.is_empty() && first.is_some_and(|module| self.names_test_module(module)) {
            importing.into_iter().for_each(|rule| self.record_hit(rule, range));
        }
        let last = function.rsplit('.').next().unwrap_or(&function);
        if let (Some(base), Some(name)) = (first, second)
            && matches!(last, "setattr" | "delattr" | "__setattr__" | "__delattr__")
        {
            match constant_string(name) {
                Some(name) => {
                    self.check_attribute_assignment(range, base, &name);
                    if let Some(value) = args.get(2) {
                        self.check_given_method(range, &name, value);
                    }
                }
                None if self
                    .names
                    .dotted_path(base)
                    .is_some_and(|path| self.names.is_foreign(&path)) =>
                {
                    self.record_hits_where(range, |rule| rule.foreign);
                }
                None => {}
            }
        }
        if let (Some(of), Some(name)) = (first, second.and_then(constant_string))
            && last == "__getattribute__"
            && !is_self(of)
        {
            self.record_hits_where(range, |rule| rule.taken.contains(&name));
        }
        let changes =
            ["pop", "update", "setdefault", "__setitem__", "__delitem__", "clear", "popitem"];
        if function.strip_prefix("sys.modules.") == Some(last) && changes.contains(&last) {
            self.check_module_table(range, first);
        }
        if matches!(function.as_str(), "builtins.isinstance" | "builtins.issubclass") {
            let classes = match second {
                Some(Expr::Tuple(tuple)) => tuple.elts.as_slice(),
                class => class.map(std::slice::from_ref).unwrap_or_default(),
            };
            self.compared_ranges.extend(classes.iter().map(Ranged::range));
        }
        if function == "builtins.type" && args.len() == 1 && first.is_some_and(is_code) {
            self.record_hits_where(range, |rule| !rule.type_checks.is_empty());
        }
        if function == "builtins.type" && args.len() == 3 {
            args.get(2).into_iter().for_each(|namespace| self.check_namespace(namespace));
        }
        if let (Some(of), Some(name)) = (first, second.and_then(constant_string))
            && function == "builtins.getattr"
        {
            self.check_attribute_name(range, &name);
            let is_own = is_self(of);
            let of = self.names.dotted_path(of);
            if !is_own {
                let path = of.as_ref().map(|of| format!("{of}.{name}"));
                self.check_unique_name(range, &name, path.as_deref());
            }
            if let Some(of) = of {
                self.check_reference(range, &format!("{of}.{name}"), Some(&of));
                self.check_foreign_attribute(range, &of, &name);
            }
        }
        // `vars(it)` is `it.__dict__`. An entry with a constant name is checked as an attribute.
        if function == "builtins.vars"
            && self.entered_range != Some(range)
            && let Some(of) = first.and_then(|of| self.names.dotted_path(of))
        {
            self.check_reference(range, &format!("{of}.__dict__"), Some(&of));
            self.check_foreign_attribute(range, &of, "__dict__");
        }
        if PATH_FUNCTIONS.contains(&last) {
            for text in args.iter().filter_map(constant_string) {
                if self.rules.is_test_name(&text) {
                    self.record_hits_as(range, &text, |rule| rule.test_paths);
                }
            }
        }
    }

    /// Checks a string that is run as code. A constant string is checked like the rest of the file.
    pub(super) fn check_dynamic_code(
        &mut self,
        rule: usize,
        range: TextRange,
        (function, text, mode): (&str, Option<&Expr>, Option<&Expr>),
    ) {
        let Some(text) = text.and_then(constant_string) else {
            return self.record_hit(rule, range);
        };
        if function == "builtins.compile" && mode.is_none() {
            return;
        }
        let text = text.trim();
        if self.depth > self.max_depth() || nests_too_deeply(text, &self.rules.table.limits) {
            return self.record_hit(rule, range);
        }
        let parsed = parse(text);
        if !parsed.has_valid_syntax() {
            return self.record_hit(rule, range);
        }
        self.check_inner_code(range, text, &parsed.syntax().body);
    }

    /// Checks code inside a string like the rest of the file.
    pub(super) fn check_inner_code(&mut self, range: TextRange, text: &str, body: &[Stmt]) {
        let mut inner = Walker {
            line: Some(self.line_number(range)),
            depth: self.depth + 1,
            ..Walker::new(self.rules, text, self.names.clone())
        };
        inner.walk_module(body);
        self.is_too_deep |= inner.is_too_deep;
        self.hits.append(&mut inner.hits);
    }
}

/// Whether an expression is the literal `False`.
fn is_false(expr: &Expr) -> bool {
    matches!(expr, Expr::BooleanLiteral(literal) if !literal.value)
}

/// Returns the last component of a called function's name.
pub(super) fn called_name(function: &Expr) -> &str {
    match function {
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        Expr::Name(name) => name.id.as_str(),
        _ => "",
    }
}
