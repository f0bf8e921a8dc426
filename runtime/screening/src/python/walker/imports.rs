//! Checks imports.

use ruff_python_ast::{Expr, StmtImport, StmtImportFrom};
use ruff_text_size::{Ranged, TextRange};

use super::Walker;
use crate::{
    python::{
        constant::{constant_prefix, constant_string, constant_template},
        names::top_level_name,
    },
    rules::Rule,
};

impl Walker<'_> {
    pub(super) fn check_imported_module(&mut self, range: TextRange, module: &str) {
        let first = top_level_name(module);
        if !self.names.owns_package(first) {
            let is_below = |known: &String| {
                module
                    .strip_prefix(known.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let is_it = |rule: &Rule| rule.imports.iter().any(is_below);
            self.record_hits_as(range, &format!("import {first}"), is_it);
        }
        if self.is_test_import(module) {
            self.record_hits_where(range, |rule| rule.test_imports);
        }
    }

    /// Whether an expression evaluates to the name of a test module, or to a string that starts
    /// like one.
    pub(super) fn names_test_module(&self, name: &Expr) -> bool {
        match constant_string(name) {
            Some(name) => self.is_test_import(&name),
            // `x` stands for the rest of the name.
            None => {
                constant_prefix(name).is_some_and(|begun| self.is_test_import(&format!("{begun}x")))
                    || self.names_test_object(&constant_template(name))
            }
        }
    }

    /// Whether a string such as `{}:test_{}` names an object of a test after a colon. `{}` stands
    /// for a part that is not constant.
    fn names_test_object(&self, template: &str) -> bool {
        let object = template.split_once(':').map(|(_, object)| object.replace("{}", "x"));
        let mut parts = object.iter().flat_map(|object| object.split('.'));
        parts.any(|part| self.rules.is_test_module(part))
    }

    /// Whether importing this name imports a test module. A colon separates the module from a name
    /// in it.
    pub(super) fn is_test_import(&self, module: &str) -> bool {
        let mut parts = module.split(['.', ':']);
        let first = parts.next().unwrap_or(module);
        if first.is_empty() || self.names.owns_package(first) {
            return parts.any(|part| self.rules.is_test_module(part));
        }
        // `test` is a package of the standard library.
        first != "test" && self.rules.is_test_module(first)
    }

    pub(super) fn check_import(&mut self, import: &StmtImport, range: TextRange) {
        for alias in &import.names {
            let module = alias.name.as_str();
            self.check_look_alike(alias.name.range(), module);
            self.check_imported_module(range, module);
            self.check_reference(range, module, None);
            if self.names.is_in_class() && self.names.is_foreign(module) {
                self.record_hits_as(range, module, |rule| rule.passed_modules);
            }
        }
    }

    pub(super) fn check_import_from(&mut self, import: &StmtImportFrom, range: TextRange) {
        let module = import.module.as_ref().map(|module| module.as_str()).unwrap_or_default();
        let names = || import.names.iter().map(|alias| alias.name.as_str());
        if import.level > 0 {
            let is_test = |name: &str| !name.is_empty() && self.rules.is_test_module(name);
            if module.split('.').any(is_test) || (module.is_empty() && names().any(is_test)) {
                self.record_hits_where(range, |rule| rule.test_imports);
            }
            names().for_each(|name| self.check_unique_name(range, name, None));
            return;
        }
        if let Some(module) = &import.module {
            self.check_look_alike(module.range(), module.as_str());
        }
        for alias in &import.names {
            self.check_look_alike(alias.name.range(), alias.name.as_str());
        }
        self.check_imported_module(range, module);
        self.check_reference(range, module, None);
        let mut bound =
            import.names.iter().map(|alias| alias.asname.as_ref().unwrap_or(&alias.name));
        if bound.all(|name| self.names.keeps_meaning(name.as_str())) {
            self.compared_ranges.insert(range);
        }
        for name in names() {
            if name == "*" {
                if self.rules.has_references_below(module) {
                    self.record_hits_where(range, |rule| rule.joined_names);
                }
            } else {
                let path = format!("{module}.{name}");
                self.check_reference(range, &path, Some(module));
                self.check_unique_name(range, name, Some(&path));
            }
        }
    }
}
