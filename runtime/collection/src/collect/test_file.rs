//! Determines which objects a test file probably tests, from the names that it imports and uses and
//! from the names in its assertions.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Expr, Stmt,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;

use crate::carve::dotted_name;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TestFile {
    /// The module and name of each imported object that the file uses, including attributes of
    /// imported modules.
    pub(super) used_objects: BTreeSet<(String, String)>,
    /// Names whose values an assertion checks. Only the last component of a dotted name is kept.
    pub(super) asserted_names: BTreeSet<String>,
    /// Names of attributes that the file accesses on any object.
    pub(super) attributes: BTreeSet<String>,
}

impl TestFile {
    /// Reads a file. The result is empty if the file cannot be parsed.
    pub(super) fn read(text: &str) -> Self {
        let Ok(parsed) = parse_module(text) else { return Self::default() };
        let mut names = NameCollector::default();
        for stmt in &parsed.syntax().body {
            names.visit_stmt(stmt);
        }
        let mut used = BTreeSet::new();
        for name in &names.loaded_names {
            if let Some((module, inner)) = names.imports.get(name) {
                used.extend(inner.clone().map(|inner| (module.clone(), inner)));
            }
        }
        for (owner, attribute) in &names.attributes {
            if let Some((module, inner)) = names.imports.get(owner) {
                let module = match inner {
                    Some(inner) => format!("{module}.{inner}"),
                    None => module.clone(),
                };
                used.insert((module, attribute.clone()));
            }
        }
        Self {
            used_objects: used,
            asserted_names: names.asserted_names,
            attributes: names.attribute_names,
        }
    }
}

#[derive(Default)]
struct NameCollector {
    /// The module and name that each local name refers to.
    imports: BTreeMap<String, (String, Option<String>)>,
    loaded_names: BTreeSet<String>,
    attributes: BTreeSet<(String, String)>,
    asserted_names: BTreeSet<String>,
    attribute_names: BTreeSet<String>,
}

impl<'a> Visitor<'a> for NameCollector {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let (local, module) = match &alias.asname {
                        Some(local) => (local.to_string(), alias.name.to_string()),
                        // `import a.b` binds `a`, but looking up the attributes of `a.b.c` requires
                        // the key `a.b`.
                        None => (alias.name.to_string(), alias.name.to_string()),
                    };
                    self.imports.insert(local, (module, None));
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_deref().unwrap_or_default();
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
                    self.imports.insert(local, (module.to_owned(), Some(alias.name.to_string())));
                }
            }
            Stmt::FunctionDef(def) => {
                let mut flow = AssertionFlow::default();
                def.body.iter().for_each(|stmt| flow.visit_stmt(stmt));
                self.asserted_names.extend(flow.names());
                visitor::walk_stmt(self, stmt);
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => drop(self.loaded_names.insert(name.id.to_string())),
            Expr::Attribute(attribute) => {
                self.attribute_names.insert(attribute.attr.to_string());
                if let Some(owner) = dotted_name(&attribute.value) {
                    self.attributes.insert((owner, attribute.attr.to_string()));
                }
                visitor::walk_expr(self, expr);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

/// Determines which values in a function are checked by assertions.
#[derive(Default)]
struct AssertionFlow {
    /// Names that occur in assertions, including the names of called functions.
    asserted_names: BTreeSet<String>,
    /// Assignments: the names on the left side, then the names on the right side.
    assignments: Vec<(BTreeSet<String>, BTreeSet<String>)>,
}

impl AssertionFlow {
    fn names(mut self) -> BTreeSet<String> {
        // A value may pass through several variables before an assertion checks it.
        loop {
            let before = self.asserted_names.len();
            for (targets, values) in &self.assignments {
                if !targets.is_disjoint(&self.asserted_names) {
                    self.asserted_names.extend(values.iter().cloned());
                }
            }
            if self.asserted_names.len() == before {
                return self.asserted_names;
            }
        }
    }
}

impl<'a> Visitor<'a> for AssertionFlow {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assert(assert) => self.asserted_names.extend(names_in_expr(&assert.test)),
            Stmt::Assign(assign) => {
                let targets = assign.targets.iter().flat_map(names_in_expr).collect();
                self.assignments.push((targets, names_in_expr(&assign.value)));
            }
            Stmt::For(each) => {
                self.assignments.push((names_in_expr(&each.target), names_in_expr(&each.iter)));
            }
            Stmt::With(with) => {
                let raises = with.items.iter().any(|item| {
                    names_in_expr(&item.context_expr).iter().any(|name| is_assertion(name))
                });
                for item in &with.items {
                    if let Some(target) = &item.optional_vars {
                        self.assignments
                            .push((names_in_expr(target), names_in_expr(&item.context_expr)));
                    }
                }
                if raises {
                    let mut inner = ExprNames::default();
                    with.body.iter().for_each(|stmt| inner.visit_stmt(stmt));
                    self.asserted_names.extend(inner.0);
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr
            && names_in_expr(&call.func).iter().any(|name| is_assertion(name))
        {
            self.asserted_names.extend(names_in_expr(expr));
        }
        visitor::walk_expr(self, expr);
    }
}

fn is_assertion(name: &str) -> bool {
    name.starts_with("assert") || ["raises", "warns", "eq_", "ok_"].contains(&name)
}

/// Returns the names in an expression, including the last component of each attribute access.
fn names_in_expr(expr: &Expr) -> BTreeSet<String> {
    let mut tails = ExprNames::default();
    tails.visit_expr(expr);
    tails.0
}

#[derive(Default)]
struct ExprNames(BTreeSet<String>);

impl<'a> Visitor<'a> for ExprNames {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => drop(self.0.insert(name.id.to_string())),
            Expr::Attribute(attribute) => drop(self.0.insert(attribute.attr.to_string())),
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_reports_only_imports_that_are_used() {
        let file = TestFile::read(
            "from pkg.a import f, idle\nfrom pkg import b\nimport pkg.c\nimport pkg.d as dd\n\
             def test():\n    f(b.g, pkg.c.h, dd.k)\n",
        );
        let used: Vec<(&str, &str)> = file
            .used_objects
            .iter()
            .map(|(module, name)| (module.as_str(), name.as_str()))
            .collect();
        assert_eq!(
            used,
            [("pkg", "b"), ("pkg.a", "f"), ("pkg.b", "g"), ("pkg.c", "h"), ("pkg.d", "k")]
        );
    }

    #[test]
    fn read_follows_asserted_values_through_variables() {
        let file = TestFile::read(
            "def test():\n    x = parse(1)\n    y = x.body\n    setup()\n    assert y == 2\n    \
             with pytest.raises(E):\n        broken()\n    self.assertEqual(direct(), 1)\n    other = idle()\n",
        );
        for name in ["parse", "body", "broken", "direct"] {
            assert!(file.asserted_names.contains(name), "{name}: {:?}", file.asserted_names);
        }
        for name in ["setup", "idle"] {
            assert!(!file.asserted_names.contains(name), "{name}");
        }
    }
}
