//! Finds the names that a scope binds, and what they refer to.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprContext, Identifier, Stmt,
    visitor::{self, Visitor},
};

use super::{NameTable, Scope, ScopeCode, ScopeKind, top_level_name};
use crate::python::shapes::collect_statements;

/// Collects the names that are bound in one scope.
pub(super) struct NameBinder<'n, 'a> {
    names: &'n mut NameTable<'a>,
    depth: usize,
}

impl<'n, 'a> NameBinder<'n, 'a> {
    pub(super) fn new(names: &'n mut NameTable<'a>) -> Self {
        Self { names, depth: 0 }
    }
}

impl<'b> Visitor<'b> for NameBinder<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'b Stmt) {
        if self.depth > self.names.rules.table.limits.depth {
            return;
        }
        match stmt {
            Stmt::FunctionDef(def) => {
                self.bind_globals(&def.body);
                return self.names.bind(def.name.as_str());
            }
            Stmt::ClassDef(def) => {
                self.bind_globals(&def.body);
                return self.names.bind(def.name.as_str());
            }
            Stmt::Global(declared) => self.declare(&declared.names),
            Stmt::Nonlocal(declared) => self.declare(&declared.names),
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    let name =
                        alias.asname.as_ref().map_or(top_level_name(module), |name| name.as_str());
                    if let Some(scope) = self.names.scopes.last_mut() {
                        scope.module_names.insert(name.to_owned());
                    }
                    match &alias.asname {
                        Some(name) => self.names.add_alias(name.as_str(), module.to_owned()),
                        None => self
                            .names
                            .add_alias(top_level_name(module), top_level_name(module).to_owned()),
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map(|module| module.as_str());
                let module = module.unwrap_or_default();
                // A relative import refers to the repository's own code.
                let dot = if import.level > 0 { "." } else { "" };
                let of = format!("{dot}{module}");
                for alias in &import.names {
                    if alias.name.as_str() == "*" {
                        self.names.alias_all_exports(&of);
                        continue;
                    }
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let export = self.names.find_export(&of, alias.name.as_str());
                    let path = self.names.attribute_path(&of, alias.name.as_str());
                    let is_carried = self.names.rules.table.carried_modules.contains(&path);
                    if (is_carried || export.is_some_and(|export| export.is_module))
                        && let Some(scope) = self.names.scopes.last_mut()
                    {
                        scope.module_names.insert(name.to_owned());
                    }
                    self.names.add_alias(name, path);
                }
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.names.alias_target(target, &assign.value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.names.alias_target(&assign.target, value);
                }
            }
            Stmt::For(each) => self.names.alias_each(&each.target, &each.iter),
            // A context manager mostly returns itself.
            Stmt::With(with) => {
                for item in &with.items {
                    if let Some(target) = &item.optional_vars {
                        self.names.alias_target(target, &item.context_expr);
                    }
                }
            }
            Stmt::Match(choice) => {
                for case in &choice.cases {
                    self.names.alias_match(&case.pattern, &choice.subject);
                }
            }
            _ => {}
        }
        self.depth += 1;
        visitor::walk_stmt(self, stmt);
        self.depth -= 1;
    }

    fn visit_expr(&mut self, expr: &'b Expr) {
        if self.depth > self.names.rules.table.limits.depth {
            return;
        }
        match expr {
            Expr::Lambda(_) => return,
            Expr::Named(named) => self.names.alias_target(&named.target, &named.value),
            Expr::Name(name) if matches!(name.ctx, ExprContext::Store | ExprContext::Del) => {
                self.names.bind(name.id.as_str());
            }
            _ => {}
        }
        self.depth += 1;
        visitor::walk_expr(self, expr);
        self.depth -= 1;
    }

    fn visit_comprehension(&mut self, comprehension: &'b Comprehension) {
        self.names.alias_each(&comprehension.target, &comprehension.iter);
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_except_handler(&mut self, except_handler: &'b ExceptHandler) {
        let ExceptHandler::ExceptHandler(handler) = except_handler;
        if let Some(name) = &handler.name {
            self.names.bind(name.as_str());
        }
        visitor::walk_except_handler(self, except_handler);
    }
}

impl NameBinder<'_, '_> {
    /// Binds module-level names that functions in the module declare `global`.
    fn bind_globals(&mut self, body: &[Stmt]) {
        let is_module =
            self.names.scopes.last().is_some_and(|scope| scope.kind == ScopeKind::Module);
        if is_module {
            let depth = self.names.rules.table.limits.depth;
            self.bind_globals_below(body, depth);
        }
    }

    fn bind_globals_below(&mut self, body: &[Stmt], depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let mut all = Vec::new();
        collect_statements(body, depth, &mut all);
        let mut declared: BTreeSet<&str> = BTreeSet::new();
        for stmt in &all {
            if let Stmt::Global(global) = stmt {
                declared.extend(global.names.iter().map(|name| name.as_str()));
            }
        }
        if !declared.is_empty() {
            self.names.enter_scope(ScopeKind::Function, None, &ScopeCode::Body(body));
            let scope = self.names.scopes.pop();
            let Some(Scope { mut aliases, module_names: modules, .. }) = scope else { return };
            for name in declared {
                if let Some(path) = aliases.remove(name) {
                    self.names.add_alias(name, path);
                }
                if modules.contains(name)
                    && let Some(scope) = self.names.scopes.last_mut()
                {
                    scope.module_names.insert(name.to_owned());
                }
            }
        }
        for stmt in all {
            match stmt {
                Stmt::FunctionDef(def) => self.bind_globals_below(&def.body, depth),
                Stmt::ClassDef(def) => self.bind_globals_below(&def.body, depth),
                _ => {}
            }
        }
    }

    fn declare(&mut self, names: &[Identifier]) {
        if let Some(scope) = self.names.scopes.last_mut() {
            scope.outer_names.extend(names.iter().map(|name| name.as_str().to_owned()));
        }
    }
}
