//! For build scripts: names a part of Proctor by its own text. A version number would have to be raised by
//! hand, and once would not be.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

/// Gives the crate a `variable` that changes with the content of any file at or below `inputs`.
pub fn fingerprint(variable: &str, inputs: &[&str]) {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for input in inputs {
        println!("cargo:rerun-if-changed={input}");
        walk(Path::new(input), &mut files);
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo:rustc-env={variable}={:016x}", hasher.finish());
}

fn walk(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        walk(&entry.path(), files);
    }
}
