//! `base = "FILE"`: a configuration that builds on another one.
//!
//! Tables merge key by key, arms merge by name, and every other value replaces the base's value.
//! Each value remembers the file and line where it was written.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proctor_types::one_line;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use crate::{
    UserError,
    keys::TOP_LEVEL_KEYS,
    kind::KeyError,
    reader::BuiltinLookup,
    set::{self, join_key},
};

/// Key that names the base configuration.
const BASE_KEY: &str = "base";

/// Key of the list whose tables merge by name.
const ARMS_KEY: &str = "arms";

/// The files that make up a configuration: the requested file, its base, the base of that base, and
/// so on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFiles {
    files: Vec<ConfigText>,
    /// For each merged arm, the files that contain it and its index in each.
    arm_origins: Vec<Vec<(usize, usize)>>,
}

#[derive(Debug, Clone)]
struct ConfigText {
    path: PathBuf,
    text: String,
}

/// The location where a key was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    /// Index of the file. The requested file is 0.
    pub(crate) file: usize,
    /// Offset in bytes.
    pub(crate) offset: usize,
    pub(crate) line: usize,
}

impl SourceFiles {
    /// Reads a file and its bases, and merges them.
    ///
    /// # Errors
    /// Fails if a file cannot be read, is not TOML, or is its own base.
    pub(crate) fn read(
        path: &Path,
        sets: &[String],
        builtins: BuiltinLookup<'_>,
    ) -> Result<(Self, Table), UserError> {
        let mut set_base = base_from_sets(sets)?;
        let text = fs::read_to_string(path).map_err(|error| {
            UserError::new(format!("cannot read {}: {error}", path.display()))
                .hint("pass a TOML file, such as configs/demo.toml")
        })?;
        let mut file = ConfigText { path: path.to_owned(), text };
        let (mut files, mut tables, mut chain) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let table = file.parse_table()?;
            let (base, is_set) = match set_base.take() {
                Some(base) => (Some(base), true),
                None => (table.get(BASE_KEY).cloned(), false),
            };
            chain.push(file.path.canonicalize().unwrap_or_else(|_| file.path.clone()));
            tables.push(table);
            let next =
                base.map(|base| file.read_base(&base, is_set, &chain, builtins)).transpose()?;
            files.push(file);
            match next {
                Some(next) => file = next,
                None => break,
            }
        }
        let mut merged = MergedConfig::default();
        for (index, table) in tables.into_iter().enumerate().rev() {
            merged.merge(index, table);
        }
        Ok((Self { files, arm_origins: merged.arm_origins }, merged.table))
    }

    pub(crate) fn path(&self, file: usize) -> Option<&Path> {
        self.files.get(file).map(|file| file.path.as_path())
    }

    pub(crate) fn display_path(&self, file: usize) -> String {
        self.path(file).map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Returns the location of the longest prefix of a path that a file contains. The path refers
    /// to arms by their merged index.
    pub(crate) fn locate(&self, path: &[&str]) -> Option<SourceLocation> {
        let mut best: Option<(usize, SourceLocation)> = None;
        for (number, file) in self.files.iter().enumerate() {
            let Some(own) = self.path_in_file(number, path) else { continue };
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let Ok(tree) = DeTable::parse(&file.text) else { continue };
            let Some(found) = find_offset(tree.get_ref(), &own) else { continue };
            if best.is_none_or(|(depth, _)| found.depth > depth) {
                let place = SourceLocation {
                    file: number,
                    offset: found.offset,
                    line: line_number(&file.text, found.offset),
                };
                best = Some((found.depth, place));
            }
            // Don't search the bases, because values in this file replace theirs.
            if found.is_final || found.depth == own.len() {
                break;
            }
        }
        best.map(|(_, place)| place)
    }

    /// Translates a path to one file, in which an arm may have another index. Returns `None` if the
    /// file does not contain the arm.
    fn path_in_file(&self, file: usize, path: &[&str]) -> Option<Vec<String>> {
        let mut own: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        if let [ARMS_KEY, index, ..] = path
            && let Some(arm) =
                index.parse::<usize>().ok().and_then(|index| self.arm_origins.get(index))
        {
            let (_, index) = arm.iter().find(|(of, _)| *of == file)?;
            own[1] = index.to_string();
        }
        Some(own)
    }
}

