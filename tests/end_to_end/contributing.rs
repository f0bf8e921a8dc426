//! Tests that the files named in CONTRIBUTING.md and ARCHITECTURE.md exist, and that links between
//! pages work.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The top-level folders of the paths that the pages may name.
const TOP_FOLDERS: [&str; 7] =
    ["configs/", "docs/", "prompts/", "runtime/", "sandboxes/", "scaffolds/", "tests/"];

/// Returns the paths that the page names in backticks. If a path contains a placeholder (`NAME` or
/// `*`), only the folder before the placeholder is returned.
fn named_paths(page: &str) -> Vec<String> {
    let paths = page.split('`').skip(1).step_by(2);
    paths
        .filter(|path| TOP_FOLDERS.iter().any(|top| path.starts_with(top)) && !path.contains(' '))
        .map(|path| match path.find("NAME").or_else(|| path.find('*')) {
            Some(at) => path[..at].rsplit_once('/').map_or("", |(folder, _)| folder).to_owned(),
            None => path.to_owned(),
        })
        .collect()
}

#[test]
fn paths_in_contributing_and_architecture_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (page, at_least) in [("CONTRIBUTING.md", 30), ("ARCHITECTURE.md", 15)] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let paths = named_paths(&text);
        assert!(paths.len() > at_least, "{page}: found only {} paths", paths.len());
        let gone: Vec<_> = paths.iter().filter(|path| !root.join(path).exists()).collect();
        assert!(gone.is_empty(), "{page} names paths that do not exist: {gone:?}");
    }
}

/// Returns the pages at the top level of the repository and in `docs/`.
fn markdown_pages(root: &Path) -> Vec<PathBuf> {
    let files = [root.to_owned(), root.join("docs")].map(|folder| fs::read_dir(folder).unwrap());
    let paths = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the targets of the links on a page, except URLs and anchors on the same page.
fn link_targets(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).collect()
}

#[test]
fn links_between_pages_resolve() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut gone = Vec::new();
    for page in markdown_pages(&root) {
        let text = fs::read_to_string(&page).unwrap();
        for target in link_targets(&text) {
            let file = target.split('#').next().unwrap_or(target);
            if !page.parent().unwrap().join(file).exists() {
                gone.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(gone.is_empty(), "links that lead nowhere: {gone:#?}");
    let page = "[a](b.md), [c](https://d), [e](#f), [g](h i.md#j)";
    assert_eq!(link_targets(page), ["b.md", "h i.md#j"]);
}

#[test]
fn missing_paths_are_detected() {
    let page = "Write `configs/benchmarks/NAME.toml` and `runtime/none.rs`, run `cargo test`.";
    assert_eq!(named_paths(page), ["configs/benchmarks", "runtime/none.rs"]);
}
