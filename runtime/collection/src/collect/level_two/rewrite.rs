//! Rewrites a test file to import from `agent_code`, as in FeatureBench's level 2.
//!
//! Only names in import statements and attributes of imported modules are changed. The number of
//! lines stays the same.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Alias, Expr, Stmt, StmtImportFrom,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::module_names::{TopLevelName, imported_module};
use crate::carve::dotted_name;

/// Name of the package that the agent must write.
pub(super) const AGENT_PACKAGE: &str = "agent_code";

/// A rewritten test file, with the names that it imports from `agent_code`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RewrittenTest {
    pub(super) text: String,
    pub(super) requested: BTreeSet<TopLevelName>,
}

/// Rewrites a test file so that it imports `redirected_names` from `agent_code`. Relative imports
/// are resolved against `own_module`, the test file's dotted module name.
///
/// # Errors
/// Returns a sentence that says why the file cannot be rewritten.
pub(super) fn rewrite_test_file(
    text: &str,
    own_module: &str,
    redirected_names: &BTreeSet<TopLevelName>,
) -> Result<RewrittenTest, String> {
    let mut by_name: BTreeMap<&str, &TopLevelName> = BTreeMap::new();
    for owner in redirected_names {
        if let Some(other) = by_name.insert(&owner.name, owner) {
            return Err(format!(
                "{} and {} both have a {}, but {AGENT_PACKAGE} can only have one",
                other.module, owner.module, owner.name
            ));
        }
    }
    let parsed =
        parse_module(text).map_err(|error| format!("cannot parse the test file: {error}"))?;
    let mut rewriter = Rewriter { own_module, top_level_by_name: by_name, ..Rewriter::default() };
    // Collect the imports first, because a function may use a name that is imported further down.
    let mut imports = ImportCollector(Vec::new());
    parsed.syntax().body.iter().for_each(|stmt| imports.visit_stmt(stmt));
    for stmt in &imports.0 {
        rewriter.record_import(text, stmt);
    }
    parsed.syntax().body.iter().for_each(|stmt| rewriter.visit_stmt(stmt));
    let used = std::mem::take(&mut rewriter.used_modules);
    for (local, end) in &rewriter.import_ends {
        if used.contains(local) {
            rewriter.edits.push((*end..*end, format!("; import {AGENT_PACKAGE}")));
        }
    }
    if rewriter.requested.is_empty() {
        return Err("the tests do not import what they test".to_owned());
    }
    let mut out = text.to_owned();
    rewriter.edits.sort_by_key(|(span, _)| (span.start, span.end));
    for (span, new) in rewriter.edits.iter().rev() {
        out.replace_range(span.clone(), new);
    }
    if out.lines().count() != text.lines().count() || parse_module(&out).is_err() {
        return Err("the file's imports cannot be rewritten line by line".to_owned());
    }
    Ok(RewrittenTest { text: out, requested: rewriter.requested.into_iter().cloned().collect() })
}

/// Collects all import statements, including those inside functions.
struct ImportCollector<'a>(Vec<&'a Stmt>);

impl<'a> Visitor<'a> for ImportCollector<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.0.push(stmt),
            _ => visitor::walk_stmt(self, stmt),
        }
    }
}

type Span = std::ops::Range<usize>;

#[derive(Default)]
struct Rewriter<'a> {
    own_module: &'a str,
    top_level_by_name: BTreeMap<&'a str, &'a TopLevelName>,
    /// The module that each local name refers to. `import a.b` is recorded under the name `a.b`.
    modules_by_local_name: BTreeMap<String, String>,
    /// The end offset of the import statement that binds each local name.
    import_ends: BTreeMap<String, usize>,
    /// Local names of the modules whose attributes the file uses.
    used_modules: BTreeSet<String>,
    requested: BTreeSet<&'a TopLevelName>,
    edits: Vec<(Span, String)>,
}

