//! Tests FEA-Bench rows that contain only ids. The rows are completed from a real clone and graded.
//!
//! These tests create the clone from three sdists of one library, which are three states of its
//! repository. There is a squashed pull request and a merged one.

use std::{fs, path::Path, process::Command};

use proctor_setup::Sources;
use proctor_types::Source;
use serde_json::{Value, json};

use crate::stage::{Stage, cache_folder, find_arm};

const VERSIONS: [(&str, &str); 3] = [
    ("24.0.0", "7153feccaea1ff2e1472f68d4b57fadb796a2ee49d29f638f1c9cd8fb5ebd916"),
    ("24.1.0", "4a49b7d57ee055b83a458c8682a2a6f199d263a8aa517098bda9bab813554b87"),
    ("25.0.0", "e110fbdc30b7b9868cb604e3f71d4722dd8f4dcb4a5ddd06028ba8f1ab0b5ace"),
];

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Replaces the content of a folder with a version of the library.
fn check_out(folder: &Path, version: &str, sha256: &str) {
    let source =
        Source::Pypi { pypi: "boltons".into(), version: version.into(), sha256: sha256.into() };
    let sources = Sources::new(cache_folder().join("sources"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let tree = runtime.block_on(sources.fetch(&source, Path::new("."))).unwrap();
    let script = "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} + && \
                  cp -r \"$1\"/. . && rm -rf *.egg-info PKG-INFO .github pytest.ini tox.ini requirements-test.*";
    let status = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&tree.folder)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success());
}

/// Creates the repository. Returns the base commits of the two pull requests.
fn create_clone(folder: &Path) -> [String; 2] {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q", "-b", "main", "."]);
    let commit = |index: usize, message: &str| {
        let (version, sha256) = VERSIONS[index];
        check_out(folder, version, sha256);
        git(folder, &["add", "-A"]);
        git(folder, &["commit", "-q", "-m", message]);
        git(folder, &["rev-parse", "HEAD"])
    };
    let first = commit(0, "24.0.0");
    let second =
        commit(1, "Find files down to a depth (#7)\n\n`iter_find_files` takes `max_depth`.");
    git(folder, &["checkout", "-q", "-b", "rotate"]);
    commit(2, "rotate");
    git(folder, &["checkout", "-q", "main"]);
    let message = "Merge pull request #9 from acme/rotate\n\nRotate files";
    git(folder, &["merge", "-q", "--no-ff", "-m", message, "rotate"]);
    [first, second]
}

/// Returns rows as the benchmark publishes them, without texts and patches.
fn id_rows(bases: &[String; 2]) -> String {
    let row = |number: u32, base: &str, f2p: &[&str], p2p: &[&str]| {
        json!({
            "instance_id": format!("mahmoud__boltons-{number}"), "pull_number": number,
            "repo": "mahmoud/boltons", "version": null, "base_commit": base,
            "environment_setup_commit": base, "FAIL_TO_PASS": f2p, "PASS_TO_PASS": p2p
        })
    };
    let seven = row(
        7,
        &bases[0],
        &[
            "tests/test_fileutils.py::test_iter_find_files",
            "tests/test_iterutils.py::test_research_custom_enter",
            "tests/test_typeutils.py::test_sentinel_copy",
        ],
        &[
            "tests/test_fileutils.py::test_fileperms",
            "tests/test_iterutils.py::TestRemap::test_basic_clone",
        ],
    );
    let nine = row(
        9,
        &bases[1],
        &[
            "tests/test_fileutils.py::test_fileperms",
            "tests/test_fileutils.py::test_rotate_file_full_rotation",
            "tests/test_fileutils.py::test_rotate_file_no_rotation",
        ],
        &[],
    );
    format!("{seven}\n{nine}\n")
}

#[test]
fn rows_with_only_ids_are_completed_from_a_clone() {
    let stage = Stage::new();
    let bases = create_clone(&stage.path("clones/mahmoud__boltons"));
    let file = stage.write_file("rows.jsonl", &id_rows(&bases));
    let repos = stage.path("clones");
    // The benchmark doesn't pin versions, and the library's conftest does not work with current
    // versions of pytest.
    let setup = "python3 -m venv /venv\n/venv/bin/pip install -q pytest==8.4.2\n\
                 /venv/bin/pip install -q -e .\n";
    let setup = stage.write_file("setup.sh", setup);
    let tasks =
        format!("{}#repos={}&base=host&setup={}", file.display(), repos.display(), setup.display());

    let shown = stage
        .run(["tasks", "show", "mahmoud__boltons-9", "--tasks", &tasks, "--json", "--gold"], 0);
    let task: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let statement = task["statement"].as_str().unwrap();
    assert!(statement.contains("<request>\nRotate files\n"), "{statement}");
    assert!(statement.contains("def rotate_file(filename, *, keep: int = 5):"), "{statement}");
    let details = &task["benchmark"]["details"];
    assert_eq!(details["problem_source"], "pull_request");
    assert_eq!(details["test_files"], json!(["tests/test_fileutils.py"]));
    assert!(details["functions_added"].as_u64().unwrap() >= 2, "{details}");

    for (predictions, rate) in [("gold", 1.0), ("noop", 0.0)] {
        let out = stage.path(predictions);
        let out = out.to_str().unwrap();
        stage.run(["grade", "--predictions", predictions, "--tasks", &tasks, "--out", out], 0);
        let report = stage.report(Path::new(out));
        let arm = find_arm(&report, predictions);
        assert_eq!((arm["trials"].as_u64(), arm["graded"].as_u64()), (Some(2), Some(2)));
        assert_eq!(arm["resolved_rate"], rate, "{predictions}: {report:#}");
        assert_eq!(arm["resolved_clean"], arm["resolved"], "{predictions}: {report:#}");
    }

    // Grade the same patch in the format of FEA-Bench's harness, for only one of the two tasks.
    let result = json!({"instance_id": "mahmoud__boltons-9", "model_name_or_path": "m/x",
        "full_output": "...", "model_patch": task["gold"]});
    let empty = json!({"instance_id": "mahmoud__boltons-7", "model_name_or_path": "m/x", "model_patch": ""});
    let results = stage.write_file("results.jsonl", &format!("{result}\n{empty}\n"));
    let out = stage.path("results");
    let (results, out) = (results.to_str().unwrap(), out.to_str().unwrap());
    stage.run(["grade", "--predictions", results, "--tasks", &tasks, "--out", out], 0);
    let report = stage.report(Path::new(out));
    let arm = find_arm(&report, "m/x");
    assert_eq!(
        (arm["resolved"].as_u64(), arm["trials"].as_u64()),
        (Some(1), Some(2)),
        "{report:#}"
    );
    assert_eq!(arm["outcomes"]["scaffold_exited"], 1, "{report:#}");
}
