//! A configuration as the user wrote it: which file and line, or which `--set`, has a key.

use std::path::Path;

use proctor_types::one_line;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use crate::{
    UserError,
    matrix::{ArmOrigin, Crossed, shown},
    {set, walk::Problem},
};

/// What was read, before any arm inherits. The default is a configuration that no file has.
#[derive(Debug, Clone, Default)]
pub struct Written {
    shown: String,
    text: String,
    table: Table,
    sets: Vec<Vec<String>>,
    /// What a matrix made of it. Every path that is asked for is one of the arms and models that came of it.
    crossed: Crossed,
}

impl Written {
    /// Reads a file and lays the `--set` values over it.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, UserError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            UserError::new(format!("cannot read {shown}: {error}"))
                .hint("name a TOML file; configs/demo.toml is one")
        })?;
        let table = toml::from_str(&text).map_err(|error| not_toml(&shown, &text, &error))?;
        let mut written =
            Self { shown, text, table, sets: Vec::new(), crossed: Crossed::default() };
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

    /// The same with some of its arms alone: `kept` has their names by the index that they had.
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

    /// Where in the file the longest part of a path that is there begins.
    pub(crate) fn position(&self, path: &[String]) -> Option<usize> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        DeTable::parse(&self.text).ok().and_then(|tree| offset(tree.get_ref(), &path))
    }

    /// Where a key of an arm or model that a matrix made was written; any other key as it is.
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
            Source::Line(line) => format!("{}:{line}: ", self.shown),
            Source::File if self.shown.is_empty() => String::new(),
            Source::File => format!("{}: ", self.shown),
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
        match DeTable::parse(&self.text).ok().and_then(|tree| offset(tree.get_ref(), path)) {
            Some(at) => Source::Line(line(&self.text, at)),
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
    Line(usize),
    /// The file, which lacks the key.
    File,
}

/// Where the longest part of a path that is there begins.
fn offset(table: &DeTable<'_>, path: &[&str]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (name, value) = table.get_key_value(*first)?;
    let mut at = name.span().start;
    let mut value = value.get_ref();
    for part in rest {
        value = match value {
            DeValue::Table(table) => {
                let Some((name, value)) = table.get_key_value(*part) else { break };
                at = name.span().start;
                value.get_ref()
            }
            DeValue::Array(items) => {
                let Some(item) = part.parse::<usize>().ok().and_then(|at| items.get(at)) else {
                    break;
                };
                at = item.span().start;
                item.get_ref()
            }
            _ => break,
        };
    }
    Some(at)
}

fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// As it would be written after `--set`: a part with characters of its own in quotes.
fn joined(path: &[&str]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part = |part: &&str| match part.chars().all(bare) && !part.is_empty() {
        true => (*part).to_owned(),
        false => format!("{part:?}"),
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// The parser's own text shows the line, which may hold a secret: only its place and reason are told.
fn not_toml(shown: &str, text: &str, error: &toml::de::Error) -> UserError {
    let line = error.span().map_or(1, |span| line(text, span.start));
    let why = error.message().lines().next().unwrap_or_default();
    let why = why.replace(", expected ", "; here belongs ");
    // The parser is done with the form of the text; a number that no type holds comes later.
    let key = error.span().and_then(|span| {
        let tree = DeTable::parse(text).ok()?;
        around(tree.get_ref(), span.start)
    });
    match key {
        Some(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let what = format!("{shown}:{line}: key `{}`: a number out of range", joined(&path));
            UserError::new(one_line(&what)).hint("write a number of at most 18 digits")
        }
        None => UserError::new(one_line(&format!("{shown}:{line}: is not TOML: {why}")))
            .hint("correct this line; https://toml.io shows the form"),
    }
}

/// The key whose value stands at a place.
fn around(table: &DeTable<'_>, at: usize) -> Option<Vec<String>> {
    fn within(value: &DeValue<'_>, at: usize) -> Option<Vec<String>> {
        match value {
            DeValue::Table(table) => around(table, at),
            DeValue::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
                let below = within(item.get_ref(), at)?;
                Some([vec![index.to_string()], below].concat())
            }),
            _ => None,
        }
    }
    table.iter().find_map(|(name, value)| {
        let name = name.get_ref().to_string();
        match within(value.get_ref(), at) {
            Some(below) => Some([vec![name], below].concat()),
            None => {
                let plain = !value.get_ref().is_table() && value.span().contains(&at);
                plain.then(|| vec![name])
            }
        }
    })
}
