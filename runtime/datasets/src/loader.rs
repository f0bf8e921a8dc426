//! Converts files to tasks, row by row.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proctor_types::Task;
use serde_json::Value;

use crate::{
    BadRow, DatasetError, Hub, LoadedDataset, RecipeFile, RowRetention, RowSourceFiles, TaskOrigin,
    address::{Address, AddressOptions, DatasetLocation, HubName},
    errors::{RowError, RowLocation},
    files,
    harbor::{self, HarborSource},
    ids,
    read::{self, RawRow},
    recipe::{self, Recipe},
    row,
    shapes::{self, Provenance, Shape},
    splits::SplitFilter,
};

/// The files at a dataset address, with the options and the row format that apply to all of their
/// rows.
struct RowSource<'a> {
    files: Vec<PathBuf>,
    options: &'a AddressOptions,
    provenance: Provenance,
    shape: Option<Shape>,
}

/// Reads files into a [`LoadedDataset`].
pub(crate) struct DatasetLoader<'a> {
    base_dir: &'a Path,
    pub(crate) dataset: LoadedDataset,
    /// The location where each id was first seen.
    id_locations: BTreeMap<String, String>,
    loaded_files: Vec<(PathBuf, AddressOptions)>,
    pub(crate) retention: RowRetention,
}

impl<'a> DatasetLoader<'a> {
    pub(crate) fn new(base_dir: &'a Path) -> Self {
        Self {
            base_dir,
            dataset: LoadedDataset::default(),
            id_locations: BTreeMap::new(),
            loaded_files: Vec::new(),
            retention: RowRetention::default(),
        }
    }

    pub(crate) fn load_from_disk(&mut self, address: &Address) -> Result<(), DatasetError> {
        let DatasetLocation::Disk(pattern) = &address.location else { return Ok(()) };
        let options = &address.options;
        let forced = options.shape.as_deref() == Some(harbor::SHAPE_NAME);
        if (forced || options.shape.is_none())
            && let Some(places) = harbor::find_sources(pattern, self.base_dir, forced)?
        {
            return self.load_harbor_sources(pattern, places, options);
        }
        let shape = self.requested_shape(options)?;
        let usual = shape.as_ref().and_then(|shape| shape.hub.split.clone());
        let (files, split) =
            files::expand_pattern(pattern, self.base_dir, options, usual.as_deref())?;
        let provenance = Provenance { split, ..Provenance::default() };
        self.load_row_source(RowSource { files, options, provenance, shape })
    }

    pub(crate) async fn load_from_hub(
        &mut self,
        address: &Address,
        name: &HubName,
        hub: &Hub,
    ) -> Result<(), DatasetError> {
        let options = &address.options;
        let known = shapes::shape_for_hub(&name.name)?;
        let shape = match self.requested_shape(options)? {
            Some(shape) => Some(shape),
            None => known.cloned(),
        };
        let usual = shape.as_ref().and_then(|shape| shape.hub.split.as_deref());
        let mut name = name.clone();
        if name.revision.is_none() {
            name.revision = shape.as_ref().and_then(|shape| shape.hub.revision.clone());
        }
        let fetched = hub.fetch_split(&name, options.split.as_deref(), usual).await?;
        let set = name.name.rsplit('/').next().and_then(|part| shape.as_ref()?.hub.sets.get(part));
        let provenance = Provenance {
            split: set.cloned().or(fetched.split),
            revision: Some(fetched.commit),
            key: None,
        };
        self.load_row_source(RowSource { files: fetched.files, options, provenance, shape })
    }

    fn requested_shape(&self, options: &AddressOptions) -> Result<Option<Shape>, DatasetError> {
        options.shape.as_deref().map(|name| shapes::load_shape(name, self.base_dir)).transpose()
    }

