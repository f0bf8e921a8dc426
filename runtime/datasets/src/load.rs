//! Files and globs to rows.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proctor_types::{Task, TaskId};
use serde_json::Value;

use crate::{
    BadRow, DatasetError, Hub, RecipeFile,
    address::{Address, HubName, Options, Where},
    bad::Complaint,
    choose::{Choice, choose},
    ids,
    read::{self, Place, RawRow},
    recipe::{self, Recipe},
    row,
    shapes::{self, Provenance, Shape},
};

/// Where a task came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    /// Counted from 1: the line, or the row of a file without lines.
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

/// Loads files, folders and globs, relative ones below `base_dir`.
///
/// # Errors
/// Only what makes a whole pattern useless: no match, an unreadable file, an unknown kind of file,
/// a name of the hub, which [`load_with`] knows. Everything inside a file is a [`BadRow`].
pub fn load(patterns: &[String], base_dir: &Path) -> Result<Loaded, DatasetError> {
    let mut loader = Loader::new(base_dir);
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.place {
            Where::Disk(_) => loader.disk(&address)?,
            Where::Hub(name) => {
                let why = "is not on this disk".to_owned();
                return Err(DatasetError::Hub { name: name.name.clone(), why });
            }
        }
    }
    Ok(loader.loaded)
}

/// As [`load`], with datasets of a hub.
pub async fn load_with(
    patterns: &[String],
    base_dir: &Path,
    hub: &Hub,
) -> Result<Loaded, DatasetError> {
    let mut loader = Loader::new(base_dir);
    for pattern in patterns {
        let address = Address::parse_at(pattern, base_dir)?;
        match &address.place {
            Where::Disk(_) => loader.disk(&address)?,
            Where::Hub(name) => loader.hub(&address, name, hub).await?,
        }
    }
    Ok(loader.loaded)
}

/// What a place gives: files, and what is known of their rows before they are read.
struct Set<'a> {
    files: Vec<PathBuf>,
    options: &'a Options,
    provenance: Provenance,
    shape: Option<Shape>,
}

struct Loader<'a> {
    base_dir: &'a Path,
    loaded: Loaded,
    /// Where each id was seen first.
    ids: BTreeMap<String, String>,
    done: Vec<(PathBuf, Options)>,
}

impl<'a> Loader<'a> {
    fn new(base_dir: &'a Path) -> Self {
        Self { base_dir, loaded: Loaded::default(), ids: BTreeMap::new(), done: Vec::new() }
    }

    fn disk(&mut self, address: &Address) -> Result<(), DatasetError> {
        let Where::Disk(pattern) = &address.place else { return Ok(()) };
        let options = &address.options;
        let shape = self.forced(options)?;
        let usual = shape.as_ref().and_then(|shape| shape.hub.split.clone());
        let (files, split) = expand(pattern, self.base_dir, options, usual.as_deref())?;
        let provenance = Provenance { split, ..Provenance::default() };
        self.set(Set { files, options, provenance, shape })
    }

    async fn hub(
        &mut self,
        address: &Address,
        name: &HubName,
        hub: &Hub,
    ) -> Result<(), DatasetError> {
        let options = &address.options;
        let known = shapes::of_hub(&name.name)?;
        let shape = match self.forced(options)? {
            Some(shape) => Some(shape),
            None => known.cloned(),
        };
        let usual = shape.as_ref().and_then(|shape| shape.hub.split.as_deref());
        let mut name = name.clone();
        if name.revision.is_none() {
            name.revision = shape.as_ref().and_then(|shape| shape.hub.revision.clone());
        }
        let fetched = hub.fetch(&name, options.split.as_deref(), usual).await?;
        let set = name.name.rsplit('/').next().and_then(|part| shape.as_ref()?.hub.sets.get(part));
        let provenance = Provenance {
            split: set.cloned().or(fetched.split),
            revision: Some(fetched.commit),
            key: None,
        };
        self.set(Set { files: fetched.files, options, provenance, shape })
    }

    fn forced(&self, options: &Options) -> Result<Option<Shape>, DatasetError> {
        options.shape.as_deref().map(|name| shapes::named(name, self.base_dir)).transpose()
    }

