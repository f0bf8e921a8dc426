//! Creates packages for level 2. The gold solution contains a copy of the library. Other packages
//! serve as checks, such as one that re-exports the library's own objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use ruff_python_ast::{
    Expr, ExprStringLiteral, Stmt, StmtImport, StmtImportFrom,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::{
    module_names::{TopLevelName, imported_module, module_name},
    rewrite::AGENT_PACKAGE,
};
use crate::{
    carve::{build_patch, replace_bodies},
    collect::project::Project,
};

/// The `setup.py` that FeatureBench's statements require.
const SETUP_PY: &str = "\
from setuptools import setup, find_packages
setup(
    name=\"agent_code\",
    version=\"0.1\",
    packages=find_packages(),
)
";

/// Calls that import a module whose name is given as a string.
const DYNAMIC_IMPORT_CALLS: [&str; 2] = ["import_module(", "__import__("];

/// The table of loaded modules. Code that looks a module up in it may build the module's name.
const MODULE_TABLE: &str = "sys.modules[";

/// A package's files, by path.
pub(in crate::collect) type Files = BTreeMap<String, String>;

/// Returns the package without any code.
pub(super) fn empty_package() -> Files {
    Files::from([
        ("setup.py".to_owned(), SETUP_PY.to_owned()),
        (format!("{AGENT_PACKAGE}/__init__.py"), String::new()),
    ])
}

/// Returns a copy of the package whose requested functions return `return_value` and do nothing
/// else.
pub(super) fn constant_copy(
    copy: &Files,
    project: &Project,
    requested: &BTreeSet<TopLevelName>,
    return_value: &str,
) -> Files {
    let mut out = copy.clone();
    for file in &project.modules {
        let module = module_name(file, &project.root);
        let names: BTreeSet<&str> =
            requested.iter().filter(|it| it.module == module).map(|it| it.name.as_str()).collect();
        let Some(text) = out.get_mut(&copy_path(file, &project.root)) else { continue };
        if let Some(hollow) = replace_bodies(text, return_value, &|path| names.contains(path)) {
            *text = hollow;
        }
    }
    out
}

/// Returns a package that re-exports the library's own objects.
pub(super) fn library_shim(requested: &BTreeSet<TopLevelName>) -> Files {
    package_with_exports(requested, "")
}

/// Returns a package with a copy of the library modules that the requested objects need. The copied
/// modules import each other instead of the library.
///
/// # Errors
/// Returns a sentence that says why a module cannot be copied.
pub(super) fn library_copy(
    tree: &Path,
    project: &Project,
    requested: &BTreeSet<TopLevelName>,
) -> Result<Files, String> {
    let by_module: BTreeMap<String, &String> =
        project.modules.iter().map(|file| (module_name(file, &project.root), file)).collect();
    let mut open: Vec<String> = requested.iter().map(|owner| owner.module.clone()).collect();
    let (mut seen, mut out) = (BTreeSet::new(), package_with_exports(requested, "."));
    while let Some(module) = open.pop() {
        // `module` may be a name inside a module, so try its parent as well.
        if let Some((package, _)) = module.rsplit_once('.') {
            open.push(package.to_owned());
        }
        let Some(file) = by_module.get(&module) else { continue };
        if !seen.insert(module.clone()) {
            continue;
        }
        let text = fs::read_to_string(tree.join(file))
            .map_err(|error| format!("cannot read {file}: {error}"))?;
        let is_package = file.ends_with("/__init__.py");
        let copied = copy_module(&text, &module, is_package, &by_module)
            .ok_or_else(|| format!("cannot parse {file}"))?;
        open.extend(copied.needed_names);
        out.insert(copy_path(file, &project.root), copied.text);
    }
    Ok(out)
}

/// Returns a patch that adds the files to an empty tree.
pub(super) fn package_patch(files: &Files) -> String {
    build_patch(files.iter().map(|(path, text)| (path.as_str(), None, Some(text.as_str()))))
}

fn copy_path(file: &str, root: &str) -> String {
    let below = file.strip_prefix(&format!("{root}/")).unwrap_or(file);
    format!("{AGENT_PACKAGE}/{below}")
}

fn package_with_exports(requested: &BTreeSet<TopLevelName>, dot: &str) -> Files {
    let lines = requested.iter().map(|it| format!("from {dot}{} import {}\n", it.module, it.name));
    let mut out = empty_package();
    out.insert(format!("{AGENT_PACKAGE}/__init__.py"), lines.collect());
    out
}

struct ModuleCopy {
    text: String,
    /// Dotted names of modules, or of objects inside modules.
    needed_names: BTreeSet<String>,
}

