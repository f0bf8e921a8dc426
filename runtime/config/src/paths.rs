//! Resolves the paths in a configuration.
//!
//! Paths in a file are relative to the file, so that the file has the same meaning in any
//! directory. The current directory is used only if nothing exists there. A path in a base is
//! relative to the base's directory. A `--set` path was typed in a shell, so the current directory
//! is searched first. Paths that exist become absolute, because a run may be resumed from anywhere.

use std::path::{Path, PathBuf};

use proctor_types::SCRIPT_URL_PREFIX;
use serde_json::Value;

use crate::{ConfigFile, ConfigSource, models, reader::BuiltinLookup};

/// File name suffixes that mark a scaffold as a manifest file.
const MANIFEST_SUFFIXES: [&str; 1] = [".toml"];

/// Scaffolds whose `program` setting is a file or directory (`docs/reference/host.md`).
const PROGRAM_SCAFFOLDS: [&str; 3] = ["acp", "mcp", "process"];

/// Prefix of a scaffold that is a Python function: `python:FILE.py:FUNCTION` (`docs/guides/python.md`).
pub const PYTHON_PREFIX: &str = "python:";

/// Dataset options whose values are files or directories.
const PATH_OPTIONS: [&str; 4] = ["ids", "repos", "setup", "shape"];

/// The directories in which the paths of a configuration are looked up.
struct PathResolver<'a> {
    /// The requested configuration file.
    config_file: &'a Path,
    current_dir: PathBuf,
    source: &'a ConfigSource,
    builtins: BuiltinLookup<'a>,
}

/// Makes every existing path of a configuration absolute. Other paths stay unchanged, so that the
/// code that needs them can report them as written.
pub fn resolve_paths(
    file: &mut ConfigFile,
    config_file: &Path,
    source: &ConfigSource,
    builtins: BuiltinLookup<'_>,
) {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let places = PathResolver { config_file, current_dir: here, source, builtins };

    for pattern in &mut file.tasks {
        *pattern = places.resolve_dataset(&["tasks"], pattern);
    }
    for (name, model) in &mut file.models {
        places.resolve_script(&["models", name, "base_url"], &mut model.base_url);
        if let Some(file) = &mut model.tokenizer
            && models::builtin_encoding(&file.path).is_none()
        {
            file.path = places.find_path(&["models", name, "tokenizer"], &file.path);
        }
    }
    for (name, table) in &mut file.endpoints {
        places.resolve_script(&["endpoints", name, "base_url"], &mut table.base_url);
    }
    if let Some(certificate) = &mut file.grading.certificate {
        *certificate = places.find_path(&["grading", "certificate"], certificate);
    }
    for (index, arm) in file.arms.iter_mut().enumerate() {
        let index = index.to_string();
        if MANIFEST_SUFFIXES.iter().any(|end| arm.scaffold.ends_with(end)) {
            let found = places.find_path(&["arms", &index, "scaffold"], Path::new(&arm.scaffold));
            arm.scaffold = found.to_string_lossy().into_owned();
        }
        if let Some(prompts) = &mut arm.prompts {
            *prompts = places.find_path(&["arms", &index, "prompts"], prompts);
        }
        if let Some((file, function)) =
            arm.scaffold.strip_prefix(PYTHON_PREFIX).and_then(|rest| rest.rsplit_once(':'))
        {
            let found = places.find_path(&["arms", &index, "scaffold"], Path::new(file));
            arm.scaffold = format!("{PYTHON_PREFIX}{}:{function}", found.display());
        }
        if let Some(interpreter) = &mut arm.interpreter
            // A bare name is looked up in `PATH`.
            && interpreter.components().count() > 1
        {
            *interpreter = places.find_path(&["arms", &index, "interpreter"], interpreter);
        }
        let is_program = PROGRAM_SCAFFOLDS.contains(&arm.scaffold.as_str());
        if (is_program || arm.scaffold.starts_with(PYTHON_PREFIX))
            && let Some(Value::String(program)) = arm.settings.get_mut("program")
        {
            let found =
                places.find_path(&["arms", &index, "settings", "program"], Path::new(program));
            *program = found.to_string_lossy().into_owned();
        }
        if let Some(replay) = &mut arm.replay {
            *replay = places.find_path(&["arms", &index, "replay"], replay);
        }
        if let Some(ca_file) = &mut arm.network.ca_file {
            *ca_file =
                places.find_path(&source.arm_key_path(&index, "network", "ca_file"), ca_file);
        }
    }
}

