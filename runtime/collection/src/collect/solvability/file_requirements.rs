//! Determines what each test in a file requires, from the file's syntax tree.
//!
//! A test's requirements are those of its body and of the fixtures, helpers and classes that it
//! uses.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Expr, ExprCall, ExprContext, Stmt, StmtClassDef, StmtFunctionDef,
    visitor::{self, Visitor},
};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::{
    examples::{Definitions, MAX_DEPTH, NameValues, read_examples, read_name_values},
    expectation::{Expectation, is_message, last_component, looks_like_exception},
    test_requirements::TestRequirements,
};
use crate::{
    carve::{dotted_name, top_level_statements},
    collect::level_two::imported_module,
};

/// Maximum length of an expression in the statement, in bytes. Longer expressions are shortened to
/// `(...).attribute`.
const MAX_EXPRESSION_BYTES: usize = 60;

/// Methods that run before a class's tests.
const SETUP_METHODS: [&str; 6] =
    ["setUp", "setUpClass", "setup", "setup_class", "setup_method", "asyncSetUp"];

/// What a test file's functions, methods, classes and variables require, by name. Methods are named
/// `Class::method`, as in test ids.
#[derive(Debug, Clone, Default)]
pub(super) struct FileRequirements {
    units: BTreeMap<String, CodeUnit>,
    /// Names of autouse fixtures.
    autouse_fixtures: BTreeSet<String>,
}

#[derive(Debug, Clone, Default)]
struct CodeUnit {
    requirements: TestRequirements,
    /// Names that this unit uses and that may refer to other units.
    used_names: BTreeSet<String>,
    /// The base classes, if this is a class.
    bases: Vec<String>,
    is_class: bool,
}

impl FileRequirements {
    /// Reads a test file. `own_module` is the file's dotted module name, against which relative
    /// imports are resolved. `roots` are the library's top-level packages. A file that cannot be
    /// parsed has no requirements.
    pub(super) fn read(text: &str, own_module: &str, roots: &BTreeSet<String>) -> Self {
        let Ok(parsed) = parse_module(text) else { return Self::default() };
        let body = &parsed.syntax().body;
        let mut imports = ImportCollector { own_module, bound_names: BTreeMap::new() };
        body.iter().for_each(|stmt| imports.visit_stmt(stmt));
        let variables = top_level_statements(body).into_iter().filter_map(assigned_value).collect();
        let mut definitions = Definitions { variables, ..Definitions::default() };
        for stmt in top_level_statements(body) {
            add_definitions(stmt, "", &mut definitions);
        }
        let file = FileContext { text, imports: imports.bound_names, roots, definitions };
        let mut out = Self::default();
        for stmt in top_level_statements(body) {
            match stmt {
                Stmt::FunctionDef(def) => out.add_function(&file, def, ""),
                Stmt::ClassDef(def) => out.add_class(&file, def, ""),
                Stmt::Import(_) | Stmt::ImportFrom(_) => {}
                other => out.add_variables(&file, other),
            }
        }
        out
    }

    pub(super) fn requirements_for_test(&self, id: &str) -> TestRequirements {
        let Some(start) = self.find_unit(id) else { return TestRequirements::default() };
        let own_class = test_path(id).rsplit_once("::").map_or("", |(class, _)| class).to_owned();
        let mut open: Vec<String> = vec![start];
        open.extend(self.autouse_fixtures.iter().cloned());
        for class in self.class_with_bases(&own_class) {
            open.extend(SETUP_METHODS.iter().map(|name| format!("{class}::{name}")));
            open.push(class);
        }
        let (mut seen, mut out) = (BTreeSet::new(), TestRequirements::default());
        while let Some(name) = open.pop() {
            let Some(unit) = self.units.get(&name) else { continue };
            if !seen.insert(name.clone()) {
                continue;
            }
            out.add(&unit.requirements);
            open.extend(unit.used_names.iter().cloned());
            // Add all methods of a class that the test uses. Skip the test's own class, because its
            // methods include other tests.
            if unit.is_class && !self.class_with_bases(&own_class).contains(&name) {
                let below = format!("{name}::");
                open.extend(self.units.keys().filter(|it| it.starts_with(&below)).cloned());
                open.extend(unit.bases.iter().cloned());
            }
        }
        out
    }

