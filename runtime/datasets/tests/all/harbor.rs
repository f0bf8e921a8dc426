//! Loads Harbor folders as tasks.

#![expect(clippy::unwrap_used, reason = "a test helper fails by panic")]

use std::{fs, os::unix::fs::symlink, path::Path};

use proctor_datasets::{LoadedDataset, load};
use proctor_harbor::Folder;
use proctor_types::{HarborNetwork, Source, Task};

const TASK_CONFIG: &str = r#"schema_version = "1.4"
[task]
name = "made/NAME"
[metadata]
category = "files"
[agent]
timeout_sec = 120
[verifier]
timeout_sec = 60
user = "root"
network_mode = "no-network"
env = { KEY = "${KEY:-none}" }
[environment]
cpus = 2
memory_mb = 512
workdir = "/work"
env = { A = "1" }
"#;

/// Creates a valid task folder and changes some of its files. `None` removes a file.
fn create_task_folder(root: &Path, name: &str, changes: &[(&str, Option<&str>)]) {
    let config = TASK_CONFIG.replace("NAME", name);
    let files = [
        ("task.toml", config.as_str()),
        ("instruction.md", "<!-- canary -->\n\nWrite a file.\n"),
        ("environment/Dockerfile", "FROM debian:12\n"),
        ("tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"),
        ("solution/solve.sh", "echo hello > file\n"),
    ];
    let folder = root.join(name);
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (path, text) in changes {
        let path = folder.join(path);
        match text {
            None => fs::remove_file(path).unwrap(),
            Some(text) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
    }
}

fn load_pattern(root: &Path, pattern: &str) -> LoadedDataset {
    load(&[pattern.to_owned()], root).unwrap()
}

fn task_ids(loaded: &LoadedDataset) -> Vec<&str> {
    loaded.tasks.iter().map(|task| task.id.as_str()).collect()
}

fn single_task(loaded: LoadedDataset) -> Task {
    assert!(loaded.bad_rows.is_empty(), "{:?}", loaded.bad_rows);
    assert_eq!(loaded.tasks.len(), 1);
    loaded.tasks.into_iter().next().unwrap()
}

#[test]
fn harbor_folder_loads_by_every_kind_of_address() {
    let root = tempfile::tempdir().unwrap();
    create_task_folder(root.path(), "one", &[]);
    for pattern in ["one", "one/task.toml", ".", "o*", "*/task.toml", "one#shape=harbor"] {
        let found = load_pattern(root.path(), pattern);
        assert_eq!(task_ids(&found), ["made/one"], "{pattern}: {:?}", found.bad_rows);
    }
    let found = load_pattern(root.path(), "one");
    let base = found.base_dir(&found.tasks[0].id).unwrap();
    assert_eq!(base.canonicalize().unwrap(), root.path().join("one").canonicalize().unwrap());
    let task = single_task(found);
    assert_eq!(task.statement, "Write a file.\n");
    assert_eq!(task.environment.dockerfile.as_deref(), Some("environment"));
    assert_eq!((task.workdir.as_str(), task.fail_to_pass.len()), ("", 0));
    assert_eq!((task.timeouts.grade_seconds, task.env["A"].as_str()), (60.0, "1"));
    assert_eq!(task.categories, ["files"]);
    let harbor = task.harbor.as_ref().unwrap();
    assert_eq!((harbor.agent_seconds, harbor.workdir.as_deref()), (Some(120.0), Some("/work")));
    assert_eq!(harbor.verifier.user.as_deref(), Some("root"));
    assert_eq!(harbor.verifier.env["KEY"], "${KEY:-none}", "the host value must not be recorded");
    let networks = (&harbor.agent_network, &harbor.verifier.network);
    assert_eq!(networks, (&HarborNetwork::Public, &HarborNetwork::NoNetwork));
    assert!(harbor.solution.is_some());
    // The recorded task must be read back unchanged.
    let again: Task = serde_json::from_str(&serde_json::to_string(&task).unwrap()).unwrap();
    assert_eq!(again, task);
}

#[test]
fn bad_folder_is_reported_and_others_load() {
    let root = tempfile::tempdir().unwrap();
    create_task_folder(root.path(), "a", &[]);
    create_task_folder(root.path(), "b", &[]);
    type Files = [(&'static str, Option<&'static str>)];
    let wrong: &[(&str, &Files, &str)] = &[
        (
            "w01",
            &[("task.toml", Some("[agent]\ntimeout_sec = \"soon\"\n"))],
            "task.toml:2: field `agent.timeout_sec`",
        ),
        ("w02", &[("task.toml", Some("[[steps]]\nname = 's'\n"))], "several steps"),
        ("w03", &[("environment/docker-compose.yaml", Some("services: {}"))], "several services"),
        ("w04", &[("trajectory.json", Some("{}"))], "an earlier conversation"),
        ("w05", &[("task.toml", Some("[environment]\nos = \"windows\"\n"))], "Windows"),
        ("w06", &[("tests/test.sh", None)], "tests/test.sh: is missing"),
        ("w07", &[("tests/.harborignore", Some("*.sh\n"))], "excluded by .harborignore"),
        ("w08", &[("instruction.md", Some("# canary\n\n"))], "is empty"),
        ("w09", &[("instruction.md", None)], "instruction.md: is missing"),
        ("w10", &[("environment/Dockerfile", None)], "environment/Dockerfile: is missing"),
        ("w11", &[("task.toml", Some("a = \n"))], "task.toml:1: is not valid TOML"),
        ("w12", &[("task.toml", None)], "is missing, but the folder looks like a Harbor task"),
        ("w13", &[("task.toml", Some("[task]\nname = \"made/a\"\n"))], "is already used"),
        (
            "w14",
            &[("task.toml", Some("[environment]\nmemory_mb = 1\n"))],
            "environment.memory_mb is 1; it must be",
        ),
    ];
    for (name, changes, _) in wrong {
        create_task_folder(root.path(), name, changes);
    }
    create_task_folder(root.path(), "w15", &[]);
    symlink("/etc/passwd", root.path().join("w15/tests/out")).unwrap();
    let linked = [("w16", "instruction.md"), ("w17", "task.toml"), ("w18", "README.md")];
    for (name, file) in linked {
        create_task_folder(root.path(), name, &[]);
        let outside = root.path().join(format!("outside-{name}"));
        let link = root.path().join(name).join(file);
        fs::write(&outside, TASK_CONFIG.replace("NAME", name)).unwrap();
        let _ = fs::remove_file(&link);
        symlink(&outside, &link).unwrap();
    }
    fs::create_dir(root.path().join("docs")).unwrap();
    let found = load_pattern(root.path(), ".");
    assert_eq!(task_ids(&found), ["made/a", "made/b"]);
    let said: Vec<String> = found.bad_rows.iter().map(ToString::to_string).collect();
    for (name, _, what) in
        wrong.iter().copied().chain([("w15", &[][..], "points outside the task folder")])
    {
        let of_folder = |line: &&String| line.contains(&format!("/{name}/"));
        assert!(said.iter().filter(of_folder).any(|line| line.contains(what)), "{name}: {said:#?}");
    }
    for (name, file) in linked {
        let what = format!("/{name}/{file}: is a link that points outside the task folder");
        assert!(said.iter().any(|line| line.contains(&what)), "{name}: {said:#?}");
    }
    assert!(found.bad_rows.iter().all(|bad| bad.is_task_folder), "each folder can be skipped");
    assert!(!said.iter().any(|line| line.contains("docs")), "{said:#?}");
}

#[test]
fn links_within_the_folder_are_followed() {
    let root = tempfile::tempdir().unwrap();
    let changes = [
        ("instruction.md", None),
        ("task.toml", None),
        ("docs/text.md", Some("Write a file.\n")),
        ("docs/task.toml", Some("[task]\nname = \"made/linked\"\n")),
    ];
    create_task_folder(root.path(), "one", &changes);
    for (link, target) in [("instruction.md", "docs/text.md"), ("task.toml", "docs/task.toml")] {
        symlink(target, root.path().join("one").join(link)).unwrap();
    }
    let task = single_task(load_pattern(root.path(), "one"));
    assert_eq!((task.id.as_str(), task.statement.as_str()), ("made/linked", "Write a file.\n"));
}

/// Which files a task needs depends on its configuration.
#[test]
fn invalid_configuration_is_the_only_reported_error() {
    let root = tempfile::tempdir().unwrap();
    let no_files = [
        ("instruction.md", Some("Write a file.\n")),
        ("environment/Dockerfile", None),
        ("tests/test.sh", None),
    ];
    let image = "[environment]\ndocker_image = \"debian:12\"\ncpus = \"many\"\n";
    let steps = "[[steps]]\nname = 's'\n";
    let cases =
        [("image", image, "environment.cpus", false), ("steps", steps, "several steps", true)];
    for (name, config, what, has_no_instruction) in cases {
        let mut changes = no_files.to_vec();
        changes.push(("task.toml", Some(config)));
        if has_no_instruction {
            changes.push(("instruction.md", None));
        }
        create_task_folder(root.path(), name, &changes);
        let found = load_pattern(root.path(), &format!("{name}#shape=harbor"));
        let said: Vec<String> = found.bad_rows.iter().map(ToString::to_string).collect();
        assert!(said.len() == 1 && said[0].contains(what), "{name}: {said:#?}");
    }
}

#[test]
fn duplicate_name_is_reported_with_both_lines() {
    let root = tempfile::tempdir().unwrap();
    create_task_folder(root.path(), "a", &[]);
    let config = "[metadata]\n[task]\n\nname = \"made/a\"\n";
    create_task_folder(root.path(), "b", &[("task.toml", Some(config))]);
    let found = load_pattern(root.path(), ".");
    let said: Vec<String> = found.bad_rows.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].contains("b/task.toml:4: "), "{said:#?}");
    assert!(
        said[0].contains("is already used in ") && said[0].contains("a/task.toml:3"),
        "{said:#?}"
    );
}