fn copy_module(
    text: &str,
    module: &str,
    is_package: bool,
    modules: &BTreeMap<String, &String>,
) -> Option<ModuleCopy> {
    let parsed = parse_module(text).ok()?;
    let roots: BTreeSet<&str> =
        modules.keys().map(|name| name.split('.').next().unwrap_or(name)).collect();
    let by_name = DYNAMIC_IMPORT_CALLS.iter().any(|call| text.contains(call));
    let mut imports = ImportRedirector {
        roots,
        module,
        is_package,
        text,
        modules,
        imports_by_name: by_name,
        reads_module_table: text.contains(MODULE_TABLE),
        needed_names: BTreeSet::new(),
        edits: Vec::new(),
    };
    parsed.syntax().body.iter().for_each(|stmt| imports.visit_stmt(stmt));
    let mut out = text.to_owned();
    imports.edits.sort_by_key(|(span, _)| span.start);
    for (span, new) in imports.edits.iter().rev() {
        out.replace_range(span.clone(), new);
    }
    Some(ModuleCopy { text: out, needed_names: imports.needed_names })
}

struct ImportRedirector<'a> {
    roots: BTreeSet<&'a str>,
    module: &'a str,
    is_package: bool,
    text: &'a str,
    modules: &'a BTreeMap<String, &'a String>,
    /// Whether the file imports modules by names that it stores in strings, as plug-ins and lazy
    /// imports do.
    imports_by_name: bool,
    /// Whether the file looks up loaded modules by name.
    reads_module_table: bool,
    needed_names: BTreeSet<String>,
    edits: Vec<(std::ops::Range<usize>, String)>,
}