impl<'a> Rewriter<'a> {
    fn record_import(&mut self, text: &str, stmt: &Stmt) {
        let end = stmt.end().to_usize();
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
                    self.import_ends.insert(local.clone(), end);
                    self.modules_by_local_name.insert(local, alias.name.to_string());
                }
            }
            Stmt::ImportFrom(import) => self.rewrite_import_from(text, import),
            _ => {}
        }
    }

    fn rewrite_import_from(&mut self, text: &str, import: &StmtImportFrom) {
        let module = &*imported_module(import, self.own_module, false);
        let span = import.start().to_usize()..import.end().to_usize();
        let (mut stay, mut go): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for alias in &import.names {
            let alias_text = alias_source(alias);
            if &*alias.name == "*" {
                let names: Vec<&'a TopLevelName> = self
                    .top_level_by_name
                    .values()
                    .copied()
                    .filter(|it| is_importable_from(&it.module, module))
                    .collect();
                go.extend(names.iter().map(|owner| owner.name.clone()));
                self.requested.extend(names);
                stay.push(alias_text);
                continue;
            }
            let owner = self.top_level_by_name.get(&*alias.name).copied();
            match owner.filter(|owner| is_importable_from(&owner.module, module)) {
                Some(owner) => {
                    self.requested.insert(owner);
                    go.push(alias_text);
                }
                None => {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
                    self.import_ends.insert(local.clone(), span.end);
                    self.modules_by_local_name.insert(local, format!("{module}.{}", &alias.name));
                    stay.push(alias_text);
                }
            }
        }
        if go.is_empty() {
            return;
        }
        let requested = format!("from {AGENT_PACKAGE} import {}", go.join(", "));
        let lines = "\n".repeat(text[span.clone()].matches('\n').count());
        let new = match stay.is_empty() {
            true => requested,
            false => {
                format!("from {} import {}; {requested}", module_source(import), stay.join(", "))
            }
        };
        // Append newlines, so that the number of lines stays the same.
        self.edits.push((span, new + &lines));
    }
}

/// Returns the module of an import as it is written, with leading dots.
fn module_source(import: &StmtImportFrom) -> String {
    let module = import.module.as_deref().unwrap_or_default();
    format!("{}{module}", ".".repeat(import.level as usize))
}

fn alias_source(alias: &Alias) -> String {
    match &alias.asname {
        Some(local) => format!("{} as {local}", &alias.name),
        None => alias.name.to_string(),
    }
}

impl<'a> Visitor<'a> for Rewriter<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Attribute(attribute) = expr
            && let Some(local) = dotted_name(&attribute.value)
            && let Some(module) = self.resolve_module(&local)
            && let Some(owner) = self.top_level_by_name.get(&*attribute.attr).copied()
            && is_importable_from(&owner.module, &module)
        {
            self.requested.insert(owner);
            let first = local.split('.').next().unwrap_or(&local).to_owned();
            let binder = if self.import_ends.contains_key(&local) { local } else { first };
            self.used_modules.insert(self.binding_import(binder));
            let span = expr.start().to_usize()..expr.end().to_usize();
            self.edits.push((span, format!("{AGENT_PACKAGE}.{}", owner.name)));
            return;
        }
        visitor::walk_expr(self, expr);
    }
}

impl Rewriter<'_> {
    /// Returns the module that a dotted name refers to, according to the imports.
    fn resolve_module(&self, local: &str) -> Option<String> {
        if let Some(module) = self.modules_by_local_name.get(local) {
            return Some(module.clone());
        }
        // `import a.b` binds `a`, but is recorded under `a.b`.
        let first = local.split('.').next().unwrap_or(local);
        if let Some(module) = self.modules_by_local_name.get(first) {
            return Some(local.replacen(first, module, 1));
        }
        let is_bound = |name: &String| name.starts_with(&format!("{first}."));
        self.modules_by_local_name.keys().any(is_bound).then(|| local.to_owned())
    }

    /// Returns the key of the import that binds a name. `import a.b` binds `a`.
    fn binding_import(&self, name: String) -> String {
        if self.import_ends.contains_key(&name) {
            return name;
        }
        let below = format!("{name}.");
        let found = self.import_ends.keys().find(|key| key.starts_with(&below));
        found.cloned().unwrap_or(name)
    }
}