impl PathResolver<'_> {
    /// Returns the directories to look in, in order.
    fn search_dirs(&self, key: &[&str]) -> Vec<PathBuf> {
        let file = self.source.source_file(key);
        let is_set = file.is_none();
        let mut folders = config_dirs(file.unwrap_or(self.config_file));
        folders.insert(if is_set { 0 } else { folders.len() }, self.current_dir.clone());
        folders
    }

    fn find_path(&self, key: &[&str], path: &Path) -> PathBuf {
        let mut places = self.search_dirs(key).into_iter().map(|folder| folder.join(path));
        places.find(|place| place.exists()).unwrap_or_else(|| path.to_owned())
    }

    fn resolve_script(&self, key: &[&str], base_url: &mut String) {
        if let Some(script) = base_url.strip_prefix(SCRIPT_URL_PREFIX) {
            let found = self.find_path(key, Path::new(script));
            let found = if found.exists() { found } else { self.find_builtin(script, found) };
            *base_url = format!("{SCRIPT_URL_PREFIX}{}", found.display());
        }
    }

    /// Returns the built-in file with this path, or `otherwise`. A name without an extension is the
    /// name of a built-in configuration, which contains no tasks.
    fn find_builtin(&self, path: &str, otherwise: PathBuf) -> PathBuf {
        let path = Path::new(path);
        let found = path.extension().and_then(|_| (self.builtins)(path));
        found.unwrap_or(otherwise)
    }

    /// Resolves a file, a directory or a glob with its options. A hub dataset stays as it is,
    /// except for its options.
    fn resolve_dataset(&self, key: &[&str], pattern: &str) -> String {
        if pattern.starts_with("hf://") {
            return self.resolve_options(key, pattern);
        }
        // A file may have any name, including one that looks like a glob.
        let folders = self.search_dirs(key);
        if folders.iter().any(|folder| folder.join(pattern).is_file()) {
            return self.find_path(key, Path::new(pattern)).to_string_lossy().into_owned();
        }
        let (place, options) = pattern.split_once('#').unwrap_or((pattern, ""));
        let fixed = literal_prefix(Path::new(place));
        let there = folders.iter().find(|folder| folder.join(&fixed).exists());
        let place = match there {
            // The directory is a path and not a pattern, so escape its wildcards.
            Some(folder) if place.contains(['*', '?', '[']) => {
                let folder = escape_glob(&folder.to_string_lossy());
                Path::new(&folder).join(place).to_string_lossy().into_owned()
            }
            Some(folder) => folder.join(place).to_string_lossy().into_owned(),
            None => self.find_builtin(place, place.into()).to_string_lossy().into_owned(),
        };
        match options {
            "" => place,
            options => self.resolve_options(key, &format!("{place}#{options}")),
        }
    }

    fn resolve_options(&self, key: &[&str], address: &str) -> String {
        let Some((place, options)) = address.split_once('#') else { return address.to_owned() };
        let placed = options.split('&').map(|option| match option.split_once('=') {
            Some((name, value)) if PATH_OPTIONS.contains(&name) => {
                format!("{name}={}", self.find_path(key, Path::new(value)).display())
            }
            _ => option.to_owned(),
        });
        format!("{place}#{}", placed.collect::<Vec<_>>().join("&"))
    }
}

/// Returns the directory of a file. If the file is a link, also returns the directory of its
/// target.
fn config_dirs(file: &Path) -> Vec<PathBuf> {
    let folder = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::path::absolute(folder.unwrap_or(Path::new("."))).ok()
    };
    let mut beside: Vec<_> = folder(file).into_iter().collect();
    beside.extend(file.canonicalize().ok().and_then(|real| folder(&real)));
    beside.dedup();
    beside
}

/// Returns the part of a pattern before its first wildcard.
fn literal_prefix(pattern: &Path) -> PathBuf {
    let plain = |part: &std::path::Component<'_>| {
        !part.as_os_str().to_string_lossy().contains(['*', '?', '['])
    };
    pattern.components().take_while(plain).collect()
}

fn escape_glob(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '*' | '?' | '[' | ']' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
        out
    })
}