impl<'a> Visitor<'a> for ImportRedirector<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => self.redirect_import(import),
            Stmt::ImportFrom(import) => self.redirect_import_from(import),
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::StringLiteral(literal) => {
                self.redirect_name(literal);
                self.redirect_prefix(literal);
                self.redirect_generated_imports(literal);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

impl ImportRedirector<'_> {
    fn is_library_module(&self, module: &str) -> bool {
        self.roots.contains(module.split('.').next().unwrap_or(module))
    }

    /// If a string names a module of the library, or an object in such a module, redirects the name
    /// to the copy. A name without a dot is left unchanged, because it may be an ordinary word.
    fn redirect_name(&mut self, literal: &ExprStringLiteral) {
        if !self.imports_by_name {
            return;
        }
        let (text, modules) = (self.text, self.modules);
        let name = literal.value.to_str();
        let is_dotted = name
            .split('.')
            .all(|part| part.chars().all(|c| c.is_alphanumeric() || c == '_') && !part.is_empty());
        let mut parents = name.match_indices('.').map(|(at, _)| &name[..at]).chain([name]);
        let module = parents.rfind(|it| it.contains('.') && modules.contains_key(*it));
        let span = literal.start().to_usize()..literal.end().to_usize();
        let (true, Some(module), Some(at)) = (is_dotted, module, text[span.clone()].find(name))
        else {
            return;
        };
        self.needed_names.insert(module.to_owned());
        let at = span.start + at;
        self.edits.push((at..at, format!("{AGENT_PACKAGE}.")));
    }

    /// Redirects the prefix of module names to the copy, as in `sys.modules["pkg." + name]`.
    /// Otherwise, the copy would depend on whether a test has loaded the library before.
    fn redirect_prefix(&mut self, literal: &ExprStringLiteral) {
        let prefix = literal.value.to_str();
        let Some(package) = prefix.strip_suffix('.') else { return };
        if !self.reads_module_table || !self.modules.contains_key(package) {
            return;
        }
        let span = literal.start().to_usize()..literal.end().to_usize();
        if let Some(at) = self.text[span.clone()].find(prefix) {
            let at = span.start + at;
            self.edits.push((at..at, format!("{AGENT_PACKAGE}.")));
        }
    }

    /// Redirects import statements inside a string to the copy. Code generators and templates
    /// contain such strings.
    fn redirect_generated_imports(&mut self, literal: &ExprStringLiteral) {
        let start = literal.start().to_usize();
        let source = &self.text[start..literal.end().to_usize()];
        for (at, from) in source.match_indices("from ") {
            let at = at + from.len();
            let (name, rest) = source[at..].split_once(' ').unwrap_or_default();
            if rest.starts_with("import ") && self.modules.contains_key(name) {
                self.needed_names.insert(name.to_owned());
                self.edits.push((start + at..start + at, format!("{AGENT_PACKAGE}.")));
            }
        }
    }

    fn redirect_import(&mut self, import: &StmtImport) {
        for alias in &import.names {
            if !self.is_library_module(&alias.name) {
                continue;
            }
            let name = alias.name.as_str();
            self.needed_names.insert(name.to_owned());
            let span = alias.name.start().to_usize()..alias.name.end().to_usize();
            let first = name.split('.').next().unwrap_or(name);
            let new = match &alias.asname {
                Some(_) => format!("{AGENT_PACKAGE}.{name}"),
                None if first == name => format!("{AGENT_PACKAGE}.{name} as {name}"),
                None => format!("{AGENT_PACKAGE}.{name}, {AGENT_PACKAGE}.{first} as {first}"),
            };
            self.edits.push((span, new));
        }
    }

    fn redirect_import_from(&mut self, import: &StmtImportFrom) {
        let named = import.module.as_ref();
        let from = match import.level {
            0 => {
                let Some(named) = named.filter(|named| self.is_library_module(named)) else {
                    return;
                };
                let at = named.start().to_usize();
                self.edits.push((at..at, format!("{AGENT_PACKAGE}.")));
                named.to_string()
            }
            _ => imported_module(import, self.module, self.is_package),
        };
        self.needed_names.insert(from.clone());
        self.needed_names.extend(import.names.iter().map(|alias| format!("{from}.{}", alias.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_copy_includes_needed_modules_and_redirects_imports() {
        let tree = tempfile::tempdir().unwrap();
        let files = [
            ("src/pkg/__init__.py", "from .a import f\n"),
            (
                "src/pkg/a.py",
                "import pkg\nimport pkg.deep.b, pkg.deep.b2, os\nfrom pkg.deep import c as d\n\ndef f():\n    return 1\n",
            ),
            ("src/pkg/deep/__init__.py", ""),
            ("src/pkg/deep/b.py", "from .. import a\nimport pkg.deep.c as c\n"),
            (
                "src/pkg/deep/c.py",
                "NAMES = {\"e\": \"pkg.deep.e.made\", \"p\": \"pkg\"}\n\
                 SAID = 'see pkg.deep.e', 'pkg.none', __import__(NAMES['e'])\n",
            ),
            (
                "src/pkg/deep/b2.py",
                "CODE = \"from pkg.deep.f import \" + 'x', '\\nfrom pkg.none import y'\n",
            ),
            (
                "src/pkg/deep/f.py",
                "import sys\nALL = [sys.modules['pkg.deep.' + m] for m in 'bc']\n",
            ),
            ("src/pkg/deep/e.py", "NAME = 'pkg.deep.e'\n"),
            ("src/pkg/idle.py", ""),
        ];
        for (path, text) in files {
            fs::create_dir_all(tree.path().join(path).parent().unwrap()).unwrap();
            fs::write(tree.path().join(path), text).unwrap();
        }
        let modules = files.map(|(path, _)| path.to_owned()).to_vec();
        let project = Project { root: "src".into(), modules, ..Project::default() };
        let requested = BTreeSet::from([TopLevelName { module: "pkg.a".into(), name: "f".into() }]);
        let made = library_copy(tree.path(), &project, &requested).unwrap();
        let idle = constant_copy(&made, &project, &requested, "None");
        assert_eq!((idle.len(), made == idle), (made.len(), false));
        assert!(idle["agent_code/pkg/a.py"].ends_with("def f():\n    pass\n"));
        let names: Vec<&str> = made.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "agent_code/__init__.py",
                "agent_code/pkg/__init__.py",
                "agent_code/pkg/a.py",
                "agent_code/pkg/deep/__init__.py",
                "agent_code/pkg/deep/b.py",
                "agent_code/pkg/deep/b2.py",
                "agent_code/pkg/deep/c.py",
                "agent_code/pkg/deep/e.py",
                "agent_code/pkg/deep/f.py",
                "setup.py",
            ]
        );
        assert_eq!(made["agent_code/__init__.py"], "from .pkg.a import f\n");
        assert_eq!(
            made["agent_code/pkg/a.py"],
            "import agent_code.pkg as pkg\nimport agent_code.pkg.deep.b, agent_code.pkg as pkg, \
             agent_code.pkg.deep.b2, agent_code.pkg as pkg, os\n\
             from agent_code.pkg.deep import c as d\n\ndef f():\n    return 1\n"
        );
        assert!(made["agent_code/pkg/deep/b.py"].contains("import agent_code.pkg.deep.c as c"));
        // Only strings that name one of the library's modules are changed.
        let named = &made["agent_code/pkg/deep/c.py"];
        assert!(named.contains("\"agent_code.pkg.deep.e.made\", \"p\": \"pkg\""), "{named}");
        assert!(named.contains("'see pkg.deep.e', 'pkg.none'"), "{named}");
        assert_eq!(made["agent_code/pkg/deep/e.py"], "NAME = 'pkg.deep.e'\n");
        // Generated code imports the copy.
        assert_eq!(
            made["agent_code/pkg/deep/b2.py"],
            "CODE = \"from agent_code.pkg.deep.f import \" + 'x', '\\nfrom pkg.none import y'\n"
        );
        // So does code that looks modules up by a computed name.
        let looked_up = &made["agent_code/pkg/deep/f.py"];
        assert!(looked_up.contains("sys.modules['agent_code.pkg.deep.' + m]"), "{looked_up}");
        assert!(package_patch(&library_shim(&requested)).contains("+from pkg.a import f\n"));
    }
}
