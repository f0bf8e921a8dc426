//! Finds library code that a requested interface refers to but that is not requested itself:
//! constants, types and base classes. The statement shows this code, because the agent needs it to
//! write the interface.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::Path,
};

use ruff_python_ast::{
    Alias, Expr, ExprContext, Stmt,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::module_names::{TopLevelName, imported_module, module_name};
use crate::{
    carve::{StubOptions, stub_and_code, top_level_statements},
    collect::project::Project,
};

/// Values with more lines or bytes than this are replaced by `...`.
const MAX_VALUE_LINES: usize = 6;
const MAX_VALUE_BYTES: usize = 400;
/// Limits for following references: their depth, and the total size of the shown code in bytes.
/// Code that is closer to the interface is shown first.
const MAX_REFERENCE_DEPTH: usize = 2;
const MAX_CODE_BYTES: usize = 12_000;

/// Returns the names that the code uses but does not define.
fn undefined_names(code: &str) -> BTreeSet<String> {
    let mut collector = NameCollector::default();
    if let Ok(parsed) = parse_module(code) {
        parsed.syntax().body.iter().for_each(|stmt| collector.visit_stmt(stmt));
    }
    collector.loaded_names.difference(&collector.defined_names).cloned().collect()
}

#[derive(Default)]
struct NameCollector {
    loaded_names: BTreeSet<String>,
    defined_names: BTreeSet<String>,
    is_in_annotation: bool,
}

impl<'a> Visitor<'a> for NameCollector {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => drop(self.defined_names.insert(def.name.to_string())),
            Stmt::ClassDef(def) => drop(self.defined_names.insert(def.name.to_string())),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_annotation(&mut self, expr: &'a Expr) {
        self.is_in_annotation = true;
        self.visit_expr(expr);
        self.is_in_annotation = false;
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.loaded_names.insert(name.id.to_string());
            }
            // An annotation may be written as a string. Strings inside a `Literal` are not
            // annotations.
            Expr::StringLiteral(literal) if self.is_in_annotation => {
                let words =
                    literal.value.to_str().split(|c: char| !c.is_alphanumeric() && c != '_');
                self.loaded_names.extend(words.filter(|it| !it.is_empty()).map(str::to_owned));
            }
            Expr::Subscript(subscript) if is_literal(&subscript.value) => {
                self.visit_expr(&subscript.value);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Name(name) => name.id.as_str() == "Literal",
        Expr::Attribute(attribute) => attribute.attr.as_str() == "Literal",
        _ => false,
    }
}

/// The modules of a library.
struct Library<'a> {
    tree: &'a Path,
    files: BTreeMap<String, &'a String>,
    stub_options: StubOptions<'a>,
}

/// What a name in a module refers to.
enum NameTarget {
    /// The code of a definition in the module.
    Code(String),
    /// A name in another module of the library: the module, then the name.
    OtherModule(String, String),
    /// An import from outside the library: the module in `from MODULE import`, if any, then the
    /// imported name.
    Import(Option<String>, String),
}

