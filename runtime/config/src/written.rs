//! A configuration as the user wrote it: which file and line, or which `--set`, contains a key.

use std::path::Path;

use proctor_types::one_line;
use toml::{Table, Value};

use crate::{
    UserError,
    base::Files,
    matrix::{ArmOrigin, Crossed, shown},
    {set, walk::Problem},
};

/// What was read, before any arm inherits. The default is a configuration without a file.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// The file and its bases, merged, with every `--set` applied.
    table: Table,
    files: Files,
    sets: Vec<Vec<String>>,
    /// The result of the matrix. Paths that are looked up refer to the resulting arms and models.
    crossed: Crossed,
}

impl Written {
    /// Reads a file with its bases and applies the `--set` values.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, UserError> {
        let (files, table) = Files::read(path, sets)?;
        let mut written = Self { table, files, sets: Vec::new(), crossed: Crossed::default() };
        for one in sets {
            written.sets.push(set::lay(&mut written.table, one)?);
        }
        Ok(written)
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn cross(&mut self, crossed: Crossed) {
        self.crossed = crossed;
    }

    /// Keeps only some of its arms: `kept` has their names by their previous index.
    pub(crate) fn with_arms(&self, kept: &[(usize, String)]) -> Self {
        let arms = kept.iter().map(|(index, name)| {
            self.crossed.arms.get(*index).cloned().unwrap_or_else(|| ArmOrigin {
                name: name.clone(),
                arm: Some(*index),
                keys: Vec::new(),
            })
        });
        let models = self.crossed.models.clone();
        Self { crossed: Crossed { arms: arms.collect(), models }, ..self.clone() }
    }