    /// Loads Harbor folders. An invalid folder does not affect the others.
    fn load_harbor_sources(
        &mut self,
        pattern: &str,
        sources: Vec<HarborSource>,
        options: &AddressOptions,
    ) -> Result<(), DatasetError> {
        let plain = AddressOptions {
            ids: options.ids.clone(),
            shape: options.shape.clone(),
            ..AddressOptions::default()
        };
        if *options != plain {
            let why = "Harbor datasets only accept the options `ids` and `shape`".to_owned();
            return Err(DatasetError::BadAddress { address: pattern.to_owned(), why });
        }
        let before = (self.dataset.tasks.len(), self.dataset.bad_rows.len());
        for place in sources {
            let folders = match place {
                HarborSource::Task(folder) => vec![folder],
                HarborSource::Dataset(file) => {
                    let (folders, bad) = harbor::load_dataset(&file);
                    self.dataset.bad_rows.extend(bad);
                    folders
                }
            };
            for folder in folders {
                let canonical = folder.canonicalize().unwrap_or_else(|_| folder.clone());
                let key = (canonical, options.clone());
                if !self.loaded_files.contains(&key) {
                    self.load_harbor_folder(&folder);
                    self.loaded_files.push(key);
                }
            }
        }
        self.keep_requested_tasks(options, before)
    }

    fn load_harbor_folder(&mut self, folder: &Path) {
        let made = match harbor::load_task(folder) {
            Ok(made) => made,
            Err(bad) => {
                self.dataset.bad_rows.extend(bad);
                return;
            }
        };
        self.dataset.warnings.extend(made.warnings);
        let id = made.task.id.to_string();
        let bad = self.dataset.bad_rows.len();
        self.add_task(
            &folder.join(proctor_harbor::TASK_FILE),
            made.name_line.map(RowLocation::Line),
            ("task.name", Some(id)),
            Ok(made.task),
        );
        for row in self.dataset.bad_rows.iter_mut().skip(bad) {
            row.is_task_folder = true;
        }
    }

    fn load_row_source(&mut self, source: RowSource<'_>) -> Result<(), DatasetError> {
        let task_count = (self.dataset.tasks.len(), self.dataset.bad_rows.len());
        for file in &source.files {
            // Two patterns may spell the same file differently. Don't load its rows twice.
            let canonical = file.canonicalize().unwrap_or_else(|_| file.clone());
            let key = (canonical, source.options.clone());
            if !self.loaded_files.contains(&key) {
                self.load_file(file, &source)?;
                self.loaded_files.push(key);
            }
        }
        self.keep_requested_tasks(source.options, task_count)
    }

    /// Keeps only the requested tasks among those added since `before`.
    fn keep_requested_tasks(
        &mut self,
        options: &AddressOptions,
        (before, bad_row_count): (usize, usize),
    ) -> Result<(), DatasetError> {
        if let Some(ids) = &options.ids {
            let tasks = self.dataset.tasks.split_off(before);
            self.dataset.tasks.extend(ids::select_by_ids(tasks, ids)?);
            // All requested tasks are valid, so errors in other tasks do not matter.
            let others = self.dataset.bad_rows.split_off(bad_row_count);
            self.dataset
                .bad_rows
                .extend(others.into_iter().filter(|bad| bad.id.is_none() && !bad.is_task_folder));
        }
        Ok(())
    }

