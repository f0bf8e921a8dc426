//! Carves objects out of a source tree.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::changes::build_patch;

use super::{
    CarveError, Object,
    edits::{apply_edits, line_number},
    file::{check_syntax, parse_python, remove_definitions, remove_exports, unbound_paths},
    imports::{self, Module, RemovedPaths},
    references,
};

/// Options for carving.
#[derive(Debug, Clone, Copy, Default)]
pub struct CarveOptions<'a> {
    /// Whether to remove imports of removed code from all modules in the package, instead of only
    /// from package files (`__init__.py`). Other uses at import time are still errors.
    pub edit_importers: bool,
    /// Other files that must not change. Code that these files import cannot be removed.
    pub protected_files: &'a [String],
    /// The package's modules. Other Python files in the package, such as tests, are not changed.
    /// `None` means that all Python files are modules.
    pub modules: Option<&'a BTreeSet<String>>,
}

/// The result of carving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carving {
    /// The removed objects, sorted by file and path.
    pub objects: Vec<Object>,
    /// Each file's text before and after carving, by path relative to the tree.
    pub files: BTreeMap<String, (String, String)>,
}

impl Carving {
    /// Returns the mask, which is a Git patch that removes the objects. Reversed, it is the gold
    /// patch.
    pub fn mask(&self) -> String {
        let changes = self.files.iter();
        build_patch(changes.map(|(path, (before, after))| {
            (path.as_str(), Some(before.as_str()), Some(after.as_str()))
        }))
    }
}

/// A module's original and current text.
struct ModuleText {
    module: Module,
    original_text: String,
    current_text: String,
    /// Whether the file must not change.
    is_protected: bool,
}

/// Like [`carve_with_options`], with default options.
///
/// # Errors
/// See [`carve_with_options`].
pub fn carve(root: &Path, targets: &BTreeMap<String, Vec<String>>) -> Result<Carving, CarveError> {
    carve_with_options(root, targets, CarveOptions::default())
}

/// Removes the objects in `targets` (dotted paths by file) from the tree at `root`. No files are
/// written.
///
/// Re-exports of the objects in package files (`__init__.py`) and entries in `__all__` are removed,
/// too. If the code uses an object at import time in any other way, the result is an error that
/// names the location.
///
/// # Errors
/// [`CarveError`] if a file cannot be read, a path does not exist, or the remaining code needs a
/// removed object at import time.
pub fn carve_with_options(
    root: &Path,
    targets: &BTreeMap<String, Vec<String>>,
    options: CarveOptions<'_>,
) -> Result<Carving, CarveError> {
    let mut texts = BTreeMap::new();
    for file in targets.keys() {
        load_package(root, file, &mut texts)?;
    }
    if let Some(modules) = options.modules {
        texts.retain(|file, _| modules.contains(file) || targets.contains_key(file));
    }
    for file in options.protected_files {
        // Skip files that cannot be parsed. Python cannot import them either.
        if !texts.contains_key(file) && load_file(root, file, Path::new(""), &mut texts).is_ok() {
            texts.entry(file.clone()).and_modify(|text| text.is_protected = true);
        }
    }
    let mut all_gone = RemovedPaths::new();
    let mut objects = Vec::new();
    for (file, paths) in targets {
        let Some(text) = texts.get_mut(file) else {
            let reason = "the source has no such file".to_owned();
            return Err(CarveError::Unreadable { file: file.clone(), why: reason });
        };
        let edited = remove_definitions(file, &text.current_text, paths)?;
        text.current_text = edited.text;
        all_gone.entry(text.module.name.clone()).or_default().extend(edited.lost_paths);
        objects.extend(edited.objects);
    }
    // A removed re-export may itself be re-exported elsewhere. Repeat until no module loses another
    // name.
    loop {
        let before = count_paths(&all_gone);
        for (file, text) in &mut texts {
            if !text.is_protected && (text.module.is_package || options.edit_importers) {
                drop_reexports(file, text, &mut all_gone)?;
            }
            if !text.is_protected {
                propagate_star_imports(file, text, &mut all_gone)?;
            }
        }
        if count_paths(&all_gone) == before {
            break;
        }
    }
    for (file, text) in &texts {
        check_imports(file, text, &all_gone)?;
    }
    let files = texts
        .into_iter()
        .filter(|(_, text)| text.original_text != text.current_text)
        .map(|(file, text)| (file, (text.original_text, text.current_text)))
        .collect();
    Ok(Carving { objects, files })
}

fn count_paths(removed_paths: &RemovedPaths) -> usize {
    removed_paths.values().map(BTreeSet::len).sum()
}

fn drop_reexports(
    file: &str,
    text: &mut ModuleText,
    all_removed_paths: &mut RemovedPaths,
) -> Result<(), CarveError> {
    let parsed = parse_python(file, &text.current_text)?;
    let findings = imports::find_lost_imports(
        &text.current_text,
        &parsed.syntax().body,
        &text.module,
        all_removed_paths,
    );
    if findings.edits.is_empty() {
        return Ok(());
    }
    text.current_text = check_syntax(file, apply_edits(&text.current_text, findings.edits))?;
    record_lost_names(
        file,
        text,
        findings.lost_imports.into_iter().map(|lost| lost.local_name).collect(),
        all_removed_paths,
    )
}

