//! Resolves the paths of a configuration.
//!
//! Paths in a file are relative to the file, so that the same file means the same from any
//! directory; the current directory is only used if nothing is there. A path in a base is relative
//! to the base's directory. A `--set` path was typed at a prompt, so the current directory comes
//! first. Found paths become absolute because a run may be resumed from anywhere.

use std::path::{Path, PathBuf};

use proctor_types::SCRIPT;
use serde_json::Value;

use crate::{ConfigFile, Written, models};

/// File name endings of a scaffold given as a manifest file.
const MANIFESTS: [&str; 1] = [".toml"];

/// Scaffolds whose setting `program` is a file or directory (`docs/host.md`).
const PROGRAMS: [&str; 3] = ["acp", "mcp", "process"];

/// How an arm names a Python function: `python:FILE.py:FUNCTION` (`docs/python.md`).
pub const PYTHON: &str = "python:";

/// Options of a dataset whose values are files or directories.
const FILES: [&str; 4] = ["ids", "repos", "setup", "shape"];

/// The directories in which a path of a configuration is looked up.
struct Places<'a> {
    /// The requested file.
    config: &'a Path,
    here: PathBuf,
    written: &'a Written,
}

/// Makes every path of a configuration absolute if its target exists. The others stay as written,
/// for the error message of the code that needs them.
pub fn place(file: &mut ConfigFile, config: &Path, written: &Written) {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let places = Places { config, here, written };

    for pattern in &mut file.tasks {
        *pattern = places.dataset(&["tasks"], pattern);
    }
    for (name, model) in &mut file.models {
        places.script(&["models", name, "base_url"], &mut model.base_url);
        if let Some(file) = &mut model.tokenizer
            && models::carried(&file.path).is_none()
        {
            file.path = places.find(&["models", name, "tokenizer"], &file.path);
        }
    }
    for (name, table) in &mut file.endpoints {
        places.script(&["endpoints", name, "base_url"], &mut table.base_url);
    }
    if let Some(certificate) = &mut file.grading.certificate {
        *certificate = places.find(&["grading", "certificate"], certificate);
    }
    for (index, arm) in file.arms.iter_mut().enumerate() {
        let index = index.to_string();
        if MANIFESTS.iter().any(|end| arm.scaffold.ends_with(end)) {
            let found = places.find(&["arms", &index, "scaffold"], Path::new(&arm.scaffold));
            arm.scaffold = found.to_string_lossy().into_owned();
        }
        if let Some(prompts) = &mut arm.prompts {
            *prompts = places.find(&["arms", &index, "prompts"], prompts);
        }
        if let Some((file, function)) =
            arm.scaffold.strip_prefix(PYTHON).and_then(|rest| rest.rsplit_once(':'))
        {
            let found = places.find(&["arms", &index, "scaffold"], Path::new(file));
            arm.scaffold = format!("{PYTHON}{}:{function}", found.display());
        }
        if let Some(interpreter) = &mut arm.interpreter
            // A bare name is looked up in `PATH`.
            && interpreter.components().count() > 1
        {
            *interpreter = places.find(&["arms", &index, "interpreter"], interpreter);
        }
        let is_program = PROGRAMS.contains(&arm.scaffold.as_str());
        if (is_program || arm.scaffold.starts_with(PYTHON))
            && let Some(Value::String(program)) = arm.settings.get_mut("program")
        {
            let found = places.find(&["arms", &index, "settings", "program"], Path::new(program));
            *program = found.to_string_lossy().into_owned();
        }
        if let Some(replay) = &mut arm.replay {
            *replay = places.find(&["arms", &index, "replay"], replay);
        }
        if let Some(ca_file) = &mut arm.network.ca_file {
            *ca_file = places.find(&written.of_arm(&index, "network", "ca_file"), ca_file);
        }
    }
}

impl Places<'_> {
    /// The directories to look in, in order.
    fn folders(&self, key: &[&str]) -> Vec<PathBuf> {
        let file = self.written.file_of(key);
        let is_set = file.is_none();
        let mut folders = beside(file.unwrap_or(self.config));
        folders.insert(if is_set { 0 } else { folders.len() }, self.here.clone());
        folders
    }

    fn find(&self, key: &[&str], path: &Path) -> PathBuf {
        let mut places = self.folders(key).into_iter().map(|folder| folder.join(path));
        places.find(|place| place.exists()).unwrap_or_else(|| path.to_owned())
    }

    fn script(&self, key: &[&str], base_url: &mut String) {
        if let Some(script) = base_url.strip_prefix(SCRIPT) {
            let found = self.find(key, Path::new(script));
            *base_url = format!("{SCRIPT}{}", found.display());
        }
    }

    /// A file, a directory or a glob with its options; a dataset on a hub stays as it is.
    fn dataset(&self, key: &[&str], pattern: &str) -> String {
        if pattern.starts_with("hf://") {
            return self.with_options(key, pattern);
        }
        // A file may have any name.
        let folders = self.folders(key);
        if folders.iter().any(|folder| folder.join(pattern).is_file()) {
            return self.find(key, Path::new(pattern)).to_string_lossy().into_owned();
        }
        let (place, options) = pattern.split_once('#').unwrap_or((pattern, ""));
        let fixed = before_wildcard(Path::new(place));
        let there = folders.iter().find(|folder| folder.join(&fixed).exists());
        let place = match there {
            // The directory is a path, not a pattern: its own brackets and stars are taken
            // literally.
            Some(folder) if place.contains(['*', '?', '[']) => {
                let folder = glob_escaped(&folder.to_string_lossy());
                Path::new(&folder).join(place).to_string_lossy().into_owned()
            }
            Some(folder) => folder.join(place).to_string_lossy().into_owned(),
            None => place.to_owned(),
        };
        match options {
            "" => place,
            options => self.with_options(key, &format!("{place}#{options}")),
        }
    }

    fn with_options(&self, key: &[&str], address: &str) -> String {
        let Some((place, options)) = address.split_once('#') else { return address.to_owned() };
        let placed = options.split('&').map(|option| match option.split_once('=') {
            Some((name, value)) if FILES.contains(&name) => {
                format!("{name}={}", self.find(key, Path::new(value)).display())
            }
            _ => option.to_owned(),
        });
        format!("{place}#{}", placed.collect::<Vec<_>>().join("&"))
    }
}

/// The directory of a file. If its name is a link, also the directory that the link leads to.
fn beside(file: &Path) -> Vec<PathBuf> {
    let folder = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::path::absolute(folder.unwrap_or(Path::new("."))).ok()
    };
    let mut beside: Vec<_> = folder(file).into_iter().collect();
    beside.extend(file.canonicalize().ok().and_then(|real| folder(&real)));
    beside.dedup();
    beside
}

/// The part of a pattern before its first wildcard.
fn before_wildcard(pattern: &Path) -> PathBuf {
    let plain = |part: &std::path::Component<'_>| {
        !part.as_os_str().to_string_lossy().contains(['*', '?', '['])
    };
    pattern.components().take_while(plain).collect()
}

fn glob_escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '*' | '?' | '[' | ']' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
        out
    })
}
