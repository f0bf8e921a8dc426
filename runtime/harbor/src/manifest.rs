//! Reads `dataset.toml`.

use serde_json::Value;

use crate::diagnostics::{Diagnostic, parse_table};

/// The file that identifies a dataset folder.
pub const DATASET_FILE: &str = "dataset.toml";

/// A dataset: tasks with names and digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The dataset's name, as `org/name`.
    pub name: String,
    /// The tasks in file order, without duplicates.
    pub tasks: Vec<ManifestTask>,
    /// Files that belong to the dataset itself.
    pub files: Vec<ManifestFile>,
}

/// A task in a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestTask {
    /// The task's name, as `org/name`.
    pub name: String,
    /// The task's digest: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The line that contains the digest, counted from 1.
    pub line: Option<usize>,
}

/// A file next to `dataset.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// The file's name, without folders.
    pub path: String,
    /// The file's digest. If absent, Harbor computes it when the dataset is published.
    pub digest: Option<String>,
}

/// Parses the text of a `dataset.toml`.
///
/// # Errors
/// Returns all mistakes.
pub fn read_manifest(text: &str) -> Result<Manifest, Vec<Diagnostic>> {
    let table = parse_table(text).map_err(|mistake| vec![mistake])?;
    let mut wrong = Vec::new();
    let name = table.get("dataset").and_then(|dataset| dataset.get("name"));
    let name = match name.and_then(Value::as_str) {
        Some(name) if is_package_name(name) => name.to_owned(),
        Some(name) => {
            let message = format!("is {name:?}; use `org/name`");
            wrong.push(Diagnostic::at_key(text, "dataset.name", message));
            String::new()
        }
        None => {
            wrong.push(Diagnostic::at_key(text, "dataset.name", "is missing; use `org/name`"));
            String::new()
        }
    };
    let mut tasks: Vec<ManifestTask> = Vec::new();
    for (index, entry) in read_list(&table, "tasks", text, &mut wrong).iter().enumerate() {
        let key = |name: &str| format!("tasks[{index}].{name}");
        let of = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, digest) = (of("name"), of("digest"));
        if !is_package_name(name) {
            wrong.push(Diagnostic::at_key(
                text,
                &key("name"),
                format!("is {name:?}; use `org/name`"),
            ));
        } else if !is_digest(digest) {
            let message =
                format!("is {digest:?}; use `sha256:` followed by 64 hex digits ({name})");
            wrong.push(Diagnostic {
                line: find_line(text, digest),
                ..Diagnostic::at_key(text, &key("digest"), message)
            });
        } else if !tasks.iter().any(|one| one.name == name && one.digest == digest) {
            let line = find_line(text, digest);
            tasks.push(ManifestTask { name: name.to_owned(), digest: digest.to_owned(), line });
        }
    }
    let mut files = Vec::new();
    for (index, entry) in read_list(&table, "files", text, &mut wrong).iter().enumerate() {
        let of = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let (path, digest) = (of("path"), of("digest"));
        if path.is_empty() || path.contains(['/', '\\']) {
            let message = format!("is {path:?}; use the name of a file next to `{DATASET_FILE}`");
            wrong.push(Diagnostic::at_key(text, &format!("files[{index}].path"), message));
        } else if !digest.is_empty() && !is_digest(digest) {
            let message = format!("is {digest:?}; use `sha256:` followed by 64 hex digits");
            wrong.push(Diagnostic::at_key(text, &format!("files[{index}].digest"), message));
        } else {
            let digest = Some(digest.to_owned()).filter(|digest| !digest.is_empty());
            files.push(ManifestFile { path: path.to_owned(), digest });
        }
    }
    if wrong.is_empty() { Ok(Manifest { name, tasks, files }) } else { Err(wrong) }
}

fn read_list<'a>(
    table: &'a serde_json::Map<String, Value>,
    key: &str,
    text: &str,
    errors: &mut Vec<Diagnostic>,
) -> &'a [Value] {
    match table.get(key) {
        None => &[],
        Some(Value::Array(list)) => list,
        Some(_) => {
            errors.push(Diagnostic::at_key(text, key, format!("is not a list; use `[[{key}]]`")));
            &[]
        }
    }
}

fn find_line(text: &str, value: &str) -> Option<usize> {
    let line_index =
        (!value.is_empty()).then(|| text.lines().position(|line| line.contains(value)));
    line_index.flatten().map(|index| index + 1)
}

/// Whether a name has the form `org/name`, like the names of Harbor packages.
pub(crate) fn is_package_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    !name.contains("..") && name.split_once('/').is_some_and(|(org, name)| part(org) && part(name))
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64
            && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_names_and_digests_and_errors_have_lines() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let text = format!(
            "[dataset]\nname = 'o/d'\n[[tasks]]\nname = 'o/a'\ndigest = '{digest}'\n[[tasks]]\nname = 'o/a'\n\
             digest = '{digest}'\n[[files]]\npath = 'metric.py'\n"
        );
        let manifest = read_manifest(&text).unwrap();
        assert_eq!(
            (manifest.name.as_str(), manifest.tasks.len()),
            ("o/d", 1),
            "duplicates are removed"
        );
        assert_eq!((manifest.tasks[0].line, manifest.files[0].digest.as_deref()), (Some(5), None));
        let wrong =
            read_manifest("[dataset]\nname = 'x'\n[[tasks]]\nname = 'o/a'\ndigest = 'md5:1'\n")
                .unwrap_err();
        assert_eq!((wrong[0].line, wrong[1].line), (Some(2), Some(5)), "{wrong:?}");
        assert_eq!(read_manifest("a = \n").unwrap_err()[0].line, Some(1));
        for name in ["a", "a/b/c", ".a/b", "a/..b", "a/b c", "a/"] {
            assert!(!is_package_name(name), "{name}");
        }
    }
}
