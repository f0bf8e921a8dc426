//! Code that an interface mentions but that is not requested: constants, types, base classes of the
//! library. The author of a rewrite must know it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::Path,
};

use ruff_python_ast::{
    Expr, ExprContext, Stmt,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::{
    gold::{imported_from, module_of},
    rewrite::Owner,
};
use crate::{
    carve::{View, interface_of, top_level},
    collect::project::Project,
};

/// Maximum lines, and bytes of one line, of a value that is shown.
const LINES: usize = 6;
const BYTES: usize = 400;
/// How far names are followed, and how many bytes of code are shown: closer names come first.
const DEPTH: usize = 2;
const MOST: usize = 12_000;

/// The names in some code that it does not define itself.
fn names(code: &str) -> BTreeSet<String> {
    let mut found = Found::default();
    if let Ok(parsed) = parse_module(code) {
        parsed.syntax().body.iter().for_each(|stmt| found.visit_stmt(stmt));
    }
    found.loaded.difference(&found.defined).cloned().collect()
}

#[derive(Default)]
struct Found {
    loaded: BTreeSet<String>,
    defined: BTreeSet<String>,
    in_annotation: bool,
}

impl<'a> Visitor<'a> for Found {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => drop(self.defined.insert(def.name.to_string())),
            Stmt::ClassDef(def) => drop(self.defined.insert(def.name.to_string())),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_annotation(&mut self, expr: &'a Expr) {
        self.in_annotation = true;
        self.visit_expr(expr);
        self.in_annotation = false;
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.loaded.insert(name.id.to_string());
            }
            // An annotation may be written as a string, but a `Literal`'s string is not one.
            Expr::StringLiteral(literal) if self.in_annotation => {
                let words =
                    literal.value.to_str().split(|c: char| !c.is_alphanumeric() && c != '_');
                self.loaded.extend(words.filter(|it| !it.is_empty()).map(str::to_owned));
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

/// The modules of a library, for lookups.
struct Library<'a> {
    tree: &'a Path,
    files: BTreeMap<String, &'a String>,
    view: View<'a>,
}

/// The meaning of a module's name.
enum Meaning {
    /// Code of the library that defines it.
    Code(String),
    /// A name in another module of the library.
    Elsewhere(String, String),
    /// An import from outside the library: source, and name.
    Import(Option<String>, String),
}

impl Library<'_> {
    fn meaning(&self, module: &str, name: &str) -> Option<Meaning> {
        let file = self.files.get(module)?;
        let text = fs::read_to_string(self.tree.join(file)).unwrap_or_default();
        let is_package = file.ends_with("/__init__.py");
        if let Some((stub, _)) = interface_of(&text, name, self.view) {
            return Some(Meaning::Code(stub));
        }
        let parsed = parse_module(&text).ok()?;
        top_level(&parsed.syntax().body)
            .into_iter()
            .find_map(|stmt| self.bound(stmt, &text, name, (module, is_package)))
    }

    fn bound(
        &self,
        stmt: &Stmt,
        text: &str,
        name: &str,
        (module, is_package): (&str, bool),
    ) -> Option<Meaning> {
        let is_it = |target: &Expr| matches!(target, Expr::Name(it) if it.id.as_str() == name);
        let whole = &text[stmt.start().to_usize()..stmt.end().to_usize()];
        match stmt {
            Stmt::Assign(assign) if assign.targets.iter().any(is_it) => {
                let head = &text[stmt.start().to_usize()..assign.value.start().to_usize()];
                Some(Meaning::Code(shown(whole, head)))
            }
            Stmt::AnnAssign(assign) if is_it(&assign.target) => {
                let end = assign.annotation.end().to_usize();
                Some(Meaning::Code(shown(
                    whole,
                    &format!("{} =", &text[stmt.start().to_usize()..end]),
                )))
            }
            Stmt::ImportFrom(import) => {
                let alias = import
                    .names
                    .iter()
                    .find(|alias| alias.asname.as_ref().unwrap_or(&alias.name).as_str() == name)?;
                let from = imported_from(import, module, is_package);
                if self.files.contains_key(&from) {
                    return Some(Meaning::Elsewhere(from, alias.name.to_string()));
                }
                let alias = &text[alias.start().to_usize()..alias.end().to_usize()];
                Some(Meaning::Import(Some(from), alias.to_owned()))
            }
            Stmt::Import(import) => {
                let alias = import.names.iter().find(|alias| match &alias.asname {
                    Some(local) => local.as_str() == name,
                    None => alias.name.split('.').next() == Some(name),
                })?;
                let is_ours = self.files.contains_key(alias.name.as_str());
                let alias = &text[alias.start().to_usize()..alias.end().to_usize()];
                (!is_ours).then(|| Meaning::Import(None, alias.to_owned()))
            }
            _ => None,
        }
    }
}

/// A long value is left out.
fn shown(whole: &str, head: &str) -> String {
    match whole.lines().count() <= LINES && whole.len() <= BYTES {
        true => format!("{whole}\n"),
        false => format!("{} ...\n", head.trim_end_matches([' ', '(', '\\', '\n'])),
    }
}

/// The code that `interfaces` mention, with private names that tests use, by module and without
/// what is requested; imports first. Empty if they mention nothing of the library.
pub(super) fn named(
    tree: &Path,
    project: &Project,
    asked: &BTreeSet<Owner>,
    interfaces: &[(&Owner, String)],
    used: &BTreeSet<String>,
) -> String {
    let files = project.modules.iter().map(|file| (module_of(file, &project.root), file));
    let view = View { named: Some(used), ..View::PLAIN };
    let library = Library { tree, files: files.collect(), view };
    let mut open: VecDeque<(usize, String, String)> = VecDeque::new();
    for (owner, stub) in interfaces {
        open.extend(names(stub).into_iter().map(|name| (0, owner.module.clone(), name)));
    }
    let mut seen = BTreeSet::new();
    let mut imports: BTreeMap<Option<String>, BTreeSet<String>> = BTreeMap::new();
    let (mut code, mut size) = (Vec::new(), 0);
    while let Some((depth, module, name)) = open.pop_front() {
        let is_asked = asked.iter().any(|it| it.module == module && it.name == name);
        if is_asked || !seen.insert((module.clone(), name.clone())) {
            continue;
        }
        match library.meaning(&module, &name) {
            // Skip a large class to leave room for the constants after it.
            Some(Meaning::Code(text)) if size + text.len() > MOST => {}
            Some(Meaning::Code(text)) => {
                size += text.len();
                if depth < DEPTH {
                    let inner = names(&text).into_iter();
                    open.extend(inner.map(|inner| (depth + 1, module.clone(), inner)));
                }
                code.push(text);
            }
            Some(Meaning::Elsewhere(from, name)) => open.push_front((depth, from, name)),
            Some(Meaning::Import(from, what)) => {
                imports.entry(from).or_default().insert(what);
            }
            None => {}
        }
    }
    if code.is_empty() {
        return String::new();
    }
    code.dedup();
    let imports: String = imports.into_iter().map(|(from, what)| import(from, what)).collect();
    let parts = [imports, code.join("\n")].into_iter().filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

fn import(from: Option<String>, what: BTreeSet<String>) -> String {
    let what: Vec<String> = what.into_iter().collect();
    match from {
        Some(from) => format!("from {from} import {}\n", what.join(", ")),
        None => what.iter().map(|name| format!("import {name}\n")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interface_names_is_shown_wherever_the_library_has_it() {
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
                    "from typing import NamedTuple\nHTML4 = \"html4\"\nTABLE = [\n{long}]\n\
                     try:\n    Kind = t_union(HTML4, TABLE)\nexcept NameError:\n    Kind = None\n\
                     class Base(NamedTuple):\n    n: int = 0\n    def hidden(self):\n        return secret()\n"
                ),
            ),
            ("pkg/__init__.py", ""),
        ] {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let modules = ["pkg/__init__.py", "pkg/a.py", "pkg/types.py"].map(str::to_owned).to_vec();
        let project = Project { root: ".".into(), modules, ..Project::default() };
        let owner = |name: &str| Owner { module: "pkg.a".into(), name: name.into() };
        let (f, own) = (owner("F"), owner("Own"));
        let asked = BTreeSet::from([f.clone(), own]);
        let stub = "class F(Base):\n    def m(self, kind: 'K', o: Own, x: t.Literal['t'] = None) -> int:\n        ...\n";
        let said = named(tree.path(), &project, &asked, &[(&f, stub.to_owned())], &BTreeSet::new());
        assert_eq!(
            said,
            "import typing as t\nfrom typing import NamedTuple\n\n\
             class Base(NamedTuple):\n    n: int = 0\n\n    def hidden(self):\n        ...\n\n\
             Kind = t_union(HTML4, TABLE)\n\nHTML4 = \"html4\"\n\nTABLE = ...\n"
        );
        assert!(!said.contains("secret"));
        let plain = [(&f, "def f(a: int, b=None):\n    ...\n".to_owned())];
        assert_eq!(named(tree.path(), &project, &asked, &plain, &BTreeSet::new()), "");
    }
}
