//! The objects that can be removed: functions, methods and classes of a package.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::calls::Code;
use crate::{
    Kind,
    carve::{Definition, Traits, definitions},
};

/// All definitions of one path.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) file: String,
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Of all its definitions.
    pub(super) lines: usize,
    definitions: Vec<Definition>,
}

impl Object {
    /// `file::path`.
    pub(super) fn id(&self) -> String {
        format!("{}::{}", self.file, self.path)
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// The text of each of its definitions.
    pub(super) fn code(&self, file: &str) -> Vec<String> {
        let lines: Vec<&str> = file.lines().collect();
        let of = |it: &Definition| lines.get(it.first - 1..it.last.min(lines.len()));
        self.definitions.iter().filter_map(of).map(|lines| lines.join("\n")).collect()
    }

    /// The traits of its definitions, the last one's first.
    pub(super) fn traits(&self) -> impl Iterator<Item = &Traits> {
        self.definitions.iter().rev().map(|it| &it.traits)
    }

    /// The class of a method.
    pub(super) fn class(&self) -> Option<&str> {
        let (class, _) = self.path.rsplit_once('.')?;
        (self.kind == Kind::Method).then_some(class)
    }
}

/// What a code object represents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    /// By its number in [`Objects`].
    Object(usize),
    /// The statements of a module that run at import, including class bodies.
    Module(String),
    /// A lambda or a generator in a module's statements.
    Loose(String, usize),
    /// Outside the package: tests, their fixtures and helpers.
    Outside(Code),
}

/// The objects of a package, in file and path order.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    pub(super) list: Vec<Object>,
    files: BTreeMap<String, Vec<usize>>,
}

impl Objects {
    /// Files that cannot be parsed have none: a template, an old dialect.
    pub(super) fn scan(tree: &Path, modules: &[String]) -> Self {
        let mut out = Self::default();
        for file in modules {
            let text = fs::read_to_string(tree.join(file)).unwrap_or_default();
            let found = definitions(file, &text).unwrap_or_default();
            let mut by_path: BTreeMap<String, Object> = BTreeMap::new();
            for definition in found {
                let object = by_path.entry(definition.path.clone()).or_insert_with(|| Object {
                    file: file.clone(),
                    path: definition.path.clone(),
                    kind: definition.kind,
                    lines: 0,
                    definitions: Vec::new(),
                });
                object.lines += definition.lines();
                object.definitions.push(definition);
            }
            let of_file = out.files.entry(file.clone()).or_default();
            for (_, object) in by_path {
                of_file.push(out.list.len());
                out.list.push(object);
            }
        }
        out
    }

    /// The files that were scanned.
    pub(super) fn modules(&self) -> BTreeSet<String> {
        self.files.keys().cloned().collect()
    }

    /// The object at a dotted path of a file.
    pub(super) fn number(&self, file: &str, path: &str) -> Option<usize> {
        let is_it = |it: &usize| self.list.get(*it).is_some_and(|object| object.path == path);
        self.files.get(file)?.iter().copied().find(is_it)
    }

    /// The function with exactly this code object.
    pub(super) fn function(&self, code: &Code) -> Option<usize> {
        let is_it = |number: &usize| {
            self.list.get(*number).is_some_and(|object| {
                let begins = |it: &Definition| it.first == code.line || it.line == code.line;
                object.kind != Kind::Class
                    && object.name() == code.name
                    && object.definitions.iter().any(begins)
            })
        };
        self.files.get(&code.file)?.iter().copied().find(is_it)
    }

    /// What a code object represents. Code inside a function counts as the function.
    pub(super) fn node(&self, code: &Code) -> Node {
        let Some(of_file) = self.files.get(&code.file) else { return Node::Outside(code.clone()) };
        if code.name == "<module>" {
            return Node::Module(code.file.clone());
        }
        let begins_here = |definition: &Definition| {
            (definition.first == code.line || definition.line == code.line)
                && definition.name() == code.name
        };
        let mut innermost: Option<(usize, usize)> = None;
        for &number in of_file {
            let Some(object) = self.list.get(number) else { continue };
            if object.definitions.iter().any(begins_here) {
                return match object.kind {
                    Kind::Class => Node::Module(code.file.clone()),
                    Kind::Function | Kind::Method => Node::Object(number),
                };
            }
            if object.kind == Kind::Class {
                continue;
            }
            for definition in &object.definitions {
                let holds = (definition.first..=definition.last).contains(&code.line);
                let closer = innermost.is_none_or(|(first, _)| definition.first > first);
                if holds && closer {
                    innermost = Some((definition.first, number));
                }
            }
        }
        match innermost {
            Some((_, number)) => Node::Object(number),
            None => Node::Loose(code.file.clone(), code.line),
        }
    }

    /// The functions that some objects pass on when they run, by name: of their own file, or else
    /// of any.
    pub(super) fn handed_on(&self, by: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut functions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, object) in self.list.iter().enumerate() {
            if object.kind == Kind::Function {
                functions.entry(&object.path).or_default().push(number);
            }
        }
        let mut out = BTreeSet::new();
        for object in by.iter().filter_map(|&number| self.list.get(number)) {
            for name in object.definitions.iter().flat_map(|definition| &definition.values) {
                let Some(found) = functions.get(name.as_str()) else { continue };
                let here = |number: &&usize| {
                    self.list.get(**number).is_some_and(|other| other.file == object.file)
                };
                match found.iter().find(here) {
                    Some(number) => drop(out.insert(*number)),
                    None => out.extend(found),
                }
            }
        }
        out
    }

    /// Paths by file, as a carve needs them. A method of a removed class is not listed.
    pub(super) fn wanted(&self, numbers: &BTreeSet<usize>) -> BTreeMap<String, Vec<String>> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in numbers.iter().filter_map(|&number| self.list.get(number)) {
            out.entry(object.file.clone()).or_default().push(object.path.clone());
        }
        out
    }
}
