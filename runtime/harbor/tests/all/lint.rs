//! Compares the lint findings in generated folders with the findings of Harbor's own lint
//! (`tests/harbor/lint.py`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proctor_harbor::{Folder, TASK_FILE, lint};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    files: BTreeMap<String, String>,
    findings: Vec<(String, Option<usize>, String)>,
}

#[test]
fn findings_match_harbors_package() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/harbor/lint.json");
    let cases: Vec<Case> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert!(cases.len() > 30);
    let mut wrong = Vec::new();
    for Case { name, files, findings } in cases {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in &files {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = lint(&Folder::open(place.path()).unwrap()).unwrap();
        let found: BTreeSet<_> = found
            .into_iter()
            // Harbor's findings in `task.toml` have no line numbers.
            .map(|one| (one.line.filter(|_| one.path != TASK_FILE), one.path, one.rule))
            .collect();
        let expected: BTreeSet<_> =
            findings.into_iter().map(|(path, line, rule)| (line, path, rule)).collect();
        if found != expected {
            let missing: Vec<_> = expected.difference(&found).collect();
            let more: Vec<_> = found.difference(&expected).collect();
            wrong.push(format!("{name}: missing {missing:?}, unexpected {more:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
