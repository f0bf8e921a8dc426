//! Names the preparation of sandboxes by its own text: what was judged in a sandbox of another
//! preparation is not taken for what would be judged in one of this.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

const INPUTS: [&str; 5] = [
    "src",
    "../../configs/leak-check.toml",
    "../patch/src",
    "../../sandboxes/api/src",
    "../../sandboxes/host/src",
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
    println!("cargo:rustc-env=PREPARATION={:016x}", hasher.finish());
}

fn walk(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        walk(&entry.path(), files);
    }
}
