//! Finds the files in a directory that `proctor import` reads: trajectories, or predictions if
//! there are no trajectories. Settings, logs and results that agents write next to them are
//! skipped.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proctor_interchange::{Format, detect_format};

use super::export::FIDELITY_FILE;
use crate::{args::ImportFormat, error::UserError};

/// The files found below a directory.
#[derive(Debug, Default)]
pub struct InputFiles {
    /// Files to import, sorted by path.
    pub files: Vec<PathBuf>,
    /// Number of files that were ignored.
    pub ignored_count: usize,
}

impl ImportFormat {
    /// Returns the trajectory format, or `None` for predictions, which are not trajectories.
    pub fn as_trajectory_format(self) -> Option<Format> {
        match self {
            Self::Atif => Some(Format::Atif),
            Self::Mini => Some(Format::Mini),
            Self::SweAgent => Some(Format::SweAgent),
            Self::Swebench => None,
        }
    }
}

/// Returns the files of `folder` in the requested format, or in any format if none is requested.
/// Symlinks are not followed.
pub fn find_files(folder: &Path, format: Option<ImportFormat>) -> Result<InputFiles, UserError> {
    let all = list_files(folder)
        .map_err(|error| UserError::new(format!("cannot read {}: {error}", folder.display())))?;
    let count = all.len();
    let (mut trajectories, mut predictions) = (Vec::new(), Vec::new());
    for path in all {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ends = |ending: &str| name.ends_with(ending);
        if name == FIDELITY_FILE || !(ends(".json") || ends(".jsonl") || ends(".traj")) {
            continue;
        }
        let text = fs::read(&path)
            .map_err(|error| UserError::new(format!("cannot read {}: {error}", path.display())))?;
        match detect_format(&name, &String::from_utf8_lossy(&text)) {
            Some(found) => trajectories.push((found, path)),
            None if ends(".jsonl") || name == "preds.json" => predictions.push(path),
            None => {}
        }
    }
    let files: Vec<PathBuf> = match format.map(ImportFormat::as_trajectory_format) {
        Some(None) => predictions,
        Some(Some(asked)) => trajectories
            .into_iter()
            .filter(|(found, _)| *found == asked)
            .map(|(_, path)| path)
            .collect(),
        None if trajectories.is_empty() => predictions,
        None => trajectories.into_iter().map(|(_, path)| path).collect(),
    };
    if files.is_empty() {
        let what = format!("{} contains no file in a known format", folder.display());
        return Err(UserError::new(what).hint(
            "names of trajectory files must end in .json or .traj; prediction files must end in \
             .jsonl or be named preds.json. Files that you list one by one may have other names",
        ));
    }
    Ok(InputFiles { ignored_count: count - files.len(), files })
}

fn list_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn names(folder: &Path, format: Option<ImportFormat>) -> Vec<String> {
        let found = find_files(folder, format).unwrap();
        let names = found.files.iter().map(|file| file.strip_prefix(folder).unwrap());
        names.map(|name| name.display().to_string()).collect()
    }

    const ATIF: &str = r#"{"schema_version": "ATIF-v1.6", "steps": []}"#;
    const MINI_SWE_AGENT_SAMPLE: &str = r#"{"messages": [], "info": {}}"#;
    const PREDICTION_SAMPLE: &str =
        r#"{"instance_id": "t", "model_name_or_path": "m", "model_patch": ""}"#;

    #[test]
    fn find_files_prefers_trajectories_and_ignores_other_files() {
        let given = create_folder(&[
            ("b/trial/agent/trajectory.json", ATIF),
            ("a/trial/t.traj.json", MINI_SWE_AGENT_SAMPLE),
            ("a/trial/config.json", "{}"),
            ("a/fidelity.json", "{}"),
            ("a/agent.log", "x"),
            ("preds.jsonl", PREDICTION_SAMPLE),
        ]);
        let place = given.path();
        let both = ["a/trial/t.traj.json", "b/trial/agent/trajectory.json"];
        assert_eq!(names(place, None), both);
        assert_eq!(find_files(place, None).unwrap().ignored_count, 4);
        assert_eq!(names(place, Some(ImportFormat::Mini)), both[..1]);
        assert_eq!(names(place, Some(ImportFormat::Swebench)), ["preds.jsonl"]);
    }

    #[test]
    fn find_files_accepts_predictions_and_rejects_other_folders() {
        let given = create_folder(&[
            ("all/preds.json", "{}"),
            ("gold.1.jsonl", PREDICTION_SAMPLE),
            ("fidelity.json", "{}"),
        ]);
        assert_eq!(names(given.path(), None), ["all/preds.json", "gold.1.jsonl"]);
        let error = find_files(given.path(), Some(ImportFormat::SweAgent)).unwrap_err();
        assert!(error.message.contains("contains no file"), "{}", error.message);
    }

    #[test]
    fn find_files_does_not_follow_links_to_folders() {
        let given = create_folder(&[("t.traj.json", MINI_SWE_AGENT_SAMPLE)]);
        std::os::unix::fs::symlink(given.path(), given.path().join("again")).unwrap();
        assert_eq!(names(given.path(), None), ["t.traj.json"]);
    }
}
