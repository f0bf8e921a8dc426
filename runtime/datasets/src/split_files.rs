//! Chooses the files of a split in a directory or a hub dataset.

use std::collections::BTreeMap;

/// Types of data files, in order of preference. If a dataset has files of several types, they have
/// the same content.
const DATA_FILE_SUFFIXES: [&str; 3] = [".parquet", ".jsonl", ".json"];

/// Metadata files, which contain no rows despite their suffix.
const METADATA_FILES: [&str; 3] = ["dataset_infos.json", "dataset_dict.json", "state.json"];

/// The files that were chosen from a list of paths, if any.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SplitChoice {
    Files {
        split: Option<String>,
        files: Vec<String>,
    },
    /// There are several splits and none was requested, or the requested split is missing. Contains
    /// the splits.
    Splits(Vec<String>),
    NoFiles,
}

/// Chooses the files of the split `requested_split`. If `requested_split` is `None`, chooses the
/// files of the split `default_split`, if that split exists.
pub(crate) fn choose_split(
    paths: &[String],
    requested_split: Option<&str>,
    default_split: Option<&str>,
) -> SplitChoice {
    let is_data = |path: &&String, kind: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.ends_with(kind) && !name.starts_with('.') && !METADATA_FILES.contains(&name)
    };
    let of_kind = |kind: &&str| {
        let mut files: Vec<&String> = paths.iter().filter(|path| is_data(path, kind)).collect();
        files.sort();
        files
    };
    let Some(files) = DATA_FILE_SUFFIXES.iter().map(of_kind).find(|files| !files.is_empty()) else {
        return SplitChoice::NoFiles;
    };
    let mut splits: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        splits.entry(split_from_path(file)).or_default().push(file.clone());
    }
    let asked = requested_split.or(default_split.filter(|usual| splits.contains_key(*usual)));
    match asked {
        Some(split) => match splits.remove(split) {
            Some(files) => SplitChoice::Files { split: Some(split.to_owned()), files },
            // A single file may contain all splits in one object.
            None if splits.len() == 1 && splits.keys().all(|name| name.is_empty()) => {
                SplitChoice::Files { split: None, files: splits.into_values().flatten().collect() }
            }
            None => SplitChoice::Splits(splits.into_keys().collect()),
        },
        None if splits.len() == 1 => {
            let (split, files) = splits.pop_first().unwrap_or_default();
            SplitChoice::Files { split: Some(split).filter(|split| !split.is_empty()), files }
        }
        None => SplitChoice::Splits(splits.into_keys().collect()),
    }
}

/// Returns the name of the split that a path belongs to. It is `test` for
/// `data/test-00000-of-00002.parquet`, `test.jsonl`, `test/0000.parquet` and
/// `x-lite/data/test.parquet`. If the file name is purely numeric, the split is the folder's name, or
/// empty if there is no folder or the folder is `data`.
fn split_from_path(path: &str) -> String {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let stem = match stem.find("-00000-of-").or_else(|| shard_suffix_offset(stem)) {
        Some(at) => &stem[..at],
        None => stem,
    };
    if stem.bytes().all(|byte| byte.is_ascii_digit()) {
        return parts.next().filter(|folder| *folder != "data").unwrap_or("").to_owned();
    }
    stem.to_owned()
}

/// Returns the offset of `-<digits>-of-<digits>`.
fn shard_suffix_offset(stem: &str) -> Option<usize> {
    let (head, total) = stem.rsplit_once("-of-")?;
    let (name, number) = head.rsplit_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(total.split('-').next()?) && digits(number)).then_some(name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<String> {
        names.iter().map(|&path| path.to_owned()).collect()
    }

    fn files(split: &str, names: &[&str]) -> SplitChoice {
        SplitChoice::Files { split: Some(split.to_owned()), files: paths(names) }
    }

    #[test]
    fn choose_split_returns_files_of_one_split_in_order() {
        let hub = paths(&[
            "README.md",
            "data/test-00001-of-00002.parquet",
            "data/test-00000-of-00002.parquet",
            "data/dev-00000-of-00001.parquet",
            "test.jsonl",
        ]);
        let both = ["data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"];
        assert_eq!(choose_split(&hub, None, Some("test")), files("test", &both));
        assert_eq!(
            choose_split(&hub, Some("dev"), Some("test")),
            files("dev", &["data/dev-00000-of-00001.parquet"])
        );
        let splits = SplitChoice::Splits(paths(&["dev", "test"]));
        assert_eq!(choose_split(&hub, Some("lite"), Some("test")), splits);
        assert_eq!(choose_split(&hub, None, Some("full")), splits);
        let exported = paths(&["default/lite/0000.parquet", "default/full/0000.parquet"]);
        assert_eq!(
            choose_split(&exported, Some("lite"), None),
            files("lite", &["default/lite/0000.parquet"])
        );
        assert_eq!(
            choose_split(&paths(&["README.md", "dataset_infos.json"]), None, None),
            SplitChoice::NoFiles
        );
    }
}