    /// Returns the module and name of each library object that the file uses.
    pub(super) fn library_names(&self) -> BTreeSet<(String, String)> {
        self.units.values().flat_map(|unit| unit.requirements.names.iter().cloned()).collect()
    }

    /// Returns the unit for a test. A test may be inherited from a base class in the same file.
    fn find_unit(&self, id: &str) -> Option<String> {
        let path = test_path(id);
        if self.units.contains_key(path) {
            return Some(path.to_owned());
        }
        let (class, name) = path.rsplit_once("::")?;
        let bases = self.class_with_bases(class).into_iter();
        bases.map(|class| format!("{class}::{name}")).find(|name| self.units.contains_key(name))
    }

    fn class_with_bases(&self, class: &str) -> Vec<String> {
        let (mut open, mut out) = (vec![class.to_owned()], Vec::new());
        while let Some(class) = open.pop() {
            let Some(unit) = self.units.get(&class) else { continue };
            if out.contains(&class) {
                continue;
            }
            open.extend(unit.bases.iter().cloned());
            out.push(class);
        }
        out
    }

    fn add_function(&mut self, file: &FileContext<'_>, def: &StmtFunctionDef, class: &str) {
        let mut reader = UnitReader::new(file, class);
        reader.values = read_name_values(def, &file.definitions.variables);
        def.decorator_list.iter().for_each(|it| reader.visit_expr(&it.expression));
        for parameter in def.parameters.iter_non_variadic_params() {
            // A parameter may be a fixture with the same name.
            reader.referenced_names.insert(parameter.parameter.name.to_string());
            reader.referenced_names.insert(qualified_name(class, &parameter.parameter.name));
            parameter.default.iter().for_each(|it| reader.visit_expr(it));
        }
        def.body.iter().for_each(|stmt| reader.visit_stmt(stmt));
        reader.requirements.examples = read_examples(file.text, def, class, &file.definitions);
        let path = qualified_name(class, &def.name);
        if def.decorator_list.iter().any(|it| is_autouse(&it.expression)) {
            self.autouse_fixtures.insert(path.clone());
        }
        self.add_unit(path, reader.into_unit());
    }

    fn add_class(&mut self, file: &FileContext<'_>, def: &StmtClassDef, outer: &str) {
        let path = qualified_name(outer, &def.name);
        let mut reader = UnitReader::new(file, &path);
        def.decorator_list.iter().for_each(|it| reader.visit_expr(&it.expression));
        let mut bases = Vec::new();
        for base in def.arguments.iter().flat_map(|it| it.args.iter()) {
            reader.visit_expr(base);
            bases.extend(last_component(base));
        }
        for stmt in &def.body {
            match stmt {
                Stmt::FunctionDef(method) => self.add_function(file, method, &path),
                Stmt::ClassDef(inner) => self.add_class(file, inner, &path),
                other => reader.visit_stmt(other),
            }
        }
        let unit = CodeUnit { bases, is_class: true, ..reader.into_unit() };
        self.add_unit(path, unit);
    }

    /// Adds a unit for each name that a module-level statement binds.
    fn add_variables(&mut self, file: &FileContext<'_>, stmt: &Stmt) {
        let mut bound = BoundNameCollector::default();
        bound.visit_stmt(stmt);
        if bound.0.is_empty() {
            return;
        }
        let mut reader = UnitReader::new(file, "");
        reader.visit_stmt(stmt);
        let unit = reader.into_unit();
        bound.0.into_iter().for_each(|name| self.add_unit(name, unit.clone()));
    }

    /// Adds a unit. If there already is a unit with this name, both are merged, because both
    /// branches of an `if` may define the same name.
    fn add_unit(&mut self, name: String, unit: CodeUnit) {
        let all = self.units.entry(name).or_default();
        all.requirements.add(&unit.requirements);
        all.used_names.extend(unit.used_names);
        all.bases.extend(unit.bases);
        all.is_class |= unit.is_class;
    }
}

/// Returns the part of a test's id after the file name, without parameters.
pub(super) fn test_path(id: &str) -> &str {
    let path = id.split_once("::").map_or(id, |(_, path)| path);
    path.split('[').next().unwrap_or(path)
}

