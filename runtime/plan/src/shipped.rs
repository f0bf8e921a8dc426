//! Run configurations that are built into the binary, for users without a copy of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proctor_types::{UserError, sha256_hex, similar_names};

use crate::PlanError;

/// The cache subdirectory for unpacked files.
const SHIPPED_DIR: &str = "shipped";

/// Includes files of the repository, given by their path below `configs/`.
macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../../../configs/", $path)))),+]
    };
}

static SHIPPED_FILES: [(&str, &str); 27] = files![
    "demo.toml",
    "feabench-cells.toml",
    "feabench-lite.toml",
    "feabench-probe.toml",
    "feabench-table2.toml",
    "feabench-table3.toml",
    "feabench-table4.toml",
    "featurebench-fast.toml",
    "featurebench-full.toml",
    "featurebench-lite.toml",
    "interface-ablation.toml",
    "local-model.toml",
    "quickstart.toml",
    "scaffold-comparison.toml",
    "scaffold-formats.toml",
    "shared-repositories.toml",
    "steps-ablation.toml",
    "swebench-verified.toml",
    "recipes/boltons-intlists.toml",
    "scripts/demo.toml",
    "scripts/scaffold-comparison.toml",
    "tasks/demo.jsonl",
    "tasks/numerals/numerals/__init__.py",
    "tasks/numerals/numerals/roman.py",
    "tasks/numerals/numerals/tally.py",
    "tasks/numerals/tests/test_roman.py",
    "tasks/numerals/tests/test_tally.py",
];

/// Returns the names of the built-in configurations, which are the top-level files.
fn config_names() -> impl Iterator<Item = &'static str> {
    SHIPPED_FILES
        .iter()
        .filter_map(|(path, _)| path.strip_suffix(".toml"))
        .filter(|name| !name.contains('/'))
}

/// Returns the path of the configuration that a command-line argument names: a file, or a built-in
/// configuration such as `demo`. A built-in configuration is unpacked into the cache.
pub fn find_config(name_or_path: &Path, cache: &Path) -> Result<PathBuf, PlanError> {
    if name_or_path.exists() {
        return Ok(name_or_path.to_owned());
    }
    let asked = name_or_path.to_string_lossy();
    let Some(name) = config_names().find(|name| *name == asked) else {
        let what = format!("cannot read {}: no such file", name_or_path.display());
        let near = similar_names(&asked, config_names());
        let known = config_names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = match near.first() {
            Some(near) => format!("did you mean `{near}`? built-in configurations: {known}"),
            None => format!("pass a TOML file, or a built-in configuration: {known}"),
        };
        return Err(UserError::new(what).hint(hint).into());
    };
    Ok(unpack_files(cache)?.join(format!("{name}.toml")))
}

/// Returns the built-in configuration (`demo`) or file (`tasks/demo.jsonl`) with this name, unpacked
/// into the cache.
pub fn find_builtin(name: &Path, cache: &Path) -> Option<PathBuf> {
    let name = name.to_str()?;
    let config = config_names().find(|known| *known == name).map(|known| format!("{known}.toml"));
    let path = config.or_else(|| {
        SHIPPED_FILES.iter().find(|(path, _)| *path == name).map(|(path, _)| (*path).to_owned())
    })?;
    Some(unpack_files(cache).ok()?.join(path))
}

/// Returns the demo's dataset, unpacked into the cache.
pub fn unpack_demo_tasks(cache: &Path) -> std::io::Result<PathBuf> {
    Ok(unpack_files(cache)?.join("tasks/demo.jsonl"))
}

/// Writes the built-in files unless they exist, and returns their directory. The directory's name
/// contains a hash of the files, so that each version has its own directory.
fn unpack_files(cache: &Path) -> std::io::Result<PathBuf> {
    let all: String =
        SHIPPED_FILES.iter().map(|(path, text)| format!("{path}\0{text}\0")).collect();
    let parent = std::path::absolute(cache)?.join(SHIPPED_DIR);
    let folder = parent.join(&sha256_hex(all.as_bytes())[..16]);
    if folder.join("demo.toml").exists() {
        return Ok(folder);
    }
    fs::create_dir_all(&parent)?;
    let fresh = tempfile::Builder::new().prefix(".new-").tempdir_in(&parent)?;
    for (path, text) in &SHIPPED_FILES {
        let file = fresh.path().join(path);
        fs::create_dir_all(file.parent().unwrap_or(&parent))?;
        fs::write(file, text.as_bytes())?;
    }
    // The rename is atomic, but another process may have created the same directory first.
    match fs::rename(fresh.path(), &folder) {
        Ok(()) => drop(fresh.keep()),
        Err(_) if folder.join("demo.toml").exists() => {}
        Err(error) => return Err(error),
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list contains every file that the demo needs, and unpacking twice is harmless.
    #[test]
    fn shipped_files_contain_the_whole_demo() {
        let cache = tempfile::tempdir().unwrap();
        let config = find_config(Path::new("demo"), cache.path()).unwrap();
        assert_eq!(find_config(Path::new("demo"), cache.path()).unwrap(), config);
        let (file, _) = proctor_config::read_config(&config, &[]).unwrap();
        let folder = config.parent().unwrap();
        for pattern in &file.tasks {
            assert!(Path::new(pattern).starts_with(folder), "{pattern}");
        }
        let loaded = proctor_datasets::load(&file.tasks, Path::new(".")).unwrap();
        assert_eq!((loaded.tasks.len(), loaded.recipes.len(), loaded.bad_rows.len()), (1, 1, 0));
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/tasks/numerals");
        for folder in ["numerals", "tests"] {
            for entry in fs::read_dir(repository.join(folder)).unwrap().flatten() {
                let name = format!("tasks/numerals/{folder}/{}", entry.file_name().display());
                let known = SHIPPED_FILES.iter().any(|(path, _)| *path == name);
                assert!(known || !name.ends_with(".py"), "{name} is not shipped");
            }
        }
    }

    #[test]
    fn find_builtin_knows_configurations_and_files() {
        let cache = tempfile::tempdir().unwrap();
        for (name, end) in [
            ("demo", "/demo.toml"),
            ("tasks/demo.jsonl", "/tasks/demo.jsonl"),
            ("scripts/demo.toml", "/scripts/demo.toml"),
        ] {
            let found = find_builtin(Path::new(name), cache.path()).unwrap();
            assert!(found.is_file() && found.to_string_lossy().ends_with(end), "{found:?}");
        }
        for name in ["tasks", "tasks/none.jsonl", "", "../demo.toml"] {
            assert_eq!(find_builtin(Path::new(name), cache.path()), None, "{name}");
        }
    }

    #[test]
    fn find_config_missing_file_is_an_error() {
        let cache = tempfile::tempdir().unwrap();
        let error = find_config(Path::new("nowhere.toml"), cache.path()).unwrap_err().to_string();
        assert!(error.contains("nowhere.toml") && error.contains("`demo`"), "{error}");
    }
}