    /// A sort key that orders keys as they are written; those of a base come first.
    pub(crate) fn position(&self, path: &[String]) -> Option<(usize, usize)> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        self.files.place(&path).map(|place| (usize::MAX - place.file, place.at))
    }

    /// The file in which a key's value was written, or `None` if it came from `--set`.
    pub(crate) fn file_of(&self, path: &[&str]) -> Option<&Path> {
        match self.source(path) {
            Source::Set => None,
            Source::Line(file, _) => self.files.path(file),
            Source::File => self.files.path(0),
        }
    }

    /// Where a key of an arm or model made by a matrix was written; any other key unchanged.
    fn real(&self, path: &[&str]) -> Vec<String> {
        let owned = |path: &[&str]| path.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let (keys, rest, otherwise) = match path {
            ["arms", index, rest @ ..] => {
                let arm =
                    index.parse::<usize>().ok().and_then(|index| self.crossed.arms.get(index));
                let Some(arm) = arm else { return owned(path) };
                let otherwise = match arm.arm {
                    Some(index) => vec!["arms".to_owned(), index.to_string()],
                    None => vec!["matrix".to_owned()],
                };
                (&arm.keys, rest, otherwise)
            }
            ["models", name, rest @ ..] => {
                let Some(model) = self.crossed.models.get(*name) else { return owned(path) };
                (&model.keys, rest, vec!["models".to_owned(), model.model.clone()])
            }
            _ => return owned(path),
        };
        // The last one laid is the one that holds.
        let laid = keys.iter().rev().find(|(key, _)| {
            key.len() <= rest.len() && key.iter().zip(rest).all(|(key, part)| key == part)
        });
        match laid {
            Some((key, at)) => [at.clone(), owned(&rest[key.len()..])].concat(),
            // A matrix without arms has none of their keys.
            None if otherwise.len() == 1 => otherwise,
            None => [otherwise, owned(rest)].concat(),
        }
    }

    /// An error about a key.
    pub fn error(&self, path: &[&str], what: impl std::fmt::Display) -> UserError {
        UserError::new(one_line(&format!("{}: {what}", self.at(path))))
    }

    /// The same error, with the key that it is about.
    pub fn about(&self, path: &[&str], error: UserError) -> UserError {
        UserError { hint: error.hint, ..self.error(path, error.what) }
    }

    pub fn problem(&self, problem: &Problem) -> UserError {
        let path: Vec<&str> = problem.path.iter().map(String::as_str).collect();
        self.error(&path, &problem.wrong.what).hint(&problem.wrong.hint)
    }

    /// The key of an arm's table as it was written: the arm's own, or the one that it inherits.
    pub fn of_arm<'a>(&self, index: &'a str, table: &'a str, key: &'a str) -> Vec<&'a str> {
        let own = vec!["arms", index, table, key];
        let top = vec![table, key];
        match (self.find(&own), self.find(&top)) {
            (None, Some(_)) => top,
            _ => own,
        }
    }

    /// Whether a key has its value from `--set`.
    pub fn is_set(&self, path: &[&str]) -> bool {
        matches!(self.source(path), Source::Set)
    }

    /// Whether a key is written at all.
    pub fn has(&self, path: &[&str]) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &[&str]) -> Option<&Value> {
        let path = self.real(path);
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.table.get(first)?, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            value => value.get(part),
        })
    }

    /// ``run.toml:7: key `budget.steps` ``, with the arm's name where it is an arm's.
    fn at(&self, path: &[&str]) -> String {
        let mut place = match self.source(path) {
            Source::Set => "--set: ".to_owned(),
            Source::Line(file, line) => format!("{}:{line}: ", self.files.shown(file)),
            Source::File if self.files.shown(0).is_empty() => String::new(),
            Source::File => format!("{}: ", self.files.shown(0)),
        };
        let real = self.real(path);
        let real: Vec<&str> = real.iter().map(String::as_str).collect();
        // A value of a matrix is told itself: its number in the list would say little.
        let (key, value) = match &real[..] {
            ["matrix", key @ .., last] if last.parse::<usize>().is_ok() && !key.is_empty() => {
                (&real[..real.len() - 1], self.find(&real))
            }
            ["matrix", "include", _, _, ..] => (&real[..], self.find(&real)),
            _ => (&real[..], None),
        };
        place.push_str(&format!("key `{}`", joined(key)));
        if let Some(value) = value {
            place.push_str(&format!(", value `{}`", shown(value)));
        }
        if let ["arms", index, _, ..] = path {
            let crossed =
                index.parse::<usize>().ok().and_then(|index| self.crossed.arms.get(index));
            let written = match self.find(&["arms", index, "name"]) {
                Some(Value::String(name)) => Some(name.as_str()),
                _ => None,
            };
            if let Some(name) = crossed.map(|arm| arm.name.as_str()).or(written) {
                place.push_str(&format!(" (arm `{name}`)"));
            }
        }
        place
    }

    fn source(&self, path: &[&str]) -> Source {
        let real = self.real(path);
        let real: Vec<&str> = real.iter().map(String::as_str).collect();
        let path = &real[..];
        let within = |set: &&Vec<String>| {
            set.len() <= path.len() && set.iter().zip(path).all(|(set, part)| set == part)
        };
        if self.sets.iter().any(|set| within(&set)) {
            return Source::Set;
        }
        match self.files.place(path) {
            Some(place) => Source::Line(place.file, place.line),
            // A table that only a `--set` below it made.
            None if self
                .sets
                .iter()
                .any(|set| path.iter().zip(set).all(|(part, set)| set == part)) =>
            {
                Source::Set
            }
            None => Source::File,
        }
    }
}

enum Source {
    Set,
    /// The number of the file, and the line.
    Line(usize, usize),
    /// The file that was asked for, which lacks the key.
    File,
}

/// As it would be written after `--set`: a part with characters of its own in quotes.
pub(crate) fn joined(path: &[&str]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part = |part: &&str| match part.chars().all(bare) && !part.is_empty() {
        true => (*part).to_owned(),
        false => format!("{part:?}"),
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}
