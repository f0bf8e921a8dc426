//! Compares the digests and inputs of generated folders with those computed by Harbor's own package
//! (`tests/harbor/digests.py`).

#![expect(clippy::unwrap_used, reason = "test helpers panic on errors")]

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use proctor_harbor::{Folder, dataset_digest};
use serde::Deserialize;

#[derive(Deserialize)]
struct Table {
    cases: Vec<Case>,
    datasets: Vec<DataSet>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    digest: Option<String>,
    #[serde(default)]
    inputs: Vec<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct DataSet {
    tasks: Vec<String>,
    files: Vec<(String, String)>,
    digest: String,
}

fn load_table() -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/harbor/digests.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn create_folder(case: &Case) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in &case.files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (path, target) in &case.links {
        symlink(target, folder.path().join(path)).unwrap();
    }
    folder
}

#[test]
fn digests_and_inputs_match_harbors_package() {
    let table = load_table();
    assert!(table.cases.len() > 100);
    let mut wrong = Vec::new();
    for case in &table.cases {
        let folder = create_folder(case);
        let task = Folder::open(folder.path()).unwrap();
        let found = task.digest().and_then(|digest| {
            let mut inputs: Vec<String> =
                task.inputs("tests")?.into_iter().map(|one| one.path).collect();
            inputs.sort();
            Ok((digest, inputs))
        });
        let agrees = match (&found, &case.digest) {
            (Ok((digest, inputs)), Some(expected)) => digest == expected && *inputs == case.inputs,
            (Err(_), None) => case.error.is_some(),
            _ => false,
        };
        if !agrees {
            let expected = (&case.digest, &case.inputs, &case.error);
            wrong.push(format!("{}: {found:?}, Harbor: {expected:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn dataset_digest_matches_harbors_package() {
    for set in load_table().datasets {
        let tasks = set.tasks.iter().map(String::as_str);
        let files = set.files.iter().map(|(path, digest)| (path.as_str(), digest.as_str()));
        assert_eq!(dataset_digest(tasks, files), set.digest);
    }
}
