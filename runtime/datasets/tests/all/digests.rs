//! Checks that the serialized form of a task does not change. Run records and certificates contain
//! the task's digest, and cached verdicts are looked up by that digest.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::path::Path;

use pretty_assertions::assert_eq;
use proctor_datasets::load;
use proctor_types::Task;
use serde_json::Value;

/// Every committed file of rows and the digest of its task. The digests date from when
/// `benchmark.details` was an untyped map. For a new file, add the digest that this test prints.
const DIGESTS: [(&str, &str); 9] = [
    ("classic", "c367229e30c310fe0b196890fc9daae0e943ca1752c490118ab1a916ab685239"),
    ("demo", "5f22628f17341f274b588a3454d1860c99b691b63bf0ccc279492a17be1083af"),
    ("featurebench", "1811864a84994b4a7873a13ede05e048dec8e63b4fe83dd0b239ffee43784fcc"),
    ("featurebench-two", "fa438533c977c798253aa15b46eca00e9b35a59d085c7423c27860f5f87cadca"),
    ("live", "c4cf8965a979b8b079475173962b7315ee966df3d06125ac753f14533ff5c210"),
    ("own", "0bd3290eaf1c13feaae0338449e5682c10eee8b6731dedaef75948342f77b4a4"),
    ("own-details", "77366451035ae90b11b0c112b0eb1efeb17b03476b43349595fa1a8bd9030ede"),
    ("rebench", "6d186e19bf8fabe3b432cf9c2c85e4f202d7ece9925e07b03e61265ef5f90c3f"),
    ("script", "7f6cd9f52dbd52b003919607eb8b2f22d62c188477b90807983b4b67953e8c10"),
];

fn committed_tasks() -> Vec<(String, Task)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = std::fs::read_dir(here.join("tests/seeds/rows")).unwrap();
    let mut files: Vec<_> = rows.map(|entry| entry.unwrap().path()).collect();
    files.push(here.join("../../configs/tasks/demo.jsonl"));
    let mut tasks = Vec::new();
    for file in files {
        let loaded = load(&[file.to_str().unwrap().to_owned()], here).unwrap();
        assert_eq!(loaded.bad_rows, [], "{}", file.display());
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        tasks.extend(loaded.tasks.into_iter().map(|task| (name.clone(), task)));
    }
    tasks.sort_by(|a, b| a.0.cmp(&b.0));
    tasks
}

#[test]
fn task_digests_are_unchanged() {
    let found: Vec<(String, String)> =
        committed_tasks().into_iter().map(|(name, task)| (name, task.digest())).collect();
    let found: Vec<_> = found.iter().map(|(name, digest)| (&**name, &**digest)).collect();
    assert_eq!(found, DIGESTS);
}

/// Serializes a task and reads it back, as a run directory does.
#[test]
fn task_round_trips_through_json() {
    for (name, task) in committed_tasks() {
        let text = serde_json::to_string(&task).unwrap();
        let again: Task = serde_json::from_str(&text).unwrap();
        assert_eq!(again, task, "{name}");
        let plain: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), plain, "{name}");
    }
}