fn propagate_star_imports(
    file: &str,
    text: &mut ModuleText,
    all_removed_paths: &mut RemovedPaths,
) -> Result<(), CarveError> {
    let parsed = parse_python(file, &text.current_text)?;
    let findings = imports::find_lost_imports(
        &text.current_text,
        &parsed.syntax().body,
        &text.module,
        all_removed_paths,
    );
    let known = all_removed_paths.get(&text.module.name).cloned().unwrap_or_default();
    let fresh: Vec<String> = findings.lost_star_names.difference(&known).cloned().collect();
    if fresh.is_empty() { Ok(()) } else { record_lost_names(file, text, fresh, all_removed_paths) }
}

/// Records names that a module no longer binds, and removes these names from `__all__`.
fn record_lost_names(
    file: &str,
    text: &mut ModuleText,
    names: Vec<String>,
    all_removed_paths: &mut RemovedPaths,
) -> Result<(), CarveError> {
    let lost = unbound_paths(file, &text.current_text, names.iter())?;
    text.current_text = remove_exports(file, &text.current_text, &lost)?;
    all_removed_paths.entry(text.module.name.clone()).or_default().extend(lost);
    Ok(())
}

/// Returns an error if a module needs removed code at import time.
fn check_imports(
    file: &str,
    text: &ModuleText,
    all_removed_paths: &RemovedPaths,
) -> Result<(), CarveError> {
    let needed = |offset: usize, name: &str| {
        // Report the line number in the original file.
        let line = text.current_text[offset..].lines().next().unwrap_or_default();
        let line = original_line(&text.original_text, &text.current_text, offset, line);
        CarveError::Needed { file: file.to_owned(), line, name: name.to_owned() }
    };
    let parsed = parse_python(file, &text.current_text)?;
    let body = &parsed.syntax().body;
    let findings =
        imports::find_lost_imports(&text.current_text, body, &text.module, all_removed_paths);
    if let Some(lost) = findings.lost_imports.first() {
        return Err(needed(lost.offset, &lost.name));
    }
    let own = all_removed_paths.get(&text.module.name).cloned().unwrap_or_default();
    match references::find_uses(body, &own, &findings.modules).first() {
        Some((offset, name)) => Err(needed(*offset, name)),
        None => Ok(()),
    }
}

/// Returns a line's number in the original text. Carving only removes lines, so the original number
/// is at least as large as the current one. Returns the first line from there on that ends with the
/// same text.
fn original_line(original_text: &str, current_text: &str, offset: usize, line_end: &str) -> usize {
    let number = line_number(current_text, offset);
    let found = original_text
        .lines()
        .enumerate()
        .skip(number - 1)
        .find(|(_, line)| line.ends_with(line_end));
    found.map_or(number, |(index, _)| index + 1)
}

/// Loads all modules of the package that contains `file`.
fn load_package(
    root: &Path,
    file: &str,
    texts: &mut BTreeMap<String, ModuleText>,
) -> Result<(), CarveError> {
    if texts.contains_key(file) {
        return Ok(());
    }
    let mut top = Path::new(file).parent().unwrap_or(Path::new("")).to_path_buf();
    if !root.join(&top).join("__init__.py").is_file() {
        // The file is a single module that does not belong to a package.
        return load_file(root, file, Path::new(file).parent().unwrap_or(Path::new("")), texts);
    }
    while let Some(parent) = top.parent() {
        if !root.join(parent).join("__init__.py").is_file() || parent.as_os_str().is_empty() {
            break;
        }
        top = parent.to_path_buf();
    }
    let start = top.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut folders = vec![top];
    while let Some(folder) = folders.pop() {
        let listing = fs::read_dir(root.join(&folder))
            .map_err(|error| unreadable_error(&folder.display().to_string(), &error))?;
        let mut names: Vec<PathBuf> =
            listing.flatten().map(|entry| folder.join(entry.file_name())).collect();
        names.sort();
        for path in names {
            if root.join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "py")
                && let Some(name) = path.to_str()
                && let Err(error) = load_file(root, name, &start, texts)
                && name == file
            {
                // Skip other files that cannot be parsed, such as templates or Python 2 code.
                // Python cannot import them either.
                return Err(error);
            }
        }
    }
    Ok(())
}

fn load_file(
    root: &Path,
    file: &str,
    start: &Path,
    texts: &mut BTreeMap<String, ModuleText>,
) -> Result<(), CarveError> {
    let before =
        fs::read_to_string(root.join(file)).map_err(|error| unreadable_error(file, &error))?;
    parse_python(file, &before)?;
    let path = Path::new(file);
    let below = path.strip_prefix(start).unwrap_or(path).with_extension("");
    let mut parts: Vec<String> =
        below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let is_package = parts.last().is_some_and(|last| last == "__init__");
    if is_package {
        parts.pop();
    }
    let module = Module { name: parts.join("."), is_package };
    texts.insert(
        file.to_owned(),
        ModuleText {
            module,
            current_text: before.clone(),
            original_text: before,
            is_protected: false,
        },
    );
    Ok(())
}

fn unreadable_error(file: &str, error: &std::io::Error) -> CarveError {
    CarveError::Unreadable { file: file.to_owned(), why: error.to_string() }
}