    fn load_file(&mut self, file: &Path, source: &RowSource<'_>) -> Result<(), DatasetError> {
        if read::file_suffix(file) == "toml" {
            return self.load_toml(file, source);
        }
        let mut splits = SplitFilter::new(source.options.split.clone());
        let mut failed = None;
        read::read_rows(file, &mut |row| {
            if failed.is_none()
                && let Err(error) = self.load_row(file, row, source, &mut splits)
            {
                failed = Some(error);
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn load_row(
        &mut self,
        file: &Path,
        row: RawRow,
        source: &RowSource<'_>,
        splits: &mut SplitFilter,
    ) -> Result<(), DatasetError> {
        if let Some(split) = &row.split {
            match splits.includes(split) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(complaint) => {
                    self.dataset.bad_rows.push(BadRow::new(file, None, None, complaint));
                    return Ok(());
                }
            }
        }
        match row.value {
            Ok(value) => {
                let provenance = Provenance {
                    split: row.split.or_else(|| source.provenance.split.clone()),
                    revision: source.provenance.revision.clone(),
                    key: row.key,
                };
                self.load_value(file, Some(row.location), value, source, &provenance)?;
            }
            Err(complaint) => {
                self.dataset.bad_rows.push(BadRow::new(
                    file,
                    Some(row.location),
                    row.key,
                    complaint,
                ));
            }
        }
        Ok(())
    }

    /// Loads a row in the native format or in a benchmark's format.
    fn load_value(
        &mut self,
        file: &Path,
        location: Option<RowLocation>,
        value: Value,
        source: &RowSource<'_>,
        provenance: &Provenance,
    ) -> Result<(), DatasetError> {
        let named = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut id =
            named("instance_id").or_else(|| named("id")).or_else(|| provenance.key.clone());
        let mut field = if value.get("instance_id").is_some() { "instance_id" } else { "id" };
        let shipped = shapes::shipped_shapes()?;
        // Some benchmarks don't call the id `instance_id`.
        let fits = |row| shapes::detect_shape(row, shipped).is_ok();
        // A row with neither `schema_version` nor `id` is not in the native format.
        let foreign = source.shape.is_some()
            || (value.get("schema_version").is_none()
                && (value.get("instance_id").is_some()
                    || value.get("id").is_none()
                    || provenance.key.is_some()
                    || value.as_object().is_some_and(fits)));
        let files = match self.retention {
            RowRetention::Files => value.get("files").and_then(row_source_files),
            RowRetention::Tasks => None,
        };
        let made = match value {
            Value::Object(row) if foreign => {
                let shape = match &source.shape {
                    Some(shape) => Ok(shape),
                    None => shapes::detect_shape(&row, shipped),
                };
                if let Ok(shape) = shape
                    && let Some((name, text)) = shape.find_id(&row)
                {
                    (field, id) = (name, Some(text));
                }
                shape
                    .map_err(|complaint| vec![complaint])
                    .and_then(|shape| shapes::build_task(row, shape, source.options, provenance))
            }
            value => row::task_from_value(value),
        };
        if let (Ok(task), Some(files)) = (&made, files) {
            self.dataset.source_files.entry(task.id.clone()).or_insert(files);
        }
        self.add_task(file, location, (field, id), made);
        Ok(())
    }

    fn add_task(
        &mut self,
        file: &Path,
        location: Option<RowLocation>,
        (field, id): (&str, Option<String>),
        result: Result<Task, Vec<RowError>>,
    ) {
        let number = match location {
            Some(RowLocation::Line(number) | RowLocation::Row(number)) => number,
            None => 1,
        };
        let task = match result {
            Ok(task) => task,
            Err(complaints) => {
                let rows = complaints.into_iter().map(|complaint| {
                    BadRow::new(
                        file,
                        location.or(Some(RowLocation::Line(1))),
                        id.clone(),
                        complaint,
                    )
                });
                self.dataset.bad_rows.extend(rows);
                return;
            }
        };
        if let Some(first) = self.id_locations.get(task.id.as_str()) {
            let what = format!("is already used in {first}");
            self.dataset.bad_rows.push(BadRow::new(
                file,
                location,
                id,
                RowError::invalid_field(field, what),
            ));
            return;
        }
        let place = match location {
            Some(_) => format!("{}:{number}", file.display()),
            None => file.display().to_string(),
        };
        self.id_locations.insert(task.id.0.clone(), place);
        let origin = TaskOrigin { file: file.to_path_buf(), line: number };
        self.dataset.origins.insert(task.id.clone(), origin);
        self.dataset.tasks.push(task);
    }

    fn load_toml(&mut self, file: &Path, source: &RowSource<'_>) -> Result<(), DatasetError> {
        let unreadable = |why: String| DatasetError::Unreadable { file: file.to_path_buf(), why };
        let bytes = fs::read(file).map_err(|error| unreadable(error.to_string()))?;
        let Ok(text) = String::from_utf8(bytes) else {
            self.dataset.bad_rows.push(BadRow::new(
                file,
                None,
                None,
                RowError::invalid_row("is not UTF-8"),
            ));
            return Ok(());
        };
        let value: Value = match toml::from_str(&text) {
            Ok(value) => value,
            Err(error) => {
                let line = error.span().map(|span| {
                    text.get(..span.start).map_or(1, |head| head.matches('\n').count() + 1)
                });
                let what = format!("invalid TOML: {}", error.message());
                let place = line.map(RowLocation::Line);
                self.dataset.bad_rows.push(BadRow::new(
                    file,
                    place,
                    None,
                    RowError::invalid_row(what),
                ));
                return Ok(());
            }
        };
        if value.get("recipe").is_some() {
            self.load_recipe(file, value);
            return Ok(());
        }
        self.load_value(file, Some(RowLocation::Line(1)), value, source, &Provenance::default())
    }

    /// Loads a file that contains only `[recipe]`.
    fn load_recipe(&mut self, file: &Path, mut value: Value) {
        let Self { dataset: loaded, id_locations: ids, .. } = self;
        let mut refuse = |id: Option<String>, complaint| {
            loaded.bad_rows.push(BadRow::new(file, None, id, complaint));
        };
        let Some(table) = value.as_object_mut() else { return };
        let inner = table.remove("recipe").unwrap_or_default();
        if let Some(key) = table.keys().next() {
            let what =
                "is not allowed outside of `[recipe]`; remove the key, or move it into this table";
            refuse(None, RowError::invalid_field(key.as_str(), what));
            return;
        }
        let id = inner.get("id").and_then(Value::as_str).map(str::to_owned);
        let recipe: Recipe = match row::deserialize_value(inner) {
            Ok(recipe) => recipe,
            Err(mut complaint) => {
                complaint.field = complaint.field.map(|field| format!("recipe.{field}"));
                refuse(id, complaint);
                return;
            }
        };
        let complaints = recipe::check_recipe(&recipe);
        if !complaints.is_empty() {
            complaints.into_iter().for_each(|complaint| refuse(id.clone(), complaint));
        } else if let Some(first) = ids.get(&recipe.id) {
            refuse(id, RowError::invalid_field("recipe.id", format!("is already used in {first}")));
        } else {
            ids.insert(recipe.id.clone(), file.display().to_string());
            loaded.recipes.push(RecipeFile { file: file.to_path_buf(), recipe });
        }
    }
}

/// Returns the source files of a row in either of FEA-Bench's forms: an object by path, or a list
/// of `{file, content}`.
fn row_source_files(value: &Value) -> Option<RowSourceFiles> {
    let content = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Object(map) => {
            Some(map.iter().map(|(path, text)| (path.clone(), content(text))).collect())
        }
        Value::Array(list) => {
            let one = |entry: &Value| {
                let path = entry.get("file")?.as_str()?.to_owned();
                Some((path, entry.get("content").and_then(content)))
            };
            list.iter().map(one).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn row_files_are_read_in_both_forms() {
        let map = row_source_files(&json!({"a.py": "x = 1\n", "b.py": null})).unwrap();
        let list =
            json!([{"file": "a.py", "content": "x = 1\n"}, {"file": "b.py", "content": null}]);
        assert_eq!(row_source_files(&list), Some(map.clone()));
        assert_eq!(map["a.py"].as_deref(), Some("x = 1\n"));
        assert_eq!(map["b.py"], None);
        assert_eq!(row_source_files(&json!([{"content": "x"}])), None);
    }
}
