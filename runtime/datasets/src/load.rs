//! Files and globs to rows.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proctor_types::{Task, TaskId};
use serde_json::Value;

use crate::{
    BadRow, DatasetError, RecipeFile,
    bad::Complaint,
    recipe::{self, Recipe},
    row,
};

/// Where a task came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
}

impl Origin {
    /// The folder that the task's relative paths start from: its file's own.
    pub fn base_dir(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Everything the patterns led to, in the order of the patterns and of the rows.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub tasks: Vec<Task>,
    pub recipes: Vec<RecipeFile>,
    /// What is no task and no recipe. Whether to go on without them is the caller's to decide.
    pub bad: Vec<BadRow>,
    pub origins: BTreeMap<TaskId, Origin>,
}

impl Loaded {
    /// The folder that a task's relative paths start from.
    pub fn base_dir(&self, task: &TaskId) -> Option<PathBuf> {
        self.origins.get(task).map(Origin::base_dir)
    }
}

/// Loads files and globs, relative ones below `base_dir`.
///
/// # Errors
/// Only what makes a whole pattern useless: no match, an unreadable file, an unknown kind of file.
/// Everything inside a file is a [`BadRow`].
pub fn load(patterns: &[String], base_dir: &Path) -> Result<Loaded, DatasetError> {
    let mut loaded = Loaded::default();
    let mut ids = BTreeMap::new();
    let mut done = Vec::new();
    for pattern in patterns {
        for file in expand(pattern, base_dir)? {
            // Two patterns may meet in one file; its rows are not doubled by that.
            if !done.contains(&file) {
                load_file(&file, &mut loaded, &mut ids)?;
                done.push(file);
            }
        }
    }
    Ok(loaded)
}

fn expand(pattern: &str, base_dir: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let no_match =
        || DatasetError::NoMatch { pattern: pattern.to_owned(), base: base_dir.to_path_buf() };
    let plain = base_dir.join(pattern);
    if plain.is_file() {
        return Ok(vec![plain]);
    }
    if !pattern.contains(['*', '?', '[']) {
        return Err(no_match());
    }
    // The base is a path, not a pattern: its own brackets and stars are taken literally.
    let full = Path::new(&glob::Pattern::escape(&base_dir.to_string_lossy())).join(pattern);
    let paths = glob::glob(&full.to_string_lossy()).map_err(|error| DatasetError::BadPattern {
        pattern: pattern.to_owned(),
        why: error.to_string(),
    })?;
    let files: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).collect();
    if files.is_empty() { Err(no_match()) } else { Ok(files) }
}

type Ids = BTreeMap<String, String>;

fn load_file(file: &Path, loaded: &mut Loaded, ids: &mut Ids) -> Result<(), DatasetError> {
    let kind = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !["jsonl", "json", "toml"].contains(&kind) {
        return Err(DatasetError::UnknownKind { file: file.to_path_buf() });
    }
    let bytes = fs::read(file).map_err(|error| DatasetError::Unreadable {
        file: file.to_path_buf(),
        why: error.to_string(),
    })?;
    let Ok(text) = String::from_utf8(bytes) else {
        loaded.bad.push(bad(file, None, None, Complaint::whole("is not UTF-8")));
        return Ok(());
    };
    match kind {
        "toml" => load_toml(file, &text, loaded, ids),
        "json" => load_json(file, 1, &text, loaded, ids),
        _ => {
            for (index, line) in text.lines().enumerate() {
                if !line.trim().is_empty() {
                    load_json(file, index + 1, line, loaded, ids);
                }
            }
        }
    }
    Ok(())
}

fn load_json(file: &Path, line: usize, text: &str, loaded: &mut Loaded, ids: &mut Ids) {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => add_task(file, line, value, loaded, ids),
        Err(error) => {
            // The parser counts lines from the row's own first one.
            let at = line + error.line().saturating_sub(1);
            let what = format!("not JSON: {error}");
            loaded.bad.push(bad(file, Some(at), None, Complaint::whole(what)));
        }
    }
}

fn load_toml(file: &Path, text: &str, loaded: &mut Loaded, ids: &mut Ids) {
    let value: Value = match toml::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let line = error.span().map(|span| {
                text.get(..span.start).map_or(1, |head| head.matches('\n').count() + 1)
            });
            let what = format!("not TOML: {}", error.message());
            loaded.bad.push(bad(file, line, None, Complaint::whole(what)));
            return;
        }
    };
    match value.get("recipe") {
        Some(_) => add_recipe(file, value, loaded, ids),
        None => add_task(file, 1, value, loaded, ids),
    }
}

fn add_task(file: &Path, line: usize, value: Value, loaded: &mut Loaded, ids: &mut Ids) {
    let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
    let place = format!("{}:{line}", file.display());
    match row::task(value) {
        Ok(task) => match ids.get(task.id.as_str()) {
            Some(first) => {
                let what = format!("is taken already, in {first}");
                loaded.bad.push(bad(file, Some(line), id, Complaint::at("id", what)));
            }
            None => {
                ids.insert(task.id.0.clone(), place);
                let origin = Origin { file: file.to_path_buf(), line };
                loaded.origins.insert(task.id.clone(), origin);
                loaded.tasks.push(task);
            }
        },
        Err(complaints) => loaded.bad.extend(
            complaints.into_iter().map(|complaint| bad(file, Some(line), id.clone(), complaint)),
        ),
    }
}

fn add_recipe(file: &Path, value: Value, loaded: &mut Loaded, ids: &mut Ids) {
    let mut refuse = |id: Option<String>, complaint| {
        loaded.bad.push(bad(file, None, id, complaint));
    };
    let mut value = value;
    let Some(table) = value.as_object_mut() else { return };
    let inner = table.remove("recipe").unwrap_or_default();
    if let Some(key) = table.keys().next() {
        let what = "stands beside `[recipe]`; a recipe has no other top-level key";
        refuse(None, Complaint::at(key.as_str(), what));
        return;
    }
    let id = inner.get("id").and_then(Value::as_str).map(str::to_owned);
    let recipe: Recipe = match row::read(inner) {
        Ok(recipe) => recipe,
        Err(mut complaint) => {
            complaint.field = complaint.field.map(|field| format!("recipe.{field}"));
            refuse(id, complaint);
            return;
        }
    };
    let complaints = recipe::check(&recipe);
    if !complaints.is_empty() {
        complaints.into_iter().for_each(|complaint| refuse(id.clone(), complaint));
    } else if let Some(first) = ids.get(&recipe.id) {
        refuse(id, Complaint::at("recipe.id", format!("is taken already, in {first}")));
    } else {
        ids.insert(recipe.id.clone(), file.display().to_string());
        loaded.recipes.push(RecipeFile { file: file.to_path_buf(), recipe });
    }
}

fn bad(file: &Path, line: Option<usize>, id: Option<String>, complaint: Complaint) -> BadRow {
    BadRow { file: file.to_path_buf(), line, field: complaint.field, id, what: complaint.what }
}
