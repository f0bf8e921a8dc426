//! Users' own prompts, which override the built-in ones.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The folders in `prompts/` that belong to scaffolds. A user's prompt folder may contain prompts
/// for several scaffolds.
const FOLDERS: [&str; 3] = ["bash", "external", "tools"];

/// An error that makes a prompt folder unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptFolderError {
    /// What is wrong, and in which file.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

impl PromptFolderError {
    /// Creates an error from a description and a fix.
    pub fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into() }
    }
}

/// Prompts that override built-in ones, by folder and file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptOverlay {
    texts: BTreeMap<(String, String), String>,
}

impl PromptOverlay {
    /// Reads a user's prompt folder. `known_files` lists one scaffold's prompt folders and the
    /// files in each. `dir` must contain the user's prompt files in subfolders with the same names.
    /// If the scaffold has a single prompt folder, the files may also be at the top level of `dir`.
    ///
    /// # Errors
    /// Fails if a file does not belong to the scaffold, a file cannot be read, or the folder has no
    /// prompt for the scaffold.
    pub fn read(dir: &Path, known_files: &[(&str, Vec<&str>)]) -> Result<Self, PromptFolderError> {
        let mut overlay = Self::default();
        let one = match known_files {
            [(folder, files)] => Some((*folder, files)),
            _ => None,
        };
        for (name, path) in entries(dir)? {
            if !path.is_dir() {
                let Some((folder, files)) = one else {
                    let what = format!(
                        "{}: prompt files belong in the folder of their scaffold",
                        path.display()
                    );
                    return Err(PromptFolderError::new(
                        what,
                        format!("move it into {}", format_folders(known_files)),
                    ));
                };
                overlay.add(folder, files, &name, &path)?;
                continue;
            }
            let Some((folder, files)) = known_files.iter().find(|(folder, _)| *folder == name)
            else {
                if FOLDERS.contains(&name.as_str()) {
                    continue;
                }
                let what = format!("{}: no scaffold has prompts with this name", path.display());
                return Err(PromptFolderError::new(what, suggest_name(&name, &FOLDERS)));
            };
            for (name, path) in entries(&path)? {
                overlay.add(folder, files, &name, &path)?;
            }
        }
        match overlay.texts.is_empty() {
            true => {
                let what = format!(
                    "{} has no prompt file for {}",
                    dir.display(),
                    format_folders(known_files)
                );
                let files = known_files.iter().flat_map(|(_, files)| files).copied();
                let files = files.collect::<Vec<_>>().join(", ");
                Err(PromptFolderError::new(what, format!("files: {files}")))
            }
            false => Ok(overlay),
        }
    }

    /// Adds a prompt from a run record.
    #[must_use]
    pub fn with_text(mut self, folder: &str, file: &str, text: impl Into<String>) -> Self {
        self.texts.insert((folder.to_owned(), file.to_owned()), text.into());
        self
    }

    /// Returns the text that overrides a built-in file, if there is one.
    pub fn get(&self, folder: &str, file: &str) -> Option<&str> {
        self.texts.get(&(folder.to_owned(), file.to_owned())).map(String::as_str)
    }

    fn add(
        &mut self,
        folder: &str,
        files: &[&str],
        name: &str,
        path: &Path,
    ) -> Result<(), PromptFolderError> {
        if !files.contains(&name) {
            let what = format!("{}: `{folder}` has no such file", path.display());
            return Err(PromptFolderError::new(what, suggest_name(name, files)));
        }
        let text = fs::read_to_string(path).map_err(|error| {
            let what = format!("{}: {error}", path.display());
            PromptFolderError::new(what, "prompts must be UTF-8 text")
        })?;
        let key = (folder.to_owned(), name.to_owned());
        if self.texts.insert(key, text).is_some() {
            let what = format!("{}: duplicate prompt file for `{folder}`", path.display());
            let hint = format!("keep it either at the top level or in `{folder}`");
            return Err(PromptFolderError::new(what, hint));
        }
        Ok(())
    }
}

/// Returns the names and paths of the entries, sorted by name. Skips names that start with a dot,
/// such as those of an editor's files or `.git`.
fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>, PromptFolderError> {
    let wrong = |error: std::io::Error| {
        let what = format!("{}: {error}", dir.display());
        PromptFolderError::new(what, "pass a folder of prompts (docs/reference/prompts.md)")
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn format_folders(known_files: &[(&str, Vec<&str>)]) -> String {
    let folders = known_files.iter().map(|(folder, _)| format!("`{folder}`"));
    folders.collect::<Vec<_>>().join(" or ")
}

fn suggest_name(unknown_name: &str, known_names: &[&str]) -> String {
    // Ignore the file extension, which may be missing or wrong: for `task.md` and `task.j2`,
    // suggest `task.md.j2`.
    let stem = unknown_name.split('.').next().unwrap_or(unknown_name);
    let likeness = |name: &str| {
        let whole = strsim::jaro_winkler(unknown_name, name);
        whole.max(strsim::jaro_winkler(stem, name.split('.').next().unwrap_or(name)))
    };
    let best = known_names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|name| likeness(name) > 0.75) {
        Some(best) => format!("did you mean `{best}`?"),
        None => format!("known: {}", known_names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("text of {file}")).unwrap();
        }
        folder
    }

    #[test]
    fn overlay_reads_prompts_at_the_top_or_in_the_scaffold_folder() {
        let known = [("tools", vec!["task.md.j2", "tool_shell.md.j2"])];
        let read = |files: &[&str]| PromptOverlay::read(folder(files).path(), &known);
        let top = read(&["task.md.j2", ".swp"]).unwrap();
        assert_eq!(top.get("tools", "task.md.j2"), Some("text of task.md.j2"));
        assert_eq!(top.get("tools", "tool_shell.md.j2"), None);
        // A folder may contain prompts for arms with different scaffolds.
        let below = read(&["tools/task.md.j2", "bash/anything"]).unwrap();
        assert_eq!(below.get("tools", "task.md.j2"), Some("text of tools/task.md.j2"));

        for (files, what, hint) in [
            (&["taks.md.j2"][..], "no such file", "did you mean `task.md.j2`?"),
            (&["tools/tool_shel.md"], "no such file", "did you mean `tool_shell.md.j2`?"),
            (&["x.txt"], "no such file", "known: task.md.j2, tool_shell.md.j2"),
            (&["tool/task.md.j2"], "no scaffold", "did you mean `tools`?"),
            (&["task.md.j2", "tools/task.md.j2"], "duplicate", "`tools`"),
            (&["bash/task.md.j2"], "no prompt file for `tools`", "task.md.j2"),
            (&[], "no prompt file for `tools`", "task.md.j2"),
        ] {
            let wrong = read(files).unwrap_err();
            assert!(
                wrong.problem.contains(what) && wrong.hint.contains(hint),
                "{files:?}: {wrong:?}"
            );
        }
        let missing = PromptOverlay::read(Path::new("/none/such"), &known).unwrap_err();
        assert!(missing.problem.starts_with("/none/such: "), "{missing:?}");
        let both = [known[0].clone(), ("bash", vec!["task.md.j2"])];
        let wrong = PromptOverlay::read(folder(&["task.md.j2"]).path(), &both).unwrap_err();
        assert_eq!(wrong.hint, "move it into `tools` or `bash`");
    }
}
