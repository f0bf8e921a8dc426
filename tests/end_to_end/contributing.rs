//! Tests that the files named in CONTRIBUTING.md and ARCHITECTURE.md exist, and that links between
//! pages work.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::pages::{heading_anchors, link_targets, markdown_files};

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
    let files = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let mut pages: Vec<_> = files.filter(is_page).collect();
    pages.extend(markdown_files(&root.join("docs")));
    pages
}

#[test]
fn links_between_pages_resolve() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut broken = Vec::new();
    for page in markdown_pages(&root) {
        let text = fs::read_to_string(&page).unwrap();
        for target in link_targets(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let resolves = file.exists()
                && (anchor.is_empty()
                    || heading_anchors(&fs::read_to_string(&file).unwrap()).contains(anchor));
            if !resolves {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

#[test]
fn missing_paths_are_detected() {
    let page = "Write `configs/benchmarks/NAME.toml` and `runtime/none.rs`, run `cargo test`.";
    assert_eq!(named_paths(page), ["configs/benchmarks", "runtime/none.rs"]);
}
