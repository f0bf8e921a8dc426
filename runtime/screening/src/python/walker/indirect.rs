//! Checks functions that read arbitrary attributes of objects, if a library calls them or if they
//! read from the owner of a method. The recorder attributes such a read to the library.

use ruff_python_ast::{Arguments, Expr, ExprCall};
use ruff_text_size::TextRange;

use super::{Walker, assignments::is_self};
use crate::{
    python::{constant::constant_string, shapes::used_names_and_attributes},
    rules::Rule,
};

impl Walker<'_> {
    /// Checks a function that code may only call by name, not pass on.
    pub(super) fn check_passed_function(&mut self, range: TextRange, path: &str) {
        let is_used_openly = self.called_ranges.contains(&range)
            || self.allowed_ranges.contains(&range)
            || self.compared_ranges.contains(&range);
        if !is_used_openly {
            let is_it = |rule: &Rule| rule.called_only.iter().any(|it| it == path);
            self.record_hits_as(range, path, is_it);
        }
    }

    /// Remembers that a name refers to an owner: the object that a method belongs to, or the
    /// traceback of an exception.
    pub(super) fn remember_owner(&mut self, target: &Expr, value: &Expr) {
        if let Expr::Name(name) = target
            && self.is_owner_attribute(value)
        {
            self.owner_names.insert(name.id.as_str().to_owned());
        }
    }

    /// Whether an expression is an owner.
    pub(super) fn is_owner(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Name(name) => self.owner_names.contains(name.id.as_str()),
            expr => self.is_owner_attribute(expr),
        }
    }

    fn is_owner_attribute(&self, expr: &Expr) -> bool {
        let Expr::Attribute(attribute) = expr else { return false };
        let name = attribute.attr.as_str();
        let mut rules = self.rules.table.rules.iter();
        rules.any(|rule| rule.owner_attributes.iter().any(|it| it == name))
            && !is_self(&attribute.value)
    }

    /// Checks a call that reads attributes.
    pub(super) fn check_reader(&mut self, range: TextRange, call: &ExprCall, function: &str) {
        let Arguments { args, .. } = &call.arguments;
        let is = |names: &[String]| names.iter().any(|it| it == function);
        let of = args.first();
        let is_computed = function == "builtins.getattr"
            && args.get(1).is_some_and(|name| constant_string(name).is_none());
        if of.is_some_and(|of| self.is_owner(of)) {
            self.record_hits_as(range, &format!("{function}(owner)"), |rule| {
                is(&rule.member_tables) || (is_computed && !rule.member_tables.is_empty())
            });
        }
        for number in self.rules.find_rules(|rule| is(&rule.member_readers)) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let is_open = of.is_some_and(|of| self.is_class_or_module(of))
                || call
                    .arguments
                    .find_argument_value("predicate", 1)
                    .is_some_and(|predicate| names_kind(rule, predicate, self.max_depth()));
            if !is_open {
                self.record_hit_as(number, range, format!("{function}()"));
            }
        }
        for number in self.rules.find_rules(|rule| is(&rule.attribute_getters)) {
            let Some(rule) = self.rules.table.rules.get(number) else { continue };
            let names = args.iter().filter_map(constant_string);
            let special = names.filter(|name| {
                let is_hidden = |part: &str| {
                    part.starts_with("__")
                        && part.ends_with("__")
                        && !rule.plain_attributes.iter().any(|it| it == part)
                };
                name.split('.').any(is_hidden)
            });
            for name in special.collect::<Vec<_>>() {
                self.record_hit_as(number, range, name);
            }
        }
    }

    /// Whether an expression is `self`, a class or a module.
    fn is_class_or_module(&self, expr: &Expr) -> bool {
        if is_self(expr) {
            return true;
        }
        match expr {
            Expr::Name(name) => {
                let name = name.id.as_str();
                self.names.is_module(name)
                    || self.defined_classes.contains(name)
                    || self.names.dotted_path(expr).is_some_and(|path| !path.contains(['(', '[']))
            }
            Expr::Attribute(attribute) => attribute.attr.as_str() == "__class__",
            Expr::Call(call) => matches!(&*call.func, Expr::Name(it) if it.id.as_str() == "type"),
            Expr::Subscript(_) => {
                self.names.dotted_path(expr).is_some_and(|path| path == "sys.modules[]")
            }
            _ => false,
        }
    }
}

/// Whether a predicate selects members by a kind such as `inspect.isclass`.
fn names_kind(rule: &Rule, predicate: &Expr, depth: usize) -> bool {
    let names = used_names_and_attributes(predicate, depth);
    rule.member_kinds.iter().any(|kind| names.contains(kind.as_str()))
}
