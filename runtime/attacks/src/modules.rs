//! Finds the modules that a solution changes, and the names that it adds or changes in them.

use std::{collections::BTreeSet, path::Path, sync::LazyLock};

use proctor_patch::{FilePatch, Patch, Side, SideContent};
use proctor_types::{Fault, Task, file_from_test_id};
use regex::Regex;

/// Returns the Git mode and content of a file in the agent's initial work directory, or `None` if
/// the file does not exist.
pub type ReadInitialFile<'a> = dyn Fn(&str) -> Result<SideContent, Fault> + 'a;

/// A Python file that the solution changes and that is not a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Path relative to the work directory.
    pub path: String,
    /// Top-level functions, classes and imported names that the solution adds or changes.
    pub names: BTreeSet<String>,
}

impl Module {
    /// Returns the first component of the module's name in the tests' imports.
    pub fn package(&self) -> &str {
        let inner = ["src/", "lib/"].iter().find_map(|root| self.path.strip_prefix(root));
        let first = inner.unwrap_or(&self.path).split('/').next().unwrap_or_default();
        first.strip_suffix(".py").unwrap_or(first)
    }
}

/// Names of test directories, and of files that are not modules of the package.
const NON_SOURCE_NAMES: [&str; 7] =
    ["tests", "test", "testing", "conftest.py", "setup.py", "noxfile.py", "docs"];

static DEFINITION_PATTERN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:async def|def|class)\s+(\w+)").ok());
static ASSIGNMENT_PATTERN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(\w+)\s*(?::[^=]*)?=[^=]").ok());
static WORD_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\w+").ok());

/// Returns the modules, those with the most names first.
///
/// # Errors
/// Returns a fault if an initial file cannot be read.
pub fn find_changed_modules(
    task: &Task,
    gold: &Patch,
    read_initial_file: &ReadInitialFile<'_>,
) -> Result<Vec<Module>, Fault> {
    let mut found: Vec<Module> = Vec::new();
    for file in &gold.files {
        // A file that the solution deletes cannot be attacked.
        let Some(path) =
            file.new_path.as_ref().and_then(|path| std::str::from_utf8(path.as_bytes()).ok())
        else {
            continue;
        };
        if !is_source(task, path) {
            continue;
        }
        let old = read_initial_file(path)?.map_or_else(Vec::new, |(_, bytes)| bytes);
        let names = changed_names(file, &String::from_utf8_lossy(&old));
        match found.iter_mut().find(|module| module.path == path) {
            Some(module) => module.names.extend(names),
            None => found.push(Module { path: path.to_owned(), names }),
        }
    }
    found.sort_by_key(|module| std::cmp::Reverse(module.names.len()));
    Ok(found)
}

fn is_source(task: &Task, path: &str) -> bool {
    let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path.ends_with(".py")
        && !path.split('/').any(|part| NON_SOURCE_NAMES.contains(&part))
        && !name.starts_with("test_")
        && !name.ends_with("_test.py")
        && !ids.map(|id| file_from_test_id(id)).any(|file| file == path)
}

/// Returns the module's affected top-level names: defined on an added line, enclosing a changed
/// line, or newly imported.
fn changed_names(file: &FilePatch, old_text: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = old_text.lines().collect();
    let known: BTreeSet<&str> = words(old_text).collect();
    let mut names = BTreeSet::new();
    for hunk in file.hunks() {
        let mut at = hunk.old_start;
        for line in &hunk.lines {
            let text = line.text();
            match line.side {
                Side::Both => at += 1,
                Side::Old => {
                    names.extend(enclosing_definition(&lines, at));
                    at += 1;
                }
                Side::New => {
                    let defined = first_capture(&DEFINITION_PATTERN, &text)
                        .or_else(|| first_capture(&ASSIGNMENT_PATTERN, &text));
                    if let Some(name) = defined.filter(|name| !name.starts_with("__")) {
                        names.insert(name);
                    } else if text.starts_with([' ', '\t']) {
                        names.extend(enclosing_definition(&lines, at.saturating_sub(1)));
                    }
                    names.extend(newly_imported_names(&text, &known));
                }
            }
        }
    }
    names
}

/// Returns the top-level definition that contains a line (counted from 1).
fn enclosing_definition(lines: &[&str], line_number: usize) -> Option<String> {
    let above = lines.iter().take(line_number).rev();
    let top = above
        .map(|line| line.trim_end())
        .find(|line| !line.is_empty() && !line.starts_with([' ', '\t', '#', ')', ']', '}', '@']))?;
    first_capture(&DEFINITION_PATTERN, top)
}

fn newly_imported_names(line: &str, known_names: &BTreeSet<&str>) -> Vec<String> {
    let Some((_, list)) = line.split_once("import ").filter(|_| line.starts_with("from ")) else {
        return Vec::new();
    };
    words(list)
        .filter(|word| !known_names.contains(word) && *word != "as")
        .map(str::to_owned)
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    WORD_PATTERN
        .as_ref()
        .into_iter()
        .flat_map(move |word| word.find_iter(text))
        .map(|found| found.as_str())
}

fn first_capture(pattern: &LazyLock<Option<Regex>>, text: &str) -> Option<String> {
    Some(pattern.as_ref()?.captures(text)?.get(1)?.as_str().to_owned())
}