fn qualified_name(class: &str, name: &str) -> String {
    if class.is_empty() { name.to_owned() } else { format!("{class}::{name}") }
}

fn is_autouse(decorator: &Expr) -> bool {
    let Expr::Call(call) = decorator else { return false };
    call.arguments.keywords.iter().any(|it| it.arg.as_ref().is_some_and(|arg| arg == "autouse"))
}

/// Adds a function, or a class's methods and variables.
fn add_definitions<'a>(stmt: &'a Stmt, class: &str, definitions: &mut Definitions<'a>) {
    match stmt {
        Stmt::FunctionDef(def) => {
            definitions.functions.insert((class.to_owned(), def.name.as_str()), def);
        }
        Stmt::ClassDef(def) => {
            let path = qualified_name(class, &def.name);
            def.body.iter().for_each(|stmt| add_definitions(stmt, &path, definitions));
        }
        other if !class.is_empty() => {
            if let Some((name, value)) = assigned_value(other) {
                definitions.class_variables.insert((class.to_owned(), name), value);
            }
        }
        _ => {}
    }
}

/// Returns the name and the value of an assignment to a single name.
fn assigned_value(stmt: &Stmt) -> Option<(&str, &Expr)> {
    match stmt {
        Stmt::Assign(assign) => match &*assign.targets {
            [Expr::Name(target)] => Some((target.id.as_str(), &*assign.value)),
            _ => None,
        },
        Stmt::AnnAssign(assign) => {
            let target = assign.target.as_name_expr()?;
            Some((target.id.as_str(), assign.value.as_deref()?))
        }
        _ => None,
    }
}

struct FileContext<'a> {
    text: &'a str,
    /// The module and name that each local name refers to.
    imports: BTreeMap<String, (String, Option<String>)>,
    roots: &'a BTreeSet<String>,
    definitions: Definitions<'a>,
}

impl FileContext<'_> {
    fn is_library_module(&self, module: &str) -> bool {
        self.roots.contains(module.split('.').next().unwrap_or(module))
    }

    /// Whether an expression starts with a name that was imported from another package.
    fn is_foreign(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Name(name) => {
                let import = self.imports.get(name.id.as_str());
                import.is_some_and(|(module, _)| !self.is_library_module(module))
            }
            Expr::Attribute(attribute) => self.is_foreign(&attribute.value),
            Expr::Call(call) => self.is_foreign(&call.func),
            Expr::Subscript(subscript) => self.is_foreign(&subscript.value),
            _ => false,
        }
    }
}

struct ImportCollector<'a> {
    own_module: &'a str,
    bound_names: BTreeMap<String, (String, Option<String>)>,
}

impl<'a> Visitor<'a> for ImportCollector<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    // `import a.b` binds `a`, but looking up the attributes of `a.b.c` requires the
                    // key `a.b`.
                    let first = alias.name.split('.').next().unwrap_or_default().to_owned();
                    if alias.asname.is_none() {
                        self.bound_names.entry(first.clone()).or_insert((first, None));
                    }
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
                    self.bound_names.insert(local, (alias.name.to_string(), None));
                }
            }
            Stmt::ImportFrom(import) => {
                let module = imported_module(import, self.own_module, false);
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
                    let name = Some(alias.name.to_string());
                    self.bound_names.insert(local, (module.clone(), name));
                }
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }
}

/// Collects the names that a statement binds.
#[derive(Default)]
struct BoundNameCollector(BTreeSet<String>);

impl<'a> Visitor<'a> for BoundNameCollector {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if !matches!(stmt, Stmt::FunctionDef(_) | Stmt::ClassDef(_)) {
            visitor::walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Store => {
                self.0.insert(name.id.to_string());
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

/// Reads the requirements of one unit.
struct UnitReader<'f> {
    file: &'f FileContext<'f>,
    class: &'f str,
    /// The values of the function's parameters, loop variables and local variables.
    values: NameValues<'f>,
    requirements: TestRequirements,
    referenced_names: BTreeSet<String>,
    loaded_names: BTreeSet<String>,
    accessed_attributes: BTreeSet<(String, String)>,
}

impl<'f> UnitReader<'f> {
    fn new(file: &'f FileContext<'f>, class: &'f str) -> Self {
        Self {
            file,
            class,
            values: NameValues::new(),
            requirements: TestRequirements::default(),
            referenced_names: BTreeSet::new(),
            loaded_names: BTreeSet::new(),
            accessed_attributes: BTreeSet::new(),
        }
    }