/// Returns the base given with `--set`, which replaces the file's own.
fn base_from_sets(sets: &[String]) -> Result<Option<Value>, UserError> {
    let is_base =
        |set: &&String| set.split_once('=').is_some_and(|(key, _)| key.trim() == BASE_KEY);
    let Some(set) = sets.iter().rev().find(is_base) else { return Ok(None) };
    let mut table = Table::new();
    set::apply_assignment(&mut table, set)?;
    Ok(table.remove(BASE_KEY))
}

impl ConfigText {
    fn parse_table(&self) -> Result<Table, UserError> {
        let shown = self.path.display().to_string();
        toml::from_str(&self.text).map_err(|error| toml_error(&shown, &self.text, &error))
    }

    /// Reads the base of this file. `chain` contains the real paths of the files so far.
    fn read_base(
        &self,
        base: &Value,
        is_from_set: bool,
        chain: &[PathBuf],
        builtins: BuiltinLookup<'_>,
    ) -> Result<Self, UserError> {
        let error = |what: String| {
            let place = match (is_from_set, DeTable::parse(&self.text)) {
                (false, Ok(tree)) => match find_offset(tree.get_ref(), &[BASE_KEY]) {
                    Some(found) => {
                        format!("{}:{}", self.path.display(), line_number(&self.text, found.offset))
                    }
                    None => self.path.display().to_string(),
                },
                (false, Err(_)) => self.path.display().to_string(),
                (true, _) => "--set".to_owned(),
            };
            UserError::new(one_line(&format!("{place}: key `{BASE_KEY}`: {what}")))
        };
        if let Some(key) = TOP_LEVEL_KEYS.iter().find(|key| key.name == BASE_KEY) {
            let checked = key.kind.check_value(key, base);
            checked.map_err(|KeyError { message: what, hint }| error(what).hint(hint))?;
        }
        let name = base.as_str().unwrap_or_default();
        let path = self.resolve_path(Path::new(name), is_from_set, builtins);
        let text = fs::read_to_string(&path).map_err(|why| {
            error(format!("cannot read {}: {why}", path.display())).hint(
                "set it to a TOML file, or to a built-in configuration such as \"demo\"; relative \
                 paths are resolved against this configuration's folder",
            )
        })?;
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if let Some(first) = chain.iter().position(|one| *one == real) {
            let names = chain[first..].iter().chain([&real]).map(|one| one.display().to_string());
            let names = names.collect::<Vec<_>>().join(" -> ");
            return Err(error(format!("circular base: {names}"))
                .hint(format!("remove `{BASE_KEY}` from one of these files")));
        }
        Ok(Self { path, text })
    }

    /// Resolves a path relative to this file, or to the current directory if nothing exists there.
    /// A path from `--set` is first looked up in the current directory. If no such file exists, the
    /// path may be the name of a built-in configuration.
    fn resolve_path(
        &self,
        base_path: &Path,
        is_from_set: bool,
        builtins: BuiltinLookup<'_>,
    ) -> PathBuf {
        let folder = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
        let mut folders = vec![folder(&self.path)];
        folders.extend(self.path.canonicalize().ok().map(|real| folder(&real)));
        folders.insert(if is_from_set { 0 } else { folders.len() }, PathBuf::new());
        let beside = folder(&self.path).join(base_path);
        let written = folders.iter().map(|one| one.join(base_path)).find(|one| one.exists());
        written.or_else(|| builtins(base_path)).unwrap_or(beside)
    }
}

