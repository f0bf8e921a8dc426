//! Tests `proctor tasks`: where it looks for rows, and what happens if a reader closes its output
//! early.

use std::{fs, io, process::Stdio};

use crate::stage::{Stage, repository_root};

/// Writes the demo's rows to the folder `rows` in the stage's folder.
fn write_rows_folder(stage: &Stage) {
    fs::create_dir(stage.path("rows")).unwrap();
    let tasks = repository_root().join("configs/tasks");
    fs::copy(tasks.join("demo.jsonl"), stage.path("rows/test.jsonl")).unwrap();
    // A missing source is rejected when a run is planned. The rows expect their source next to
    // them.
    std::os::unix::fs::symlink(tasks.join("numerals"), stage.path("rows/numerals")).unwrap();
}

#[test]
fn tasks_folder_is_relative_to_the_current_directory() {
    let stage = Stage::new();
    write_rows_folder(&stage);
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
    for address in ["rows", "rows/", "./rows/", "./rows/.", "rows#split=test", "."] {
        assert_eq!(here(&["tasks", "list", "--tasks", address]), all, "{address}");
    }
    let plan = here(&["run", "run.toml", "--dry-run"]);
    assert!(plan.contains("1 trial: "), "{plan}");
}

/// A dataset on the hub is not a file, so it may be unavailable for reasons that need other hints.
#[test]
fn unavailable_hub_dataset_is_reported_with_a_hint() {
    let stage = Stage::new();
    let told = |dataset: &str, cache: &str| {
        let mut command = stage.proctor(["tasks", "list", "--tasks", dataset]);
        // The listener is closed, so nothing listens on this port.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        command.env("HF_ENDPOINT", format!("http://127.0.0.1:{port}"));
        let output = command.env("PROCTOR_CACHE", stage.path(cache)).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap().replace("\n ", " ")
    };
    let said = told("hf://owner/name@v1/test", "cache");
    for part in ["connection refused", "network", "revision", "owner--name@v1", "test.parquet"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for word in ["pass existing files", "os error", "client error", "error sending"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    let said = told("owner/name", "cache");
    assert!(said.contains("hf://owner/name"), "{said}");
    let said = told("hf://owner", "cache");
    assert!(said.contains("hf://OWNER/NAME") && !said.contains("existing files"), "{said}");
}

#[test]
fn closed_output_pipe_ends_printing_silently() {
    let stage = Stage::new();
    write_rows_folder(&stage);
    let rows = stage.path("rows");
    let rows = rows.to_str().unwrap();
    let listed = stage.run(["tasks", "list", "--tasks", rows], 0);
    let listed = String::from_utf8(listed.stdout).unwrap();
    // Without a terminal, there is no table: each line is a task.
    let columns: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!((listed.lines().count(), columns.len()), (1, 6), "{listed}");
    let id = columns[0].to_owned();
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

/// Returns a FEA-Bench row that contains the files of its solution, as the benchmark's own scripts
/// write it.
fn fea_bench_row() -> serde_json::Value {
    let patch = "diff --git a/box.py b/box.py\n--- a/box.py\n+++ b/box.py\n@@ -1,2 +1,5 @@\n def size():\n     return 1\n+\n+def area():\n+    return 4\n\
                 diff --git a/lid.py b/lid.py\nnew file mode 100644\n--- /dev/null\n+++ b/lid.py\n@@ -0,0 +1,2 @@\n+class Lid:\n+    pass\n";
    let test_patch = "diff --git a/tests/test_box.py b/tests/test_box.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_box.py\n@@ -0,0 +1 @@\n+import box\n";
    serde_json::json!({
        "instance_id": "acme__box-7", "pull_number": 7, "repo": "acme/box", "version": null,
        "base_commit": "0123456789012345678901234567890123456789", "created_at": "2023-04-05T06:07:08Z",
        "patch": patch, "test_patch": test_patch, "problem_statement": "Boxes have an area.",
        "FAIL_TO_PASS": ["tests/test_box.py::test_area"], "PASS_TO_PASS": ["tests/test_box.py::test_size"],
        "new_components": {"box.py": [{"type": "function", "name": "area", "lines": [4, 5], "signature": "def area():", "doc": ""}]},
        "files": {"box.py": "def size():\n    return 1\n", "lid.py": null},
    })
}

#[test]
fn stats_compares_datasets_in_every_format() {
    let stage = Stage::new();
    write_rows_folder(&stage);
    let row = stage.write_file("fea.jsonl", &format!("{}\n", fea_bench_row()));
    let row = row.to_str().unwrap().to_owned();
    let demo = stage.path("rows").to_str().unwrap().to_owned();
    let printed = |format: &str| {
        let args = ["tasks", "stats", "--tasks", &row, &demo, "--format", format];
        String::from_utf8(stage.run(args, 0).stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&printed("json")).unwrap();
    let of = &json["datasets"][0];
    for (figure, value) in [
        ("tasks", 1.0),
        ("repositories", 1.0),
        ("statement_words", 4.0),
        // These are 3 lines in box.py and 2 lines in lid.py.
        ("gold_lines", 5.0),
        ("gold_files", 2.0),
        ("gold_functions", 1.0),
        ("gold_classes", 1.0),
        ("functions_added", 1.0),
        ("classes_added", 1.0),
        ("oracle_lines", 2.0),
        // These are the lines of `area` and `Lid`, without the empty line before `area`.
        ("added_component_lines", 4.0),
        ("added_component_share", 0.8),
        ("fail_to_pass", 1.0),
        ("tests", 2.0),
    ] {
        assert_eq!(of[figure].as_f64(), Some(value), "{figure}: {of}");
    }
    assert_eq!(of["first_date"], "2023-04-05");
    assert_eq!(of["last_date"], "2023-04-05");
    assert_eq!(of["per_task"][0]["task"], "acme__box-7");
    // The source of the demo is next to its rows.
    let demo_of = &json["datasets"][1];
    assert!(demo_of["oracle_lines"].as_f64().unwrap() > 0.0, "{demo_of}");
    let markdown = printed("markdown");
    assert!(markdown.contains("| % added components | 80.0 | "), "{markdown}");
    let csv = printed("csv");
    assert!(csv.lines().any(|line| line.starts_with("lines of oracle files,2.0,")), "{csv}");
    let text = printed("text");
    assert!(text.contains("statement words") && text.contains("4.0"), "{text}");
}
