//! The functions, methods and classes in a package. A collection may remove them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::calls::CodeObject;
use crate::{
    Kind,
    carve::{Definition, Traits, definitions},
};

/// A function, method or class. If its dotted path is defined several times, all definitions are
/// included.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) file: String,
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Number of lines, summed over all definitions.
    pub(super) line_count: usize,
    definitions: Vec<Definition>,
}

impl Object {
    /// Returns `file::path`.
    pub(super) fn id(&self) -> String {
        format!("{}::{}", self.file, self.path)
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// Returns the source text of each definition.
    pub(super) fn code(&self, file: &str) -> Vec<String> {
        let lines: Vec<&str> = file.lines().collect();
        let of = |it: &Definition| lines.get(it.first - 1..it.last.min(lines.len()));
        self.definitions.iter().filter_map(of).map(|lines| lines.join("\n")).collect()
    }

    /// Returns the traits of each definition, last definition first.
    pub(super) fn traits(&self) -> impl Iterator<Item = &Traits> {
        self.definitions.iter().rev().map(|it| &it.traits)
    }

    /// Returns the dotted path of the class if this is a method.
    pub(super) fn class(&self) -> Option<&str> {
        let (class, _) = self.path.rsplit_once('.')?;
        (self.kind == Kind::Method).then_some(class)
    }
}

/// A node in the call graph. It stands for one or more code objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    /// A function, by its index in [`Objects::list`].
    Object(usize),
    /// The statements of a module that run at import time, including class bodies.
    Module(String),
    /// A lambda or generator expression at module level, by file and line.
    ModuleExpression(String, usize),
    /// Code outside the package, such as tests, fixtures and helpers.
    External(CodeObject),
}

/// The objects of a package, sorted by file and path.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    pub(super) list: Vec<Object>,
    files: BTreeMap<String, Vec<usize>>,
}

impl Objects {
    /// Collects the objects in the given files. Skips files that cannot be parsed, such as
    /// templates or Python 2 code.
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
                    line_count: 0,
                    definitions: Vec::new(),
                });
                object.line_count += definition.line_count();
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

    /// Returns the paths of the scanned files.
    pub(super) fn modules(&self) -> BTreeSet<String> {
        self.files.keys().cloned().collect()
    }

    /// Returns the index of the object at a dotted path in a file.
    pub(super) fn find_by_path(&self, file: &str, path: &str) -> Option<usize> {
        let is_it = |it: &usize| self.list.get(*it).is_some_and(|object| object.path == path);
        self.files.get(file)?.iter().copied().find(is_it)
    }

    /// Returns the function whose body is `code`. Returns `None` for code that is nested in a
    /// function, such as a lambda.
    pub(super) fn find_by_code(&self, code: &CodeObject) -> Option<usize> {
        let is_it = |index: &usize| {
            self.list.get(*index).is_some_and(|object| {
                let begins = |it: &Definition| it.first == code.line || it.line == code.line;
                object.kind != Kind::Class
                    && object.name() == code.name
                    && object.definitions.iter().any(begins)
            })
        };
        self.files.get(&code.file)?.iter().copied().find(is_it)
    }

    /// Returns the node for a code object. Code that is nested in a function belongs to that
    /// function.
    pub(super) fn node_for_code(&self, code: &CodeObject) -> Node {
        let Some(of_file) = self.files.get(&code.file) else { return Node::External(code.clone()) };
        if code.name == "<module>" {
            return Node::Module(code.file.clone());
        }
        let begins_here = |definition: &Definition| {
            (definition.first == code.line || definition.line == code.line)
                && definition.name() == code.name
        };
        let mut innermost: Option<(usize, usize)> = None;
        for &index in of_file {
            let Some(object) = self.list.get(index) else { continue };
            if object.definitions.iter().any(begins_here) {
                return match object.kind {
                    Kind::Class => Node::Module(code.file.clone()),
                    Kind::Function | Kind::Method => Node::Object(index),
                };
            }
            if object.kind == Kind::Class {
                continue;
            }
            for definition in &object.definitions {
                let holds = (definition.first..=definition.last).contains(&code.line);
                let closer = innermost.is_none_or(|(first, _)| definition.first > first);
                if holds && closer {
                    innermost = Some((definition.first, index));
                }
            }
        }
        match innermost {
            Some((_, index)) => Node::Object(index),
            None => Node::ModuleExpression(code.file.clone(), code.line),
        }
    }

    /// Returns the functions that the given objects use as values, for example as callbacks. Each
    /// name is looked up first in the object's own file and then in all files.
    pub(super) fn functions_used_as_values(&self, users: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut functions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, object) in self.list.iter().enumerate() {
            if object.kind == Kind::Function {
                functions.entry(&object.path).or_default().push(index);
            }
        }
        let mut out = BTreeSet::new();
        for object in users.iter().filter_map(|&index| self.list.get(index)) {
            for name in object.definitions.iter().flat_map(|definition| &definition.values) {
                let Some(found) = functions.get(name.as_str()) else { continue };
                let here = |index: &&usize| {
                    self.list.get(**index).is_some_and(|other| other.file == object.file)
                };
                match found.iter().find(here) {
                    Some(index) => drop(out.insert(*index)),
                    None => out.extend(found),
                }
            }
        }
        out
    }

    /// Returns the objects' paths, grouped by file as carving expects them.
    pub(super) fn paths_by_file(&self, indices: &BTreeSet<usize>) -> BTreeMap<String, Vec<String>> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in indices.iter().filter_map(|&index| self.list.get(index)) {
            out.entry(object.file.clone()).or_default().push(object.path.clone());
        }
        out
    }
}