#[test]
fn unknown_keys_are_warnings_with_their_lines() {
    let root = tempfile::tempdir().unwrap();
    let config = "flavour = 1\n[verifier]\ntimout_sec = 5\n";
    create_task_folder(root.path(), "one", &[("task.toml", Some(config))]);
    let found = load_pattern(root.path(), "one");
    assert_eq!(task_ids(&found), ["one"], "the folder name is the default");
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    assert!(
        found.warnings[1].contains("task.toml:3: field `verifier.timout_sec`"),
        "{:?}",
        found.warnings
    );
    assert!(found.warnings[1].contains("`timeout_sec`"), "{:?}", found.warnings);
}

#[test]
fn image_without_a_dockerfile_gets_the_folder_files() {
    let root = tempfile::tempdir().unwrap();
    let config = "[environment]\ndocker_image = \"debian:12\"\n";
    create_task_folder(root.path(), "with", &[("task.toml", Some(config))]);
    let with = single_task(load_pattern(root.path(), "with"));
    assert_eq!((with.environment.image.as_deref(), with.source), (Some("debian:12"), None));
    assert_eq!(with.environment.dockerfile, None, "the image takes precedence");
    let changes = [
        ("task.toml", Some(config)),
        ("environment/Dockerfile", None),
        ("environment/data", Some("1")),
    ];
    create_task_folder(root.path(), "without", &changes);
    let without = single_task(load_pattern(root.path(), "without"));
    assert_eq!(without.source, Some(Source::Path { path: "environment".into() }));
}