/// The tables merged so far, starting with the last base.
#[derive(Debug, Default)]
struct MergedConfig {
    table: Table,
    arm_origins: Vec<Vec<(usize, usize)>>,
}

impl MergedConfig {
    fn merge(&mut self, file: usize, mut overrides: Table) {
        let arms = overrides.remove(ARMS_KEY);
        merge_tables(&mut self.table, overrides);
        match arms {
            None => {}
            Some(Value::Array(items)) => self.merge_arms(file, items),
            // The value has the wrong type. The later check of the keys reports this.
            Some(other) => {
                self.arm_origins.clear();
                self.table.insert(ARMS_KEY.to_owned(), other);
            }
        }
    }

    fn merge_arms(&mut self, file: usize, items: Vec<Value>) {
        let mut merged = match self.table.remove(ARMS_KEY) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        self.arm_origins.truncate(merged.len());
        for (index, item) in items.into_iter().enumerate() {
            let named = arm_name(&item).map(str::to_owned);
            // Two arms with the same name in one file stay separate, so that a later check can
            // report them.
            let same = self.arm_origins.iter().enumerate().position(|(at, origins)| {
                named.is_some()
                    && merged.get(at).and_then(arm_name) == named.as_deref()
                    && origins.iter().all(|(of, _)| *of != file)
            });
            match (same, item) {
                (Some(at), Value::Table(item)) => {
                    if let Some(Value::Table(arm)) = merged.get_mut(at) {
                        merge_tables(arm, item);
                    }
                    self.arm_origins[at].push((file, index));
                }
                (_, item) => {
                    merged.push(item);
                    self.arm_origins.push(vec![(file, index)]);
                }
            }
        }
        self.table.insert(ARMS_KEY.to_owned(), Value::Array(merged));
    }
}

/// Returns the name of an arm.
fn arm_name(arm: &Value) -> Option<&str> {
    arm.as_table()?.get("name")?.as_str()
}

/// Merges tables key by key. Any other value in `overrides` replaces the value in `base`.
fn merge_tables(base: &mut Table, overrides: Table) {
    for (key, value) in overrides {
        match value {
            Value::Table(table) => match base.get_mut(&key) {
                Some(Value::Table(inner)) => merge_tables(inner, table),
                _ => {
                    base.insert(key, Value::Table(table));
                }
            },
            value => {
                base.insert(key, value);
            }
        }
    }
}

/// The position of the longest prefix of a key path that exists in a file.
struct KeyOffset {
    /// Number of path parts.
    depth: usize,
    offset: usize,
    /// Whether the value replaces the base's value instead of being merged with it.
    is_final: bool,
}

fn find_offset(table: &DeTable<'_>, path: &[&str]) -> Option<KeyOffset> {
    let (first, rest) = path.split_first()?;
    let (name, value) = table.get_key_value(*first)?;
    let mut found = KeyOffset { depth: 1, offset: name.span().start, is_final: false };
    let mut value = value.get_ref();
    for part in rest {
        value = match value {
            DeValue::Table(table) => {
                let Some((name, value)) = table.get_key_value(*part) else { break };
                found.offset = name.span().start;
                value.get_ref()
            }
            DeValue::Array(items) => {
                found.is_final |= found.depth > 1 || *first != ARMS_KEY;
                let Some(item) = part.parse::<usize>().ok().and_then(|at| items.get(at)) else {
                    break;
                };
                found.offset = item.span().start;
                item.get_ref()
            }
            _ => {
                found.is_final = true;
                break;
            }
        };
        found.depth += 1;
    }
    Some(found)
}