    fn into_unit(self) -> CodeUnit {
        let Self {
            file,
            requirements: mut needs,
            referenced_names: mut named,
            loaded_names: loaded,
            accessed_attributes: accessed,
            ..
        } = self;
        let mut names = BTreeSet::new();
        for name in &loaded {
            if let Some((module, Some(inner))) = file.imports.get(name) {
                names.insert((module.clone(), inner.clone()));
            }
        }
        for (owner, attribute) in &accessed {
            let Some((module, inner)) = file.imports.get(owner) else { continue };
            let module = match inner {
                Some(inner) => format!("{module}.{inner}"),
                None => module.clone(),
            };
            names.insert((module, attribute.clone()));
        }
        names.retain(|(module, _)| file.is_library_module(module));
        needs.names.extend(names);
        named.extend(loaded);
        CodeUnit { requirements: needs, used_names: named, ..CodeUnit::default() }
    }

    fn read_call(&mut self, call: &ExprCall) {
        if let Some(expectation) = Expectation::from_call(call) {
            let mut by: BTreeSet<String> = expectation.called_function.iter().cloned().collect();
            // `raises(KeyError, lambda: get(3))`
            for lambda in call.arguments.args.iter().filter_map(Expr::as_lambda_expr) {
                let mut calls = CallCollector::default();
                calls.visit_expr(&lambda.body);
                by.extend(calls.0);
            }
            self.add_expectation(&expectation, &by);
        }
        let name = last_component(&call.func);
        if name.as_deref().is_some_and(|name| name.starts_with("assert"))
            && call.arguments.args.iter().any(is_message)
        {
            let is_pattern = name.as_deref().is_some_and(|name| name.contains("Regex"));
            self.add_messages(call.arguments.args.iter(), is_pattern);
        }
        // `excinfo.match(PATTERN)`
        if let Expr::Attribute(method) = &*call.func
            && method.attr.as_str() == "match"
            && looks_like_exception(&method.value)
        {
            self.add_messages(call.arguments.args.iter(), true);
        }
        self.read_replacement(call);
        if self.file.is_foreign(&call.func) {
            return;
        }
        for keyword in call.arguments.keywords.iter().filter_map(|it| it.arg.as_ref()) {
            let by = self.requirements.keywords.entry(keyword.to_string()).or_default();
            by.extend(name.clone());
        }
    }

    /// Reads a call that replaces or deletes an attribute of the library, such as
    /// `monkeypatch.setattr(module, "name", value)` or `mock.patch("package.module.name")`.
    fn read_replacement(&mut self, call: &ExprCall) {
        let Some(function) = last_component(&call.func) else { return };
        let (first, second) = match &*call.arguments.args {
            [first, second, ..] => (first, Some(second)),
            [first] => (first, None),
            [] => return,
        };
        // The built-in function `setattr` says nothing about the library.
        let owner = call.func.as_attribute_expr().map(|it| &*it.value);
        let is_setter = matches!(function.as_str(), "setattr" | "delattr") && owner.is_some();
        let is_patch = function == "object"
            && owner.and_then(last_component).is_some_and(|name| name == "patch");
        let (by_path, by_name) = (is_setter || function == "patch", is_setter || is_patch);
        match (first, second) {
            (Expr::StringLiteral(path), _) if by_path => {
                let path = path.value.to_str();
                if let Some((_, name)) = path.rsplit_once('.')
                    && self.file.is_library_module(path)
                {
                    self.requirements.replaced.insert(name.to_owned(), path.to_owned());
                }
            }
            (owner, Some(Expr::StringLiteral(name))) if by_name && !self.file.is_foreign(owner) => {
                let Some(owner) = dotted_name(owner) else { return };
                let name = name.value.to_str();
                self.requirements.replaced.insert(name.to_owned(), format!("{owner}.{name}"));
            }
            _ => {}
        }
    }

    fn add_expectation(&mut self, expectation: &Expectation, functions: &BTreeSet<String>) {
        self.requirements.add_types(expectation, functions);
        let Some((expr, is_pattern)) = &expectation.text else { return };
        for (text, is_pattern) in self.possible_texts(expr, *is_pattern, 0) {
            self.requirements.add_message(&text, is_pattern, functions);
        }
    }

