//! A configuration as written by the user: maps each key to its file and line, or to its `--set`.

use std::{collections::BTreeMap, path::Path};

use proctor_types::one_line;
use toml::{Table, Value};

use crate::{
    UserError,
    base::SourceFiles,
    kind::display_value,
    reader::BuiltinLookup,
    set::{self, join_key},
    walk::KeyProblem,
};

/// A configuration before arms inherit keys. The default value belongs to no configuration file.
#[derive(Debug, Clone, Default)]
pub struct ConfigSource {
    /// The file and its bases, merged, with every `--set` applied.
    table: Table,
    files: SourceFiles,
    set_keys: Vec<Vec<String>>,
    /// The result of the matrix. Paths refer to the resulting arms and models.
    matrix_origins: MatrixOrigins,
}

/// The locations where the arms and models of a matrix were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct MatrixOrigins {
    pub(crate) arms: Vec<ArmOrigin>,
    pub(crate) models: BTreeMap<String, ModelOrigin>,
}

/// The origin of an arm created by a matrix.
#[derive(Debug, Clone)]
pub(crate) struct ArmOrigin {
    pub(crate) name: String,
    /// Index of the arm's `[[arms]]` table, or `None` if only the matrix created the arm.
    pub(crate) arm_index: Option<usize>,
    /// Paths below the arm, each with the path where its value was written.
    pub(crate) keys: Vec<(Vec<String>, Vec<String>)>,
}

/// The origin of a model that the matrix created with its own sampling settings.
#[derive(Debug, Clone)]
pub(crate) struct ModelOrigin {
    pub(crate) model: String,
    pub(crate) keys: Vec<(Vec<String>, Vec<String>)>,
}

impl ConfigSource {
    /// Reads a file with its bases and applies the `--set` values.
    pub(crate) fn read(
        path: &Path,
        sets: &[String],
        builtins: BuiltinLookup<'_>,
    ) -> Result<Self, UserError> {
        let (files, table) = SourceFiles::read(path, sets, builtins)?;
        let mut written =
            Self { table, files, set_keys: Vec::new(), matrix_origins: MatrixOrigins::default() };
        for one in sets {
            written.set_keys.push(set::apply_assignment(&mut written.table, one)?);
        }
        Ok(written)
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn set_matrix_origins(&mut self, origins: MatrixOrigins) {
        self.matrix_origins = origins;
    }

    /// Keeps only some arms. `selected_arms` contains each remaining arm's previous index and name.
    pub(crate) fn with_arms(&self, selected_arms: &[(usize, String)]) -> Self {
        let arms = selected_arms.iter().map(|(index, name)| {
            self.matrix_origins.arms.get(*index).cloned().unwrap_or_else(|| ArmOrigin {
                name: name.clone(),
                arm_index: Some(*index),
                keys: Vec::new(),
            })
        });
        let models = self.matrix_origins.models.clone();
        Self { matrix_origins: MatrixOrigins { arms: arms.collect(), models }, ..self.clone() }
    }

    /// Returns a sort key that orders keys as written, with those of a base first.
    pub(crate) fn sort_key(&self, path: &[String]) -> Option<(usize, usize)> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        self.files.locate(&path).map(|place| (usize::MAX - place.file, place.offset))
    }

    /// Returns the file in which a key's value was written, or `None` if it came from `--set`.
    pub(crate) fn source_file(&self, path: &[&str]) -> Option<&Path> {
        match self.key_source(path) {
            KeySource::SetOption => None,
            KeySource::Line(file, _) => self.files.path(file),
            KeySource::File => self.files.path(0),
        }
    }

