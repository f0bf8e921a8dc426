//! Tests the carver on real code by carving a pseudo-random selection of definitions out of
//! Python's standard library.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use proctor_patch::{Change, CurrentFile, MODE_FILE, Patch, RawPath};
use proctor_types::sha256_hex;

use super::{CarveError, Definition, Kind, carve, definitions, file::parse_python};

/// Default number of files. `PROCTOR_CARVE_FILES` overrides it.
const DEFAULT_FILE_COUNT: usize = 200;

#[test]
fn carved_files_parse_and_reversed_mask_restores_them() {
    let files = library_files();
    let most = std::env::var("PROCTOR_CARVE_FILES").ok().and_then(|most| most.parse().ok());
    let files = &files[..most.unwrap_or(DEFAULT_FILE_COUNT).min(files.len())];
    let results: Vec<Option<bool>> = std::thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(2));
        let work = parts.map(|part| {
            scope.spawn(|| part.iter().map(|it| carve_selected_definitions(it)).collect())
        });
        let work: Vec<std::thread::ScopedJoinHandle<'_, Vec<_>>> = work.collect();
        work.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let count = |what: Option<bool>| results.iter().filter(|result| **result == what).count();
    let (carved, refused) = (count(Some(true)), count(Some(false)));
    // If most files could not be carved, the test would prove nothing.
    assert!(carved > 2 * refused && carved > 100, "{carved} carved, {refused} refused");
    println!("{} files: {carved} carved, {refused} refused", files.len());
}

/// Returns the standard library's files, in an order that mixes packages.
fn library_files() -> Vec<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_paths()['stdlib'])";
    let output = Command::new("python3").args(["-c", ask]).output().unwrap();
    let root = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let (mut folders, mut out) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("site-packages") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "py") {
                out.push(path);
            }
        }
    }
    out.sort_by_key(|path| {
        sha256_hex(path.strip_prefix(&root).unwrap().as_os_str().as_encoded_bytes())
    });
    out
}

/// Returns whether any of a file's selected definitions could be carved, or `None` if no definition
/// was selected.
fn carve_selected_definitions(path: &Path) -> Option<bool> {
    let text = fs::read_to_string(path).ok()?;
    let found = definitions("m.py", &text).ok()?;
    let mut wanted: Vec<String> = found
        .iter()
        .map(|it: &Definition| it.path.clone())
        .filter(|path| is_selected(path, &text))
        .collect();
    wanted.sort();
    wanted.dedup();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.py"), &text).unwrap();
    while !wanted.is_empty() {
        match carve(dir.path(), &BTreeMap::from([("m.py".to_owned(), wanted.clone())])) {
            Ok(carving) => {
                let (before, after) = &carving.files["m.py"];
                assert!(parse_python("m.py", after).is_ok(), "{}", path.display());
                let expected: Vec<(&str, Vec<&str>)> = definition_lines(before, &found)
                    .into_iter()
                    .filter(|(path, _)| !wanted.iter().any(|gone| is_within(path, gone)))
                    .collect();
                let left = definitions("m.py", after).unwrap();
                assert!(
                    definition_lines(after, &left) == expected,
                    "{}: what stays",
                    path.display()
                );
                let mask = carving.mask().into_bytes();
                assert!(
                    apply_patch(&mask, before) == after.as_bytes(),
                    "{}: the mask",
                    path.display()
                );
                let gold = Patch::parse(&mask).reverse().unwrap().to_bytes();
                assert!(
                    apply_patch(&gold, after) == before.as_bytes(),
                    "{}: the gold",
                    path.display()
                );
                return Some(true);
            }
            // Try again without the definition that is needed at import time.
            Err(CarveError::Needed { name, .. }) => {
                let tail = name.rsplit('.').next().unwrap_or(&name).to_owned();
                let before = wanted.len();
                wanted.retain(|path| *path != name && path.rsplit('.').next() != Some(&tail));
                if wanted.len() == before {
                    return Some(false);
                }
            }
            Err(error) => panic!("{}: {error}\n{wanted:?}", path.display()),
        }
    }
    None
}

/// Returns each definition's path and lines. The lines of classes are left out, because some of
/// their members may be removed.
fn definition_lines<'a>(
    text: &'a str,
    listed_definitions: &'a [Definition],
) -> Vec<(&'a str, Vec<&'a str>)> {
    let lines: Vec<&str> = text.split('\n').collect();
    let of = |it: &Definition| match it.kind {
        Kind::Class => Vec::new(),
        _ => lines[it.first - 1..it.last].to_vec(),
    };
    listed_definitions.iter().map(|it| (it.path.as_str(), of(it))).collect()
}

fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Selects a third of the definitions. The selection is the same in every run.
fn is_selected(path: &str, text: &str) -> bool {
    sha256_hex(format!("{path}{}", text.len()).as_bytes()).as_bytes()[0].is_multiple_of(3)
}

fn apply_patch(patch: &[u8], text: &str) -> Vec<u8> {
    let current = |_: &RawPath| {
        Some(CurrentFile::File { bytes: text.as_bytes().to_vec(), mode: MODE_FILE & 0o777 })
    };
    match &Patch::parse(patch).resolve(&current).unwrap()[..] {
        [Change::Write { bytes, .. }] => bytes.clone(),
        other => panic!("one file is written: {}", other.len()),
    }
}
