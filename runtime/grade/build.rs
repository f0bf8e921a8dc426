//! Names the grader by its own text: a verdict that another grader gave is never taken for one of
//! this. A version number would have to be raised by hand, and once would not be.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

/// What a verdict depends on besides the task, the patch and the environment.
const INPUTS: [&str; 6] = [
    "src",
    "python",
    "../official/src",
    "../patch/src",
    "../../configs/grading.toml",
    "../../configs/benchmarks",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for input in INPUTS {
        println!("cargo:rerun-if-changed={input}");
        walk(Path::new(input), &mut files);
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo:rustc-env=GRADER={:016x}", hasher.finish());
}

fn walk(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        walk(&entry.path(), files);
    }
}
