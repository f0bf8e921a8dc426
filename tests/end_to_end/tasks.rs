//! `proctor tasks`: where rows lie, and who reads what is printed.

use std::{fs, io, process::Stdio};

use crate::stage::{Stage, root};

/// A folder `rows` with the demo's rows, below the stage's own.
fn folder(stage: &Stage) {
    fs::create_dir(stage.path("rows")).unwrap();
    let tasks = root().join("configs/tasks");
    fs::copy(tasks.join("demo.jsonl"), stage.path("rows/test.jsonl")).unwrap();
    // A plan refuses a source that is not there, and the rows name theirs beside them.
    std::os::unix::fs::symlink(tasks.join("numerals"), stage.path("rows/numerals")).unwrap();
}

#[test]
fn a_folder_is_found_from_where_the_user_stands() {
    let stage = Stage::new();
    folder(&stage);
    fs::write(
        stage.path("run.toml"),
        "tasks = [\"rows\"]\n[[arms]]\nname = \"a\"\nscaffold = \"noop\"\n",
    )
    .unwrap();
    let here = |args: &[&str]| {
        let output = stage.proctor(args).current_dir(stage.dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let all = here(&["tasks", "list", "--tasks", "rows/test.jsonl"]);
    for spelt in ["rows", "rows/", "./rows/", "./rows/.", "rows#split=test", "."] {
        assert_eq!(here(&["tasks", "list", "--tasks", spelt]), all, "{spelt}");
    }
    let plan = here(&["run", "run.toml", "--dry-run"]);
    assert!(plan.contains("1 trial: "), "{plan}");
}

/// The hub is not a file: what fails there has other causes, and another way out.
#[test]
fn a_dataset_that_the_hub_does_not_give_is_told_with_what_helps() {
    let stage = Stage::new();
    let told = |dataset: &str, cache: &str| {
        let mut command = stage.proctor(["tasks", "list", "--tasks", dataset]);
        // Nothing listens on the port of a listener that is gone.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        command.env("HF_ENDPOINT", format!("http://127.0.0.1:{port}"));
        let output = command.env("PROCTOR_CACHE", stage.path(cache)).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap().replace("\n ", " ")
    };
    let said = told("hf://owner/name@v1/test", "cache");
    for part in
        ["the connection was refused", "network", "revision", "owner--name@v1", "test.parquet"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for word in ["name existing files", "os error", "client error", "error sending"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    let said = told("owner/name", "cache");
    assert!(said.contains("hf://owner/name"), "{said}");
    let said = told("hf://owner", "cache");
    assert!(said.contains("hf://OWNER/NAME") && !said.contains("existing files"), "{said}");
}

#[test]
fn a_reader_that_goes_away_ends_the_printing_quietly() {
    let stage = Stage::new();
    folder(&stage);
    let rows = stage.path("rows");
    let rows = rows.to_str().unwrap();
    let listed = stage.run(["tasks", "list", "--tasks", rows], 0);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let id = listed.lines().nth(3).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    for args in [
        vec!["tasks", "list", "--tasks", rows],
        vec!["tasks", "show", &id, "--tasks", rows],
        vec!["tasks", "show", &id, "--tasks", rows, "--json"],
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let child = stage.proctor(&args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}