impl Library<'_> {
    fn resolve_name(&self, module: &str, name: &str) -> Option<NameTarget> {
        let file = self.files.get(module)?;
        let text = fs::read_to_string(self.tree.join(file)).unwrap_or_default();
        let is_package = file.ends_with("/__init__.py");
        if let Some((stub, _)) = stub_and_code(&text, name, self.stub_options) {
            return Some(NameTarget::Code(stub));
        }
        let parsed = parse_module(&text).ok()?;
        top_level_statements(&parsed.syntax().body)
            .into_iter()
            .find_map(|stmt| self.resolve_in_statement(stmt, &text, name, (module, is_package)))
    }

    /// Whether a module of the library defines a name, as opposed to importing it.
    fn defines(&self, module: &str, name: &str) -> bool {
        let Some(file) = self.files.get(module) else { return false };
        let text = fs::read_to_string(self.tree.join(file)).unwrap_or_default();
        if stub_and_code(&text, name, self.stub_options).is_some() {
            return true;
        }
        let Ok(parsed) = parse_module(&text) else { return false };
        top_level_statements(&parsed.syntax().body).into_iter().any(|stmt| match stmt {
            Stmt::Assign(assign) => assign.targets.iter().any(|target| binds(target, name)),
            Stmt::AnnAssign(assign) => binds(&assign.target, name),
            _ => false,
        })
    }

    fn resolve_in_statement(
        &self,
        stmt: &Stmt,
        text: &str,
        name: &str,
        (module, is_package): (&str, bool),
    ) -> Option<NameTarget> {
        let is_it = |target: &Expr| binds(target, name);
        let whole = &text[stmt.start().to_usize()..stmt.end().to_usize()];
        match stmt {
            Stmt::Assign(assign) if assign.targets.iter().any(is_it) => {
                let head = &text[stmt.start().to_usize()..assign.value.start().to_usize()];
                Some(NameTarget::Code(shorten_assignment(whole, head)))
            }
            Stmt::AnnAssign(assign) if is_it(&assign.target) => {
                let end = assign.annotation.end().to_usize();
                Some(NameTarget::Code(shorten_assignment(
                    whole,
                    &format!("{} =", &text[stmt.start().to_usize()..end]),
                )))
            }
            Stmt::ImportFrom(import) => {
                let from = imported_module(import, module, is_package);
                let local =
                    |alias: &Alias| alias.asname.as_ref().unwrap_or(&alias.name).to_string();
                let Some(alias) = import.names.iter().find(|alias| local(alias) == name) else {
                    let is_star = import.names.iter().any(|alias| alias.name.as_str() == "*");
                    let is_there = is_star && self.defines(&from, name);
                    return is_there.then(|| NameTarget::OtherModule(from, name.to_owned()));
                };
                if self.files.contains_key(&from) {
                    return Some(NameTarget::OtherModule(from, alias.name.to_string()));
                }
                let alias = &text[alias.start().to_usize()..alias.end().to_usize()];
                Some(NameTarget::Import(Some(from), alias.to_owned()))
            }
            Stmt::Import(import) => {
                let alias = import.names.iter().find(|alias| match &alias.asname {
                    Some(local) => local.as_str() == name,
                    None => alias.name.split('.').next() == Some(name),
                })?;
                let is_ours = self.files.contains_key(alias.name.as_str());
                let alias = &text[alias.start().to_usize()..alias.end().to_usize()];
                (!is_ours).then(|| NameTarget::Import(None, alias.to_owned()))
            }
            _ => None,
        }
    }
}

fn binds(target: &Expr, name: &str) -> bool {
    match target {
        Expr::Name(target) => target.id.as_str() == name,
        Expr::Tuple(tuple) => tuple.elts.iter().any(|target| binds(target, name)),
        Expr::List(list) => list.elts.iter().any(|target| binds(target, name)),
        _ => false,
    }
}

/// Returns an assignment's code. A long value is replaced by `...`.
fn shorten_assignment(assignment: &str, target_text: &str) -> String {
    match assignment.lines().count() <= MAX_VALUE_LINES && assignment.len() <= MAX_VALUE_BYTES {
        true => format!("{assignment}\n"),
        false => format!("{} ...\n", target_text.trim_end_matches([' ', '(', '\\', '\n'])),
    }
}