#[test]
fn dataset_toml_selects_tasks_by_digest() {
    let root = tempfile::tempdir().unwrap();
    for name in ["one", "two", "other"] {
        create_task_folder(root.path(), name, &[]);
    }
    let digest = |name: &str| Folder::open(&root.path().join(name)).unwrap().digest().unwrap();
    let zero = format!("sha256:{}", "0".repeat(64));
    let text = |two: &str| {
        format!(
            "\u{feff}[dataset]\r\nname = \"made/set\"\r\n[[tasks]]\r\nname = \"made/one\"\r\ndigest = \"{}\"\r\n\
             [[tasks]]\r\nname = \"made/two\"\r\ndigest = \"{two}\"\r\n",
            digest("one")
        )
    };
    fs::write(root.path().join("dataset.toml"), text(&digest("two"))).unwrap();
    for pattern in [".", "dataset.toml"] {
        let found = load_pattern(root.path(), pattern);
        assert!(found.bad_rows.is_empty(), "{:?}", found.bad_rows);
        assert_eq!(task_ids(&found), ["made/one", "made/two"], "only the listed tasks");
    }
    fs::write(root.path().join("dataset.toml"), text(&zero)).unwrap();
    let found = load_pattern(root.path(), ".");
    assert_eq!(task_ids(&found), ["made/one"]);
    let said = found.bad_rows[0].to_string();
    assert!(said.contains("dataset.toml:8: made/two: the digest of"), "{said}");
    let missing = "[dataset]\nname = 'made/set'\n[[tasks]]\nname = 'made/gone'\ndigest = 'ZERO'\n";
    fs::write(root.path().join("dataset.toml"), missing.replace("ZERO", &zero)).unwrap();
    let found = load_pattern(root.path(), ".");
    assert!(
        found.tasks.is_empty() && found.bad_rows[0].to_string().contains("its folder is missing"),
        "{:?}",
        found.bad_rows
    );
}