    /// Returns the path at which the file contains a key of an arm or model that a matrix created.
    /// Other paths are returned unchanged.
    fn written_path(&self, path: &[&str]) -> Vec<String> {
        let owned = |path: &[&str]| path.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let (keys, rest, otherwise) = match path {
            ["arms", index, rest @ ..] => {
                let arm = index
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| self.matrix_origins.arms.get(index));
                let Some(arm) = arm else { return owned(path) };
                let otherwise = match arm.arm_index {
                    Some(index) => vec!["arms".to_owned(), index.to_string()],
                    None => vec!["matrix".to_owned()],
                };
                (&arm.keys, rest, otherwise)
            }
            ["models", name, rest @ ..] => {
                let Some(model) = self.matrix_origins.models.get(*name) else { return owned(path) };
                (&model.keys, rest, vec!["models".to_owned(), model.model.clone()])
            }
            _ => return owned(path),
        };
        // The last matching choice overrides earlier ones.
        let laid = keys.iter().rev().find(|(key, _)| {
            key.len() <= rest.len() && key.iter().zip(rest).all(|(key, part)| key == part)
        });
        match laid {
            Some((key, at)) => [at.clone(), owned(&rest[key.len()..])].concat(),
            // A matrix without arms has no keys to fall back to.
            None if otherwise.len() == 1 => otherwise,
            None => [otherwise, owned(rest)].concat(),
        }
    }

    /// Returns an error about a key.
    pub fn error(&self, path: &[&str], message: impl std::fmt::Display) -> UserError {
        UserError::new(one_line(&format!("{}: {message}", self.describe_location(path))))
    }

    /// Adds the location of a key to an error.
    pub fn locate_error(&self, path: &[&str], error: UserError) -> UserError {
        UserError { hint: error.hint, ..self.error(path, error.message) }
    }

    pub fn error_from_problem(&self, problem: &KeyProblem) -> UserError {
        let path: Vec<&str> = problem.path.iter().map(String::as_str).collect();
        self.error(&path, &problem.error.message).hint(&problem.error.hint)
    }

    /// Returns the path of an arm's key as written: the arm's own key, or the top-level one that
    /// it inherits.
    pub fn arm_key_path<'a>(&self, index: &'a str, table: &'a str, key: &'a str) -> Vec<&'a str> {
        let own = vec!["arms", index, table, key];
        let top = vec![table, key];
        match (self.value_at(&own), self.value_at(&top)) {
            (None, Some(_)) => top,
            _ => own,
        }
    }

    /// Whether a key's value comes from `--set`.
    pub fn is_set(&self, path: &[&str]) -> bool {
        matches!(self.key_source(path), KeySource::SetOption)
    }

    /// Whether the file or a `--set` contains a key.
    pub fn contains(&self, path: &[&str]) -> bool {
        self.value_at(path).is_some()
    }

    fn value_at(&self, path: &[&str]) -> Option<&Value> {
        let path = self.written_path(path);
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.table.get(first)?, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            value => value.get(part),
        })
    }

    /// Formats a location, such as ``run.toml:7: key `budget.steps` ``. Adds the arm's name for a
    /// key of an arm.
    fn describe_location(&self, path: &[&str]) -> String {
        let mut place = match self.key_source(path) {
            KeySource::SetOption => "--set: ".to_owned(),
            KeySource::Line(file, line) => format!("{}:{line}: ", self.files.display_path(file)),
            KeySource::File if self.files.display_path(0).is_empty() => String::new(),
            KeySource::File => format!("{}: ", self.files.display_path(0)),
        };
        let real = self.written_path(path);
        let real: Vec<&str> = real.iter().map(String::as_str).collect();
        // For a matrix value, show the value itself, because its list index would not be helpful.
        let (key, value) = match &real[..] {
            ["matrix", key @ .., last] if last.parse::<usize>().is_ok() && !key.is_empty() => {
                (&real[..real.len() - 1], self.value_at(&real))
            }
            ["matrix", "include", _, _, ..] => (&real[..], self.value_at(&real)),
            _ => (&real[..], None),
        };
        place.push_str(&format!("key `{}`", join_key(key)));
        if let Some(value) = value {
            place.push_str(&format!(", value `{}`", display_value(value)));
        }
        if let ["arms", index, _, ..] = path {
            let crossed =
                index.parse::<usize>().ok().and_then(|index| self.matrix_origins.arms.get(index));
            let written = match self.value_at(&["arms", index, "name"]) {
                Some(Value::String(name)) => Some(name.as_str()),
                _ => None,
            };
            if let Some(name) = crossed.map(|arm| arm.name.as_str()).or(written) {
                place.push_str(&format!(" (arm `{name}`)"));
            }
        }
        place
    }

    fn key_source(&self, path: &[&str]) -> KeySource {
        let real = self.written_path(path);
        let real: Vec<&str> = real.iter().map(String::as_str).collect();
        let path = &real[..];
        let within = |set: &&Vec<String>| {
            set.len() <= path.len() && set.iter().zip(path).all(|(set, part)| set == part)
        };
        if self.set_keys.iter().any(|set| within(&set)) {
            return KeySource::SetOption;
        }
        match self.files.locate(path) {
            Some(place) => KeySource::Line(place.file, place.line),
            // This table exists only because a `--set` sets a key below it.
            None if self
                .set_keys
                .iter()
                .any(|set| path.iter().zip(set).all(|(part, set)| set == part)) =>
            {
                KeySource::SetOption
            }
            None => KeySource::File,
        }
    }
}

enum KeySource {
    SetOption,
    /// The index of the file, and the line.
    Line(usize, usize),
    /// The key is missing from the requested file.
    File,
}
