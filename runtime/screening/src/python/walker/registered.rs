//! Checks classes that code registers as subclasses of an interface, such as
//! `Mapping.register(Table)`. `isinstance` then accepts them although they may implement nothing.

use std::collections::BTreeSet;

use ruff_python_ast::{Expr, ExprCall, Stmt, StmtClassDef};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;

/// Maximum number of classes through which base classes are followed.
const MAX_BASES: usize = 8;

/// Dotted name of a base class that implements no interface.
const PLAIN_BASE: &str = "builtins.object";

impl Walker<'_> {
    /// Checks a call such as `Mapping.register(Table)`.
    pub(super) fn check_registration(&mut self, range: TextRange, call: &ExprCall, function: &str) {
        let Some(interface) = function.strip_suffix(".register") else { return };
        let Some(class) = call.arguments.args.first() else { return };
        let is_builtin =
            self.names.dotted_path(class).is_some_and(|path| path.starts_with("builtins."));
        let class = match class {
            Expr::Name(name) => self.definitions.class(name.id.as_str()),
            _ => None,
        };
        match class {
            Some(class) => self.check_registered_class(range, class, interface),
            // The types of the language implement what they can already.
            None if is_builtin => self.record_registration(range, interface),
            None => {}
        }
    }

    /// Checks decorators such as `@Mapping.register`.
    pub(super) fn check_registering_decorators(&mut self, class: &StmtClassDef) {
        for decorator in &class.decorator_list {
            let path = self.names.dotted_path(&decorator.expression);
            if let Some(interface) = path.as_deref().and_then(|it| it.strip_suffix(".register")) {
                self.check_registered_class(decorator.expression.range(), class, interface);
            }
        }
    }

    fn check_registered_class(&mut self, range: TextRange, class: &StmtClassDef, interface: &str) {
        let mut methods = BTreeSet::new();
        if !self.collect_methods(class, MAX_BASES, &mut methods) {
            return;
        }
        let rules = self.rules.table.rules.iter();
        let mut required = rules.filter_map(|rule| rule.abstract_methods.get(interface)).flatten();
        if required.any(|name| !methods.contains(name)) {
            self.record_registration(range, interface);
        }
    }

    fn record_registration(&mut self, range: TextRange, interface: &str) {
        self.record_hits_as(range, &format!("{interface}.register"), |rule| {
            rule.abstract_methods.contains_key(interface)
        });
    }

    /// Collects the names that a class and its bases define. Returns false if a base is unknown.
    fn collect_methods(
        &self,
        class: &StmtClassDef,
        bases: usize,
        output: &mut BTreeSet<String>,
    ) -> bool {
        let Some(bases) = bases.checked_sub(1) else { return false };
        for stmt in &class.body {
            match stmt {
                Stmt::FunctionDef(def) => {
                    output.insert(def.name.as_str().to_owned());
                }
                Stmt::Assign(assign) => {
                    output.extend(assign.targets.iter().filter_map(|target| match target {
                        Expr::Name(name) => Some(name.id.as_str().to_owned()),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        class.bases().iter().all(|base| {
            if self.names.dotted_path(base).is_some_and(|path| path == PLAIN_BASE) {
                return true;
            }
            let class = match base {
                Expr::Name(name) => self.definitions.class(name.id.as_str()),
                _ => None,
            };
            class.is_some_and(|class| self.collect_methods(class, bases, output))
        })
    }
}