#[test]
fn dataset_files_are_verified() {
    let root = tempfile::tempdir().unwrap();
    create_task_folder(root.path(), "one", &[]);
    let digest = Folder::open(&root.path().join("one")).unwrap().digest().unwrap();
    fs::write(root.path().join("metric.py"), "pass\n").unwrap();
    let zero = format!("sha256:{}", "0".repeat(64));
    let text = format!(
        "[dataset]\nname = 'made/set'\n[[tasks]]\nname = 'made/one'\ndigest = '{digest}'\n[[files]]\n\
         path = 'metric.py'\ndigest = '{zero}'\n"
    );
    fs::write(root.path().join("dataset.toml"), text).unwrap();
    let found = load_pattern(root.path(), ".");
    assert_eq!(found.bad_rows.len(), 1, "{:?}", found.bad_rows);
    assert!(found.bad_rows[0].to_string().contains("metric.py"), "{:?}", found.bad_rows);
    assert!(!found.bad_rows[0].is_task_folder, "the whole dataset differs");
}

#[test]
fn harbor_accepts_ids_and_rejects_other_options() {
    let root = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        create_task_folder(root.path(), name, &[]);
    }
    create_task_folder(root.path(), "bad", &[("tests/test.sh", None)]);
    fs::write(root.path().join("ids"), "made/two\n").unwrap();
    let found = load_pattern(root.path(), ".#ids=ids");
    assert_eq!(task_ids(&found), ["made/two"]);
    assert!(
        found.bad_rows.is_empty(),
        "errors in other tasks must be ignored: {:?}",
        found.bad_rows
    );
    let refused = load(&["one#image=debian".to_owned()], root.path()).unwrap_err().to_string();
    assert!(refused.contains("only accept the options `ids` and `shape`"), "{refused}");
    // An id instead of a file is a common mistake.
    let id = load(&["one#ids=made/one".to_owned()], root.path()).unwrap_err().to_string();
    assert!(id.contains("no such file; list the ids in a file, one per line"), "{id}");
    let none = load(&["ids#shape=harbor".to_owned()], root.path()).unwrap_err().to_string();
    assert!(none.contains("contains no Harbor task"), "{none}");
}

#[test]
fn native_task_file_is_not_a_harbor_folder() {
    let root = tempfile::tempdir().unwrap();
    let own = "schema_version = 1\nid = 'own'\nstatement = 's'\nworkdir = '/w'\nfail_to_pass = ['a.py::t']\n\
               test_command = ['pytest']\n[environment]\nbase = 'host'\n";
    fs::create_dir(root.path().join("own")).unwrap();
    fs::write(root.path().join("own/task.toml"), own).unwrap();
    let found = load_pattern(root.path(), "own/task.toml");
    assert_eq!(task_ids(&found), ["own"], "{:?}", found.bad_rows);
    assert!(found.tasks[0].harbor.is_none());
}

#[test]
fn harbor_loads_five_hundred_folders() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..500 {
        create_task_folder(root.path(), &format!("t{number:03}"), &[]);
    }
    assert_eq!(load_pattern(root.path(), ".").tasks.len(), 500);
}