/// Whether an object of `module` can be imported from `source`: either from the module itself, or
/// from a parent package, which may re-export the object.
fn is_importable_from(module: &str, source: &str) -> bool {
    module == source || module.strip_prefix(source).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top_level_names(list: &[(&str, &str)]) -> BTreeSet<TopLevelName> {
        let owner = |(module, name): &(&str, &str)| TopLevelName {
            module: (*module).to_owned(),
            name: (*name).to_owned(),
        };
        list.iter().map(owner).collect()
    }

    #[test]
    fn rewrite_redirects_imports_and_keeps_line_numbers() {
        let text = "\
from __future__ import annotations
from pkg.m import (
    idle,
    parse as p,  # note
    Tree,
)
from pkg import other, Tree as T
import pkg.m as m, os
import pkg.deep.n
import pkg

CASES = [m.parse, m.idle, pkg.deep.n.walk]

class Sub(pkg.Tree):
    def test(self):
        from pkg.m import parse
        text = 'm.parse'
        return other.parse, m.Tree.make(), parse(p)
";
        let owners =
            top_level_names(&[("pkg.m", "parse"), ("pkg.m", "Tree"), ("pkg.deep.n", "walk")]);
        let out = rewrite_test_file(text, "tests.test_m", &owners).unwrap();
        assert_eq!(
            out.text,
            "\
from __future__ import annotations
from pkg.m import idle; from agent_code import parse as p, Tree




from pkg import other; from agent_code import Tree as T
import pkg.m as m, os; import agent_code
import pkg.deep.n; import agent_code
import pkg; import agent_code

CASES = [agent_code.parse, m.idle, agent_code.walk]

class Sub(agent_code.Tree):
    def test(self):
        from agent_code import parse
        text = 'm.parse'
        return other.parse, agent_code.Tree.make(), parse(p)
"
        );
        assert_eq!(out.requested, owners);
    }

    #[test]
    fn rewrite_resolves_relative_imports_against_the_test_package() {
        let text = "\
from . import m, test_help
from .m import idle, parse
from ..pkg import Tree
from .deep import n

assert m.parse, n.walk
";
        let owners =
            top_level_names(&[("pkg.m", "parse"), ("pkg.m", "Tree"), ("pkg.deep.n", "walk")]);
        let out = rewrite_test_file(text, "pkg.test_m", &owners).unwrap();
        assert_eq!(
            out.text,
            "\
from . import m, test_help; import agent_code
from .m import idle; from agent_code import parse
from agent_code import Tree
from .deep import n; import agent_code

assert agent_code.parse, agent_code.walk
"
        );
        let beside =
            rewrite_test_file("from .m import parse\n", "tests.test_m", &owners).unwrap_err();
        assert!(beside.contains("do not import"), "{beside}");
    }

    #[test]
    fn rewrite_returns_the_reason_for_a_failure() {
        let one = top_level_names(&[("pkg.m", "parse")]);
        let two = top_level_names(&[("pkg.m", "parse"), ("pkg.n", "parse")]);
        let told =
            |text: &str, owners| rewrite_test_file(text, "tests.test_m", owners).unwrap_err();
        assert!(told("from pkg.m import parse\n", &two).contains("both have a parse"));
        assert!(told("import pkg.n\npkg.n.parse\n", &one).contains("do not import"));
        assert!(told("def f(:\n", &one).contains("cannot parse the test file"));
        let split = "import pkg.m as m\nx = (m\n     .parse)\n";
        assert!(told(split, &one).contains("line by line"));
        let star =
            rewrite_test_file("from pkg.m import *\nparse(1)\n", "tests.test_m", &one).unwrap();
        assert_eq!(star.text, "from pkg.m import *; from agent_code import parse\nparse(1)\n");
    }
}
