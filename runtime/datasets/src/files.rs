//! Resolves a pattern or a directory to files.

use std::path::{Path, PathBuf};

use crate::{
    DatasetError,
    address::AddressOptions,
    split_files::{SplitChoice, choose_split},
};

/// Returns the files that a file name, a directory or a glob refers to, and their split if known.
pub(crate) fn expand_pattern(
    pattern: &str,
    base_dir: &Path,
    options: &AddressOptions,
    default_split: Option<&str>,
) -> Result<(Vec<PathBuf>, Option<String>), DatasetError> {
    let no_match =
        || DatasetError::NoMatch { pattern: pattern.to_owned(), base: base_dir.to_path_buf() };
    let plain = base_dir.join(pattern);
    if plain.is_file() {
        return Ok((vec![plain], options.split.clone()));
    }
    if plain.is_dir() {
        return find_files_in_folder(&plain, options, default_split);
    }
    if !pattern.contains(['*', '?', '[']) {
        return Err(no_match());
    }
    // The base is a path, not a pattern, so its brackets and stars are literal.
    let full = Path::new(&glob::Pattern::escape(&base_dir.to_string_lossy())).join(pattern);
    let paths = glob::glob(&full.to_string_lossy()).map_err(|error| DatasetError::BadPattern {
        pattern: pattern.to_owned(),
        why: error.to_string(),
    })?;
    let files: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).collect();
    if files.is_empty() { Err(no_match()) } else { Ok((files, options.split.clone())) }
}

/// Returns the files of a directory in the hub's layout.
fn find_files_in_folder(
    folder: &Path,
    options: &AddressOptions,
    default_split: Option<&str>,
) -> Result<(Vec<PathBuf>, Option<String>), DatasetError> {
    let fault = |why: String| DatasetError::Folder { folder: folder.to_path_buf(), why };
    // Use an absolute path. The matches of a relative glob don't start with the glob's `./`, so the
    // directory's path could not be stripped from them.
    let root = folder.canonicalize().map_err(|error| fault(format!("cannot be read: {error}")))?;
    let pattern = format!("{}/**/*", glob::Pattern::escape(&root.to_string_lossy()));
    let found = glob::glob(&pattern).map_err(|error| fault(error.to_string()))?;
    let paths: Vec<String> = found
        .filter_map(Result::ok)
        .filter(|path| path.is_file())
        .filter_map(|path| Some(path.strip_prefix(&root).ok()?.to_str()?.to_owned()))
        .collect();
    match choose_split(&paths, options.split.as_deref(), default_split) {
        SplitChoice::Files { split, files } => {
            Ok((files.iter().map(|file| folder.join(file)).collect(), split))
        }
        SplitChoice::Splits(splits) => {
            let why = format!("has the splits {}; choose one with `#split=`", splits.join(", "));
            Err(fault(why))
        }
        SplitChoice::NoFiles if paths.iter().any(|path| path.ends_with(".arrow")) => {
            let hint = "contains Arrow files written by `save_to_disk`; convert them with \
                        `load_from_disk(...).to_parquet(...)`";
            Err(fault(hint.into()))
        }
        SplitChoice::NoFiles => Err(fault("contains no .parquet, .jsonl or .json files".into())),
    }
}