    fn set(&mut self, set: Set<'_>) -> Result<(), DatasetError> {
        let before = self.loaded.tasks.len();
        let bad_before = self.loaded.bad.len();
        for file in &set.files {
            // Two patterns may meet in one file; its rows are not doubled by that.
            let key = (file.clone(), set.options.clone());
            if !self.done.contains(&key) {
                self.file(file, &set)?;
                self.done.push(key);
            }
        }
        if let Some(ids) = &set.options.ids {
            let tasks = self.loaded.tasks.split_off(before);
            self.loaded.tasks.extend(ids::narrow(tasks, ids)?);
            // All that were asked for are good: what is wrong with others is nobody's worry.
            let others = self.loaded.bad.split_off(bad_before);
            self.loaded.bad.extend(others.into_iter().filter(|bad| bad.id.is_none()));
        }
        Ok(())
    }

    fn file(&mut self, file: &Path, set: &Set<'_>) -> Result<(), DatasetError> {
        if read::kind(file) == "toml" {
            return self.toml(file, set);
        }
        let mut splits = Splits { wanted: set.options.split.clone(), seen: None, told: false };
        let mut failed = None;
        read::rows(file, &mut |row| {
            if failed.is_none()
                && let Err(error) = self.row(file, row, set, &mut splits)
            {
                failed = Some(error);
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn row(
        &mut self,
        file: &Path,
        row: RawRow,
        set: &Set<'_>,
        splits: &mut Splits,
    ) -> Result<(), DatasetError> {
        if let Some(split) = &row.split {
            match splits.takes(split) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(complaint) => {
                    self.loaded.bad.push(BadRow::new(file, None, None, complaint));
                    return Ok(());
                }
            }
        }
        match row.value {
            Ok(value) => {
                let provenance = Provenance {
                    split: row.split.or_else(|| set.provenance.split.clone()),
                    revision: set.provenance.revision.clone(),
                    key: row.key,
                };
                self.value(file, Some(row.place), value, set, &provenance)?;
            }
            Err(complaint) => {
                self.loaded.bad.push(BadRow::new(file, Some(row.place), row.key, complaint));
            }
        }
        Ok(())
    }

    /// A row of our own format, or of a benchmark's.
    fn value(
        &mut self,
        file: &Path,
        place: Option<Place>,
        value: Value,
        set: &Set<'_>,
        provenance: &Provenance,
    ) -> Result<(), DatasetError> {
        let named = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = named("instance_id").or_else(|| named("id")).or_else(|| provenance.key.clone());
        let foreign = set.shape.is_some()
            || (value.get("schema_version").is_none()
                && (value.get("instance_id").is_some() || provenance.key.is_some()));
        let made = match value {
            Value::Object(row) if foreign => {
                let shape = match &set.shape {
                    Some(shape) => Ok(shape),
                    None => shapes::detect(&row, shapes::shipped()?),
                };
                shape
                    .map_err(|complaint| vec![complaint])
                    .and_then(|shape| shapes::build(row, shape, set.options, provenance))
            }
            value => row::task(value),
        };
        self.add(file, place, id, made);
        Ok(())
    }

    fn add(
        &mut self,
        file: &Path,
        place: Option<Place>,
        id: Option<String>,
        made: Result<Task, Vec<Complaint>>,
    ) {
        let number = match place {
            Some(Place::Line(number) | Place::Row(number)) => number,
            None => 1,
        };
        let task = match made {
            Ok(task) => task,
            Err(complaints) => {
                let rows = complaints.into_iter().map(|complaint| {
                    BadRow::new(file, place.or(Some(Place::Line(1))), id.clone(), complaint)
                });
                self.loaded.bad.extend(rows);
                return;
            }
        };
        if let Some(first) = self.ids.get(task.id.as_str()) {
            let what = format!("is taken already, in {first}");
            self.loaded.bad.push(BadRow::new(file, place, id, Complaint::at("id", what)));
            return;
        }
        self.ids.insert(task.id.0.clone(), format!("{}:{number}", file.display()));
        let origin = Origin { file: file.to_path_buf(), line: number };
        self.loaded.origins.insert(task.id.clone(), origin);
        self.loaded.tasks.push(task);
    }

    fn toml(&mut self, file: &Path, set: &Set<'_>) -> Result<(), DatasetError> {
        let unreadable = |why: String| DatasetError::Unreadable { file: file.to_path_buf(), why };
        let bytes = fs::read(file).map_err(|error| unreadable(error.to_string()))?;
        let Ok(text) = String::from_utf8(bytes) else {
            self.loaded.bad.push(BadRow::new(file, None, None, Complaint::whole("is not UTF-8")));
            return Ok(());
        };
        let value: Value = match toml::from_str(&text) {
            Ok(value) => value,
            Err(error) => {
                let line = error.span().map(|span| {
                    text.get(..span.start).map_or(1, |head| head.matches('\n').count() + 1)
                });
                let what = format!("not TOML: {}", error.message());
                let place = line.map(Place::Line);
                self.loaded.bad.push(BadRow::new(file, place, None, Complaint::whole(what)));
                return Ok(());
            }
        };
        if value.get("recipe").is_some() {
            add_recipe(file, value, &mut self.loaded, &mut self.ids);
            return Ok(());
        }
        self.value(file, Some(Place::Line(1)), value, set, &Provenance::default())
    }
}

/// The splits of one file that holds several.
struct Splits {
    wanted: Option<String>,
    seen: Option<String>,
    told: bool,
}

impl Splits {
    /// Whether the rows of a split count. Where none was asked for, a second one is a question.
    fn takes(&mut self, split: &str) -> Result<bool, Complaint> {
        if let Some(wanted) = &self.wanted {
            return Ok(wanted == split);
        }
        let first = self.seen.get_or_insert_with(|| split.to_owned());
        if first == split {
            return Ok(true);
        }
        let told = std::mem::replace(&mut self.told, true);
        let what =
            format!("holds several splits, such as {first} and {split}; say `#split={first}`");
        if told { Ok(false) } else { Err(Complaint::whole(what)) }
    }
}

fn expand(
    pattern: &str,
    base_dir: &Path,
    options: &Options,
    usual: Option<&str>,
) -> Result<(Vec<PathBuf>, Option<String>), DatasetError> {
    let no_match =
        || DatasetError::NoMatch { pattern: pattern.to_owned(), base: base_dir.to_path_buf() };
    let plain = base_dir.join(pattern);
    if plain.is_file() {
        return Ok((vec![plain], options.split.clone()));
    }
    if plain.is_dir() {
        return folder(&plain, options, usual);
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
    if files.is_empty() { Err(no_match()) } else { Ok((files, options.split.clone())) }
}

/// A folder as the hub lays one out.
fn folder(
    folder: &Path,
    options: &Options,
    usual: Option<&str>,
) -> Result<(Vec<PathBuf>, Option<String>), DatasetError> {
    let fault = |why: String| DatasetError::Folder { folder: folder.to_path_buf(), why };
    let pattern = format!("{}/**/*", glob::Pattern::escape(&folder.to_string_lossy()));
    let found = glob::glob(&pattern).map_err(|error| fault(error.to_string()))?;
    let paths: Vec<String> = found
        .filter_map(Result::ok)
        .filter(|path| path.is_file())
        .filter_map(|path| Some(path.strip_prefix(folder).ok()?.to_str()?.to_owned()))
        .collect();
    match choose(&paths, options.split.as_deref(), usual) {
        Choice::Files { split, files } => {
            Ok((files.iter().map(|file| folder.join(file)).collect(), split))
        }
        Choice::Splits(splits) => {
            let why = format!("holds the splits {}; say which with `#split=`", splits.join(", "));
            Err(fault(why))
        }
        Choice::Nothing if paths.iter().any(|path| path.ends_with(".arrow")) => {
            let mend = "holds Arrow files, which `save_to_disk` writes; write Parquet with \
                        `load_from_disk(...).to_parquet(...)`";
            Err(fault(mend.into()))
        }
        Choice::Nothing => Err(fault("holds no .parquet, .jsonl or .json".into())),
    }
}

type Ids = BTreeMap<String, String>;

fn add_recipe(file: &Path, value: Value, loaded: &mut Loaded, ids: &mut Ids) {
    let mut refuse = |id: Option<String>, complaint| {
        loaded.bad.push(BadRow::new(file, None, id, complaint));
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