    fn add_messages<'a>(&mut self, exprs: impl Iterator<Item = &'a Expr>, is_pattern: bool) {
        for expr in exprs {
            for (text, is_pattern) in self.possible_texts(expr, is_pattern, 0) {
                self.requirements.add_message(&text, is_pattern, &BTreeSet::new());
            }
        }
    }

    /// Returns the texts that an expression can evaluate to, and whether each of them is a regular
    /// expression. A parameter of a parametrized test has one text for each row.
    fn possible_texts(&self, expr: &Expr, is_pattern: bool, depth: usize) -> Vec<(String, bool)> {
        let (exprs, is_pattern): (Vec<&Expr>, bool) = match expr {
            Expr::StringLiteral(literal) => {
                return vec![(literal.value.to_str().to_owned(), is_pattern)];
            }
            Expr::Name(name) => {
                let name = name.id.as_str();
                let values = match self.values.get(name) {
                    Some(values) => values.clone(),
                    None => {
                        self.file.definitions.variables.get(name).copied().into_iter().collect()
                    }
                };
                (values, is_pattern)
            }
            Expr::Call(call) => {
                let text: Vec<&Expr> = call.arguments.args.first().into_iter().collect();
                match last_component(&call.func).as_deref() {
                    Some("escape") => (text, false),
                    Some("compile") => (text, is_pattern),
                    _ => return Vec::new(),
                }
            }
            _ => return Vec::new(),
        };
        if depth == MAX_DEPTH {
            return Vec::new();
        }
        let texts = exprs.into_iter().map(|it| self.possible_texts(it, is_pattern, depth + 1));
        texts.flatten().collect()
    }
}

impl<'a> Visitor<'a> for UnitReader<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            // Skip docstrings.
            Stmt::Expr(expr) if expr.value.is_string_literal_expr() => return,
            Stmt::With(with) => {
                let expected = with.items.iter().filter_map(|item| match &item.context_expr {
                    Expr::Call(call) => Expectation::from_call(call),
                    _ => None,
                });
                for expectation in expected {
                    let mut calls = CallCollector::default();
                    with.body.iter().for_each(|stmt| calls.visit_stmt(stmt));
                    self.add_expectation(&expectation, &calls.0);
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => drop(self.loaded_names.insert(name.id.to_string())),
            Expr::StringLiteral(literal) => {
                self.requirements.strings.insert(literal.value.to_str().to_owned());
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.to_string();
                if let Some(owner) = dotted_name(&attribute.value) {
                    self.accessed_attributes.insert((owner, name.clone()));
                }
                let owner = attribute.value.as_name_expr().map(|it| it.id.as_str());
                if matches!(owner, Some("self" | "cls")) {
                    self.referenced_names.insert(qualified_name(self.class, &name));
                } else if !self.file.is_foreign(expr) {
                    let text = &self.file.text[expr.start().to_usize()..expr.end().to_usize()];
                    let is_short =
                        text.len() <= MAX_EXPRESSION_BYTES && !text.contains(['\n', '`']);
                    let text = if is_short { text.to_owned() } else { format!("(...).{name}") };
                    self.requirements.attributes.entry(name).or_insert(text);
                }
            }
            Expr::Compare(compare) => {
                let sides = || compare.comparators.iter().chain([&*compare.left]);
                if sides().any(is_message) {
                    self.add_messages(sides(), false);
                }
            }
            Expr::Call(call) => self.read_call(call),
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// Collects the names of called functions. Only the last component of a dotted name is kept.
#[derive(Default)]
struct CallCollector(BTreeSet<String>);

impl<'a> Visitor<'a> for CallCollector {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr {
            self.0.extend(last_component(&call.func));
        }
        visitor::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_FILE: &str = "\
import warnings
import os.path
import pytest
import pkg.deep as deep
from pkg import LIMIT, parse, errors
from .helpers import other

CASES = [('a', 'the first case'), ('b', LIMIT)]

@pytest.fixture
def tree():
    return parse('a fixture', strict_mode=True)

@pytest.fixture(autouse=True)
def quiet():
    deep.silence()

class Base:
    def test_inherited(self):
        assert parse('x')._cache == deep.DEPTH

class TestParse(Base):
    def setUp(self):
        self.made = errors.make()

    def helper(self):
        return os.path.join('only', 'foreign', sep=1)

    @pytest.mark.parametrize('one, two', CASES)
    def test_one(self, tree, one, two):
        '''A docstring is no text.'''
        self.helper()
        with pytest.raises(errors.ParseError, match=r'bad \\w+') as e:
            parse(one).walk()
        assert str(e.value) == 'bad token at 3'

def test_two(monkeypatch):
    monkeypatch.setattr(deep, '__spec__', None)
    monkeypatch.delattr('pkg.deep.timer')
    monkeypatch.setattr(os, 'sep', '/')
    assert deep.tell(2) == 'two'
    with pytest.warns(DeprecationWarning, match='use parse'):
        parse('x')
    pytest.raises((ValueError, KeyError), parse, 1)
    pytest.raises(KeyError, lambda: deep.tell(3))
    with pytest.raises(Exception):
        parse(2)
";

    fn read_sample() -> FileRequirements {
        FileRequirements::read(TEST_FILE, "tests.test_m", &BTreeSet::from(["pkg".to_owned()]))
    }

    fn name_set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn requirements_include_those_of_fixtures_and_variables() {
        let needs = read_sample()
            .requirements_for_test("tests/test_m.py::TestParse::test_one[a-the first case]");
        let names: Vec<String> =
            needs.names.iter().map(|(module, name)| format!("{module}:{name}")).collect();
        assert_eq!(
            names,
            [
                "pkg:LIMIT",
                "pkg:errors",
                "pkg:parse",
                "pkg.deep:silence",
                "pkg.errors:ParseError",
                "pkg.errors:make"
            ]
        );
        assert_eq!(
            needs.exceptions,
            BTreeMap::from([("ParseError".into(), name_set(&["parse", "walk"]))])
        );
        let texts: Vec<(&str, bool)> =
            needs.messages.iter().map(|(text, it)| (text.as_str(), it.is_pattern)).collect();
        assert_eq!(texts, [("bad \\w+", true), ("bad token at 3", false)]);
        assert!(needs.strings.contains("the first case") && needs.strings.contains("a fixture"));
        assert!(!needs.strings.iter().any(|it| it.contains("docstring")), "{:?}", needs.strings);
        assert_eq!(needs.keywords.get("strict_mode"), Some(&name_set(&["parse"])));
        // `sep` is an argument of another package's function.
        assert!(!needs.keywords.contains_key("sep"), "{:?}", needs.keywords);
        assert_eq!(needs.attributes["walk"], "parse(one).walk");
        assert!(!needs.attributes.contains_key("join") && needs.warnings.is_empty());
    }

    #[test]
    fn examples_include_the_comparisons_in_helpers() {
        let file = r#"
def check(expected, *args, loud=False):
    assert shout(*args, loud=loud) == expected

class ComposeTest(TestCase):
    BASE = "http://a/b"

    def check(self, uri, **kwargs):
        result = compose(**kwargs)
        self.assertEqual(uri, result, msg="%r != %r" % (uri, result))

    def check_join(self, ref, expected, strict=False):
        self.assertEqual(expected, join(self.BASE, ref, strict))
        self.assertEqual(expected.encode(), join(ref.encode(), strict))

    def join(self, base, ref, expected):
        self.assertEqual(expected, join(base, ref))

    def test_compose(self):
        self.check("foo:", scheme="foo", path=b"")
        self.check("")
        cases = [("a:", "A"), ("b:", b"B")]
        for uri, scheme in cases:
            self.check(uri, scheme=scheme)
        for scheme in (1, 2):
            with self.assertRaises(TypeError):
                compose(scheme=scheme)
        scheme = unknown()
        self.check("c:", scheme=scheme)

    def test_join(self):
        self.join(self.BASE, "c", "http://a/c")
        self.check_join("c", "http://a/c")

    def test_plain(self):
        check("A B", "a", "b")
        check("C!", "c", loud=True)
        check()
"#;
        let read = FileRequirements::read(file, "tests.test_m", &BTreeSet::new());
        for (test, expected) in [
            (
                "test_compose",
                vec![
                    r#"compose(scheme="foo", path=b"") == "foo:""#,
                    r#"compose() == """#,
                    r#"compose(scheme="A") == "a:""#,
                    r#"compose(scheme=b"B") == "b:""#,
                ],
            ),
            ("test_join", vec![r#"join("http://a/b", "c") == "http://a/c""#]),
        ] {
            let needs = read.requirements_for_test(&format!("t.py::ComposeTest::{test}"));
            let codes: Vec<&str> =
                needs.examples.iter().filter_map(|it| it.code.as_deref()).collect();
            assert_eq!(codes, expected, "{test}");
            assert!(needs.examples.iter().all(|it| !it.uses_state), "{test}");
        }
        let needs = read.requirements_for_test("t.py::ComposeTest::test_plain");
        let codes: Vec<&str> = needs.examples.iter().filter_map(|it| it.code.as_deref()).collect();
        assert_eq!(
            codes,
            [r#"shout("a", "b", loud=False) == "A B""#, r#"shout("c", loud=True) == "C!""#]
        );
    }

    #[test]
    fn messages_can_come_from_parameters_and_variables() {
        let file = r#"
import pytest, re
SHARED = "the shared text"
CASES = pytest.mark.parametrize("value, text", [("c", "named (1)"), ("d", re.escape("named (2)"))])

@pytest.mark.parametrize(["value", "match"], [("a", "first .*"), ("b".encode(), "second")])
def test_rows(value, match):
    with pytest.raises(ValueError, match=match):
        parse(value)

@CASES
def test_escaped(value, text):
    with pytest.raises(ValueError, match=re.escape(text)) as e:
        parse(value)
    assert str(e.value) != SHARED

def test_local():
    message = "a local text"
    with self.assertRaisesRegex(ValueError, message):
        parse("x")
    with pytest.raises(KeyError, match=unknown):
        parse("y")
"#;
        let read = FileRequirements::read(file, "tests.test_m", &BTreeSet::new());
        for (test, expected) in [
            ("test_rows", vec![("first .*", true), ("second", true)]),
            (
                "test_escaped",
                vec![("named (1)", false), ("named (2)", false), ("the shared text", false)],
            ),
            ("test_local", vec![("a local text", true)]),
        ] {
            let needs = read.requirements_for_test(&format!("tests/test_m.py::{test}"));
            let found: Vec<(&str, bool)> =
                needs.messages.iter().map(|(text, it)| (text.as_str(), it.is_pattern)).collect();
            assert_eq!(found, expected, "{test}");
        }
        let needs = read.requirements_for_test("tests/test_m.py::test_rows");
        assert_eq!(needs.messages["second"].functions, name_set(&["parse"]));
    }

    #[test]
    fn expected_exceptions_are_recorded_with_the_called_functions() {
        let needs = read_sample().requirements_for_test("tests/test_m.py::test_two");
        assert_eq!(
            needs.warnings,
            BTreeMap::from([("DeprecationWarning".into(), name_set(&["parse"]))])
        );
        let replaced: Vec<&str> = needs.replaced.values().map(String::as_str).collect();
        assert_eq!(replaced, ["deep.__spec__", "pkg.deep.timer"]);
        let codes: Vec<&str> = needs.examples.iter().filter_map(|it| it.code.as_deref()).collect();
        assert_eq!(codes, ["deep.tell(2) == 'two'"]);
        let raised: Vec<&str> = needs.exceptions.keys().map(String::as_str).collect();
        // `Exception` is not recorded, because it matches any exception.
        assert_eq!(raised, ["KeyError", "ValueError"]);
        assert_eq!(needs.exceptions["KeyError"], name_set(&["parse", "tell"]));
    }

    #[test]
    fn inherited_test_has_the_requirements_of_the_base_class_method() {
        let needs =
            read_sample().requirements_for_test("tests/test_m.py::TestParse::test_inherited");
        assert_eq!(needs.attributes["_cache"], "parse('x')._cache");
        assert!(needs.names.contains(&("pkg.deep".into(), "DEPTH".into())), "{:?}", needs.names);
        assert_eq!(
            read_sample().requirements_for_test("tests/test_m.py::test_none"),
            TestRequirements::default()
        );
    }
}
