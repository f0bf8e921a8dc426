//! Compares BM25 with the PyPI package `bm25s` on a real repository: `cargo bench -p proctor-retrieval`.
//!
//! `PROCTOR_BM25_TREE` is the path of the repository. If it is not set, the bench downloads the
//! Django sdist from PyPI. The bench fails if any ranking differs, and only prints times.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use proctor_retrieval::{Index, terms};
use serde_json::{Value, json};

const DJANGO_REQUIREMENT: &str = "Django==5.1.4";
const QUERY_COUNT: usize = 100;

fn main() {
    let scratch = tempfile::tempdir().expect("a folder");
    let python = create_venv(scratch.path());
    let tree = std::env::var_os("PROCTOR_BM25_TREE")
        .map_or_else(|| download_django(&python, scratch.path()), PathBuf::from);
    let mut files = Vec::new();
    collect_python_files(&tree, &tree, &mut files);
    files.sort();
    println!("{} Python files in {}", files.len(), tree.display());

    let began = Instant::now();
    let mut index = Index::default();
    for (name, text) in &files {
        index.add(name.as_str(), &format!("{name}\n{text}"));
    }
    let indexing = began.elapsed().as_secs_f64();
    let queries: Vec<&str> = files
        .iter()
        .filter(|(_, text)| text.len() > 500)
        .step_by((files.len() / QUERY_COUNT).max(1))
        .map(|(_, text)| {
            text.char_indices().nth(600).map_or(text.as_str(), |(end, _)| &text[..end])
        })
        .collect();
    let began = Instant::now();
    let ours: Vec<_> = queries.iter().map(|query| index.search(query, 20)).collect();
    let asking = began.elapsed().as_secs_f64() / queries.len() as f64;

    let mut input = String::new();
    for (name, text) in &files {
        input.push_str(&format!(
            "{}\n",
            json!({"name": name, "terms": terms(&format!("{name}\n{text}"))})
        ));
    }
    for query in &queries {
        input.push_str(&format!("\n{}", json!({"text": query, "terms": terms(query)})));
    }
    let file = scratch.path().join("terms.jsonl");
    fs::write(&file, input).expect("a disk");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bench/bm25.py");
    let output =
        Command::new(python).arg(script).arg(&tree).arg(&file).output().expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Value = serde_json::from_slice(&output.stdout).expect("an answer");

    for (at, hits) in ours.iter().enumerate() {
        let ranked = theirs["ranked"][at].as_array().expect("a list");
        for (place, (hit, other)) in hits.iter().zip(ranked).enumerate() {
            let score = other[1].as_f64().expect("a score");
            assert!(
                (hit.score - score).abs() < 1e-4 * score.max(1.0),
                "query {at}, place {place}: {hit:?} and {other}"
            );
            // bm25s uses 32-bit floats, and returns documents with equal scores in any order.
            let same = other[0] == hit.name
                || ours[at].iter().any(|tie| {
                    other[0] == tie.name && (tie.score - hit.score).abs() < 1e-4 * score.max(1.0)
                })
                || place + 1 == hits.len();
            assert!(same, "query {at}, place {place}: {hit:?} and {other}");
        }
    }
    println!("{} queries: all rankings match bm25s {} (lucene)", queries.len(), theirs["version"]);
    let ratio = |name: &str, ours: f64, theirs: &Value| {
        let theirs = theirs.as_f64().expect("seconds");
        println!(
            "{name:<28} {:>9.2} ms, bm25s {:>9.2} ms: {:.1}x",
            ours * 1e3,
            theirs * 1e3,
            theirs / ours
        );
    };
    ratio("from text to index", indexing, &theirs["indexing"]);
    ratio("one query, from text on", asking, &theirs["asking"]);
}

fn run(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn create_venv(folder: &Path) -> PathBuf {
    let python = folder.join("venv/bin/python");
    run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")));
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "-q",
        "bm25s==0.3.16",
        "PyStemmer==3.1.0",
    ]));
    python
}

fn download_django(python: &Path, folder: &Path) -> PathBuf {
    let pip = [
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--no-build-isolation",
        DJANGO_REQUIREMENT,
        "-d",
    ];
    run(Command::new(python).args(["-m", "pip", "install", "-q", "setuptools", "wheel"]));
    run(Command::new(python).args(pip).arg(folder));
    let archive = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let archive = archive
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "gz"))
        .expect("an sdist");
    let tree = folder.join("tree");
    fs::create_dir(&tree).expect("a folder");
    run(Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(&tree)
        .arg("--strip-components=1"));
    tree
}

fn collect_python_files(root: &Path, folder: &Path, out: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            collect_python_files(root, &path, out);
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "py") {
            let name = path.strip_prefix(root).expect("below it").to_string_lossy().into_owned();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            out.push((name, text));
        }
    }
}
