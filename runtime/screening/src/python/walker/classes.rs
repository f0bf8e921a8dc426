//! Checks classes, the names they assign and their methods.

use ruff_python_ast::{Expr, ExprLambda, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::python::{
    constant::constant_string,
    names::top_level_name,
    shapes::{
        StatementKind, constant_truth, contains_statement, is_fabricated, returned_values,
        used_names,
    },
};

impl Walker<'_> {
    /// Checks the namespace that code passes to `type` to create a class.
    pub(super) fn check_namespace(&mut self, namespace: &Expr) {
        let Expr::Dict(dict) = namespace else { return };
        for item in &dict.items {
            let Some(key) = &item.key else { continue };
            let Some(name) = constant_string(key) else { continue };
            if name == "__module__" {
                self.check_claimed_module(&item.value);
            }
            self.record_hits_where(key.range(), |rule| rule.class_names.contains(&name));
        }
    }

    /// Checks the module that a class claims to belong to.
    pub(super) fn check_claimed_module(&mut self, value: &Expr) {
        let Some(module) = constant_string(value) else { return };
        if !self.names.owns_package(top_level_name(&module)) && module != "__main__" {
            self.record_hits_where(value.range(), |rule| rule.foreign_module);
        }
    }

    pub(super) fn check_class(&mut self, class: &StmtClassDef) {
        for stmt in &class.body {
            match stmt {
                Stmt::FunctionDef(def) => self.check_method(def.name.as_str(), def),
                Stmt::Assign(assign) => {
                    for target in &assign.targets {
                        self.check_class_assignment(stmt.range(), target, &assign.value);
                    }
                }
                Stmt::AnnAssign(assign) => {
                    if let Some(value) = &assign.value {
                        self.check_class_assignment(stmt.range(), &assign.target, value);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn check_class_assignment(&mut self, range: TextRange, target: &Expr, value: &Expr) {
        let Expr::Name(name) = target else { return };
        let name = name.id.as_str();
        if name == "__module__" {
            self.check_claimed_module(value);
        }
        let has = |names: &[String]| names.iter().any(|it| it == name);
        // `None` disables a protocol.
        if !matches!(value, Expr::NoneLiteral(_)) {
            self.record_hits_where(range, |rule| has(&rule.class_names));
        }
        self.check_given_result(range, name, value);
    }

    /// Checks a lambda that is a method with this name.
    pub(super) fn check_given_result(&mut self, range: TextRange, name: &str, value: &Expr) {
        let has = |names: &[String]| names.iter().any(|it| it == name);
        if let Expr::Lambda(ExprLambda { body, parameters, .. }) = value {
            self.record_hits_where(range, |rule| {
                let truth = constant_truth(body);
                (truth == Some(true) && (has(&rule.always_true) || has(&rule.swallows)))
                    || (truth == Some(false) && has(&rule.always_false))
                    || (is_fabricated(body, parameters.as_deref()) && has(&rule.always_answers))
            });
        }
    }

    /// Checks a function that is a method with this name.
    pub(super) fn check_method(&mut self, name: &str, def: &StmtFunctionDef) {
        let has = |names: &[String]| names.iter().any(|it| it == name);
        let most = self.max_depth();
        let values = returned_values(&def.body, most).unwrap_or_default();
        let all =
            |holds: &dyn Fn(&Expr) -> bool| !values.is_empty() && values.iter().copied().all(holds);
        let (all_true, all_false) = (
            all(&|value| constant_truth(value) == Some(true)),
            all(&|value| constant_truth(value) == Some(false)),
        );
        let answers = all(&|value| is_fabricated(value, Some(&def.parameters)))
            && !contains_statement(&def.body, StatementKind::Raise, most);
        let broken = self.rules.find_rules(|rule| {
            has(&rule.methods)
                || (all_true && has(&rule.always_true))
                || (all_false && has(&rule.always_false))
                || (answers && has(&rule.always_answers))
                || (has(&rule.swallows)
                    && self.exit_suppresses(rule, &def.body, &def.parameters, most))
        });
        for rule in broken {
            self.record_hit_as(rule, def.name.range(), format!("def {name}"));
        }
    }

    /// Checks a class of arrays that replaces a method that tests use to check whether all elements
    /// agree. A replacement that uses the inherited method is honest.
    pub(super) fn check_reductions(&mut self, class: &StmtClassDef) {
        let most = self.max_depth();
        let bases: Vec<String> =
            class.bases().iter().filter_map(|base| self.names.dotted_path(base)).collect();
        for stmt in &class.body {
            let Stmt::FunctionDef(def) = stmt else { continue };
            let name = def.name.as_str();
            if !used_names(&def.body, most).contains("super") {
                self.record_hits_as(def.name.range(), &format!("def {name}"), |rule| {
                    rule.reductions.iter().any(|it| it == name)
                        && bases.iter().any(|base| rule.reduced_classes.contains(base))
                });
            }
        }
    }
}