/// Returns the library code that the `interfaces` refer to or that the tests import
/// (`imported_names`: module and name), without the requested objects. Imports come first. Stubs of
/// classes include the private names in `attribute_names`. Returns an empty string if there is no
/// such code.
pub(super) fn referenced_code(
    (tree, project): (&Path, &Project),
    requested: &BTreeSet<TopLevelName>,
    interfaces: &[(&TopLevelName, String)],
    (attribute_names, imported_names): (&BTreeSet<String>, &BTreeSet<(String, String)>),
) -> String {
    let files = project.modules.iter().map(|file| (module_name(file, &project.root), file));
    let view = StubOptions { used_names: Some(attribute_names), ..StubOptions::PLAIN };
    let library = Library { tree, files: files.collect(), stub_options: view };
    let mut open: VecDeque<(usize, String, String)> = VecDeque::new();
    for (owner, stub) in interfaces {
        open.extend(undefined_names(stub).into_iter().map(|name| (0, owner.module.clone(), name)));
    }
    open.extend(imported_names.iter().map(|(module, name)| (0, module.clone(), name.clone())));
    let mut seen = BTreeSet::new();
    let mut imports: BTreeMap<Option<String>, BTreeSet<String>> = BTreeMap::new();
    let (mut code, mut size) = (Vec::new(), 0);
    while let Some((depth, module, name)) = open.pop_front() {
        let is_requested = requested.iter().any(|it| it.module == module && it.name == name);
        if is_requested || !seen.insert((module.clone(), name.clone())) {
            continue;
        }
        match library.resolve_name(&module, &name) {
            // Skip classes that are too large, so that later constants still fit.
            Some(NameTarget::Code(text)) if size + text.len() > MAX_CODE_BYTES => {}
            Some(NameTarget::Code(text)) => {
                size += text.len();
                if depth < MAX_REFERENCE_DEPTH {
                    let inner = undefined_names(&text).into_iter();
                    open.extend(inner.map(|inner| (depth + 1, module.clone(), inner)));
                }
                code.push(text);
            }
            Some(NameTarget::OtherModule(from, name)) => open.push_front((depth, from, name)),
            Some(NameTarget::Import(from, what)) => {
                imports.entry(from).or_default().insert(what);
            }
            None => {}
        }
    }
    if code.is_empty() {
        return String::new();
    }
    code.dedup();
    let imports: String =
        imports.into_iter().map(|(from, what)| format_import(from, what)).collect();
    let parts = [imports, code.join("\n")].into_iter().filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

fn format_import(module: Option<String>, names: BTreeSet<String>) -> String {
    let what: Vec<String> = names.into_iter().collect();
    match module {
        Some(from) => format!("from {from} import {}\n", what.join(", ")),
        None => what.iter().map(|name| format!("import {name}\n")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referenced_code_is_found_wherever_the_library_defines_it() {
        let tree = tempfile::tempdir().unwrap();
        let long: String = (0..9).map(|n| format!("    {n},\n")).collect();
        for (path, text) in [
            (
                "pkg/a.py",
                "import typing as t\nfrom .types import Kind as K, Base\nfrom pkg import types\n\
                 class Own: pass\nclass F(Base): pass\n",
            ),
            (
                "pkg/types.py",
                &format!(
                    "from typing import NamedTuple\nHTML4 = \"html4\"\nLOW, HIGH = 1, 9\nTABLE = [\n{long}]\n\
                     try:\n    Kind = t_union(HTML4, TABLE)\nexcept NameError:\n    Kind = None\n\
                     class Base(NamedTuple):\n    n: int = 0\n    def hidden(self):\n        return secret()\n"
                ),
            ),
            ("pkg/__init__.py", "from .types import *\n"),
        ] {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let modules = ["pkg/__init__.py", "pkg/a.py", "pkg/types.py"].map(str::to_owned).to_vec();
        let project = Project { root: ".".into(), modules, ..Project::default() };
        let owner = |name: &str| TopLevelName { module: "pkg.a".into(), name: name.into() };
        let (f, own) = (owner("F"), owner("Own"));
        let requested = BTreeSet::from([f.clone(), own]);
        let stub = "class F(Base):\n    def m(self, kind: 'K', o: Own, x: t.Literal['t'] = None) -> int:\n        ...\n";
        let none = (&BTreeSet::new(), &BTreeSet::new());
        let place = (tree.path(), &project);
        let said = referenced_code(place, &requested, &[(&f, stub.to_owned())], none);
        assert_eq!(
            said,
            "import typing as t\nfrom typing import NamedTuple\n\n\
             class Base(NamedTuple):\n    n: int = 0\n\n    def hidden(self):\n        ...\n\n\
             Kind = t_union(HTML4, TABLE)\n\nHTML4 = \"html4\"\n\nTABLE = ...\n"
        );
        assert!(!said.contains("secret"));
        let plain = [(&f, "def f(a: int, b=None):\n    ...\n".to_owned())];
        assert_eq!(referenced_code(place, &requested, &plain, none), "");
        // A name that a test imports is found even if the test imports it from a package that
        // re-exports it.
        let wanted = BTreeSet::from([("pkg.types".to_owned(), "HTML4".to_owned())]);
        let said = referenced_code(place, &requested, &plain, (&BTreeSet::new(), &wanted));
        assert_eq!(said, "HTML4 = \"html4\"\n");
        let wanted = BTreeSet::from(["HIGH", "NONE"].map(|it| ("pkg".to_owned(), it.to_owned())));
        let said = referenced_code(place, &requested, &plain, (&BTreeSet::new(), &wanted));
        assert_eq!(said, "LOW, HIGH = 1, 9\n");
    }
}