fn line_number(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns an error with only the position and the reason. The parser's own message also shows the
/// line, which may contain a secret.
fn toml_error(file_name: &str, text: &str, error: &toml::de::Error) -> UserError {
    let line = error.span().map_or(1, |span| line_number(text, span.start));
    let why = error.message().lines().next().unwrap_or_default();
    let why = why.replace(", expected ", "; expected ");
    // If the syntax is valid, the error is about a number that no type can represent.
    let key = error.span().and_then(|span| {
        let tree = DeTable::parse(text).ok()?;
        key_at_offset(tree.get_ref(), span.start)
    });
    match key {
        Some(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let what =
                format!("{file_name}:{line}: key `{}`: number out of range", join_key(&path));
            UserError::new(one_line(&what)).hint("use a number of at most 18 digits")
        }
        None => UserError::new(one_line(&format!("{file_name}:{line}: invalid TOML: {why}")))
            .hint("fix this line (syntax: https://toml.io)"),
    }
}

/// Returns the key whose value contains a position.
fn key_at_offset(table: &DeTable<'_>, offset: usize) -> Option<Vec<String>> {
    fn key_in_value(value: &DeValue<'_>, offset: usize) -> Option<Vec<String>> {
        match value {
            DeValue::Table(table) => key_at_offset(table, offset),
            DeValue::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
                let below = key_in_value(item.get_ref(), offset)?;
                Some([vec![index.to_string()], below].concat())
            }),
            _ => None,
        }
    }
    table.iter().find_map(|(name, value)| {
        let name = name.get_ref().to_string();
        match key_in_value(value.get_ref(), offset) {
            Some(below) => Some([vec![name], below].concat()),
            None => {
                let plain = !value.get_ref().is_table() && value.span().contains(&offset);
                plain.then(|| vec![name])
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigFile, ConfigSource, read_config, read_config_with_builtins};

    struct TestFolder(tempfile::TempDir);

    impl TestFolder {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = folder.path(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            folder
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn read(&self, name: &str, sets: &[&str]) -> Result<(ConfigFile, ConfigSource), UserError> {
            let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
            read_config(&self.path(name), &sets)
        }

        fn read_error(&self, name: &str) -> String {
            self.read(name, &[]).unwrap_err().to_string()
        }
    }

    const COMMON_CONFIG: &str = "tasks = ['a.jsonl', 'b.jsonl']\nattempts = 3\n\
        [budget]\nsteps = 50\ncost_usd = 1.5\n\
        [[arms]]\nname = 'gold'\nscaffold = 'gold'\n\
        [[arms]]\nname = 'loop'\nscaffold = 'tools'\nmodel = 'm'\nsettings = { a = 1, b = 2 }\n\
        [models.m]\nbase_url = 'http://h'\nname = 'm'\n";

    #[test]
    fn base_tables_and_arms_merge_but_lists_are_replaced() {
        let folder = TestFolder::new(&[
            ("common.toml", COMMON_CONFIG),
            (
                "run.toml",
                "base = 'common.toml'\ntasks = ['c.jsonl']\n[budget]\nsteps = 100\n\
                 [[arms]]\nname = 'new'\nscaffold = 'noop'\n\
                 [[arms]]\nname = 'loop'\nsettings = { b = 3 }\n[models.m]\nseed = 7\n",
            ),
        ]);
        let (file, _) = folder.read("run.toml", &[]).unwrap();
        assert_eq!(file.tasks, ["c.jsonl"]);
        assert_eq!(file.attempts, 3);
        assert_eq!((file.budget.steps, file.budget.cost_usd), (Some(100), Some(1.5)));
        let names: Vec<_> = file.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["gold", "loop", "new"]);
        let settings = serde_json::to_value(&file.arms[1].settings).unwrap();
        assert_eq!(settings, serde_json::json!({ "a": 1, "b": 3 }));
        assert_eq!(file.arms[1].scaffold, "tools");
        assert_eq!((file.models["m"].name.as_str(), file.models["m"].seed), ("m", Some(7)));
        // `--set` applies to the merged arms.
        let (file, _) = folder.read("run.toml", &["arms.2.name=other"]).unwrap();
        assert_eq!(file.arms[2].name, "other");
    }

    #[test]
    fn merged_values_keep_their_file_and_line() {
        let folder = TestFolder::new(&[
            ("lib/common.toml", COMMON_CONFIG),
            (
                "run.toml",
                "base = 'lib/common.toml'\n[[arms]]\nname = 'loop'\nsettings = { b = 3 }\n",
            ),
        ]);
        let (_, written) = folder.read("run.toml", &[]).unwrap();
        for (path, file, line) in [
            (&["arms", "1", "scaffold"][..], "lib/common.toml", 11),
            (&["arms", "1", "settings", "b"][..], "run.toml", 4),
            (&["arms", "1", "settings", "a"][..], "lib/common.toml", 13),
            (&["budget", "steps"][..], "lib/common.toml", 4),
            (&["tasks"][..], "lib/common.toml", 1),
        ] {
            let error = written.error(path, "wrong").message;
            let place = format!("{}:{line}: ", folder.path(file).display());
            assert!(error.starts_with(&place), "{path:?}: {error}");
        }
        // An error about a value points to the file that contains the value, not to the line that
        // names the base.
        fs::write(folder.path("lib/common.toml"), COMMON_CONFIG.replace("= 50", "= 'many'"))
            .unwrap();
        let error = folder.read_error("run.toml");
        assert!(error.contains("lib/common.toml:4: key `budget.steps`"), "{error}");
        fs::write(folder.path("lib/common.toml"), "tasks = [\n").unwrap();
        let error = folder.read_error("run.toml");
        assert!(error.contains("lib/common.toml:") && error.contains("invalid TOML"), "{error}");
    }

    #[test]
    fn paths_are_relative_to_the_file_that_contains_them() {
        let folder = TestFolder::new(&[
            ("lib/common.toml", COMMON_CONFIG),
            ("lib/a.jsonl", ""),
            ("lib/b.jsonl", ""),
            ("own/a.jsonl", ""),
            ("own/run.toml", "base = '../lib/common.toml'\n"),
            ("own/other.toml", "base = '../lib/common.toml'\ntasks = ['a.jsonl']\n"),
        ]);
        let real = |path: &str| Path::new(path).canonicalize().unwrap();
        let (file, _) = folder.read("own/run.toml", &[]).unwrap();
        let tasks: Vec<_> = file.tasks.iter().map(|task| real(task)).collect();
        let expected = ["lib/a.jsonl", "lib/b.jsonl"];
        assert_eq!(tasks, expected.map(|name| folder.path(name).canonicalize().unwrap()));
        let (file, _) = folder.read("own/other.toml", &[]).unwrap();
        assert_eq!(real(&file.tasks[0]), folder.path("own/a.jsonl").canonicalize().unwrap());
    }

    /// A user's own file with the same name takes precedence over a built-in one.
    #[test]
    fn base_tasks_and_scripts_may_name_built_in_files() {
        let folder = TestFolder::new(&[
            ("shipped/demo.toml", COMMON_CONFIG),
            ("shipped/tasks/demo.jsonl", ""),
            ("shipped/scripts/demo.toml", ""),
            ("run.toml", "base = 'demo'\n"),
            (
                "tasks.toml",
                "tasks = ['tasks/demo.jsonl', 'demo']\narms = []\n[models.m]\n\
                 base_url = 'script:scripts/demo.toml'\nname = 'm'\n",
            ),
            ("own/tasks/demo.jsonl", ""),
            ("own/demo", "attempts = 7\ntasks = ['tasks/demo.jsonl']\narms = []\n"),
            ("own/run.toml", "base = 'demo'\n"),
        ]);
        let shipped = folder.path("shipped");
        let builtins = |name: &Path| {
            let is_config = name.as_os_str() == "demo";
            let file = if is_config { Path::new("demo.toml") } else { name };
            Some(shipped.join(file)).filter(|path| path.is_file())
        };
        let read = |name: &str| {
            read_config_with_builtins(&folder.path(name), &[], &builtins).map(|(file, _)| file)
        };
        assert_eq!(read("run.toml").unwrap().attempts, 3);
        let file = read("tasks.toml").unwrap();
        let tasks = shipped.join("tasks/demo.jsonl").to_string_lossy().into_owned();
        assert_eq!(file.tasks, [tasks, "demo".to_owned()]);
        let script = format!("script:{}", shipped.join("scripts/demo.toml").display());
        assert_eq!(file.models["m"].base_url, script);
        let own = read("own/run.toml").unwrap();
        assert_eq!(own.attempts, 7);
        assert!(own.tasks[0].ends_with("own/tasks/demo.jsonl"), "{:?}", own.tasks);
        let error = folder.read_error("run.toml");
        assert!(error.contains("built-in configuration such as \"demo\""), "{error}");
    }

    #[test]
    fn circular_base_is_rejected_with_its_chain() {
        let folder = TestFolder::new(&[
            ("run.toml", "base = 'one.toml'\n"),
            ("one.toml", "attempts = 2\nbase = 'two.toml'\n"),
            ("two.toml", "base = './one.toml'\n"),
            ("self.toml", "base = 'self.toml'\n"),
        ]);
        let error = folder.read_error("run.toml");
        assert!(error.contains("two.toml:1: key `base`: circular base"));
        let (_, chain) = error.split_once("circular base: ").unwrap();
        let (chain, _) = chain.split_once('\n').unwrap();
        let names: Vec<_> = chain.split(" -> ").map(|one| one.rsplit('/').next()).collect();
        assert_eq!(names, [Some("one.toml"), Some("two.toml"), Some("one.toml")]);
        assert!(folder.read_error("self.toml").contains("self.toml:1: key `base`"));
    }

    #[test]
    fn unreadable_base_is_reported_with_its_line() {
        let folder = TestFolder::new(&[
            ("run.toml", "attempts = 1\nbase = 'nowhere.toml'\n"),
            ("number.toml", "base = 'wrong.toml'\n"),
            ("wrong.toml", "\nbase = 5\n"),
        ]);
        let error = folder.read_error("run.toml");
        assert!(error.contains("run.toml:2: key `base`: cannot read"), "{error}");
        assert!(error.contains("nowhere.toml") && error.contains("hint:"), "{error}");
        let error = folder.read_error("number.toml");
        assert!(error.contains("wrong.toml:2: key `base`: expected text"), "{error}");
    }

    #[test]
    fn set_option_replaces_the_base() {
        let folder = TestFolder::new(&[
            ("common.toml", COMMON_CONFIG),
            ("other.toml", &COMMON_CONFIG.replace("attempts = 3", "attempts = 5")),
            ("run.toml", "base = 'common.toml'\n"),
        ]);
        let set = format!("base={}", folder.path("other.toml").display());
        assert_eq!(folder.read("run.toml", &[&set]).unwrap().0.attempts, 5);
        let error = folder.read("run.toml", &["base=nowhere.toml"]).unwrap_err().to_string();
        assert!(error.starts_with("--set: key `base`: cannot read"), "{error}");
    }

    #[test]
    fn matrix_crosses_the_arms_of_a_base() {
        let folder = TestFolder::new(&[
            ("common.toml", COMMON_CONFIG),
            ("run.toml", "base = 'common.toml'\n[matrix]\n'budget.steps' = [1, 2]\n"),
        ]);
        let (file, written) = folder.read("run.toml", &[]).unwrap();
        assert_eq!(file.arms.len(), 4);
        let error = written.error(&["arms", "3", "scaffold"], "wrong").message;
        assert!(error.contains("common.toml:11: "), "{error}");
        let error = written.error(&["arms", "3", "budget", "steps"], "wrong").message;
        assert!(error.contains("run.toml:3: "), "{error}");
    }
}
