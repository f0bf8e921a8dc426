//! Tests Harbor task folders on Docker. Their images are used unchanged.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::stage::{Stage, events, find_arm, find_files, has_docker};

/// An image that `tests/images/debian.sh` builds.
const DEBIAN_IMAGE: &str = "proctor-test:bookworm";

/// The files in a task folder: `task.toml`, the Dockerfile's lines after `FROM`, `test.sh` and
/// `solve.sh`.
struct TaskFolder<'a> {
    name: &'a str,
    config: &'a str,
    dockerfile_lines: &'a str,
    test_script: &'a str,
    solution_script: &'a str,
}

const PLAIN_TASK: TaskFolder<'static> = TaskFolder {
    name: "plain",
    config: "",
    dockerfile_lines: "WORKDIR /app\n",
    test_script: "[ \"$(cat hello.txt)\" = hello ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n",
    solution_script: "echo hello > hello.txt\n",
};

fn write_folder(stage: &Stage, set: &str, folder: &TaskFolder<'_>) {
    let root = stage.path(set).join(folder.name);
    let files = [
        ("task.toml", format!("[task]\nname = \"made/{}\"\n{}", folder.name, folder.config)),
        ("instruction.md", "Write `hello` into `hello.txt`.\n".to_owned()),
        ("environment/Dockerfile", format!("FROM {DEBIAN_IMAGE}\n{}", folder.dockerfile_lines)),
        ("tests/test.sh", format!("#!/bin/bash\n{}", folder.test_script)),
        ("solution/solve.sh", format!("#!/bin/bash\n{}", folder.solution_script)),
    ];
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn path_text(stage: &Stage, set: &str) -> String {
    stage.path(set).to_str().unwrap().to_owned()
}

/// Returns the verdicts in a run, by task.
fn read_verdicts(run: &Path) -> BTreeMap<String, Value> {
    let read = |path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let all = find_files(run, "verdict.json").into_iter().map(read);
    all.map(|verdict| (verdict["task"].as_str().unwrap().to_owned(), verdict)).collect()
}

/// Grades the gold solutions of a set of folders. Returns the verdicts, without tasks that have
/// none, and the messages.
fn grade_gold(stage: &Stage, set: &str, status: i32) -> (BTreeMap<String, Value>, String) {
    let (tasks, out) = (path_text(stage, set), path_text(stage, &format!("{set}-gold")));
    let args =
        ["grade", "--predictions", "gold", "--sandbox", "docker", "--tasks", &tasks, "--out", &out];
    let said = stage.run(args, status);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    (read_verdicts(Path::new(&out)), told)
}

#[test]
fn gold_resolves_a_folder_and_noop_does_not() {
    if !has_docker("gold_resolves_a_folder_and_noop_does_not") {
        return;
    }
    let stage = Stage::new();
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            dockerfile_lines: "WORKDIR /app\nENTRYPOINT [\"/start\"]\nCMD [\"serve\"]\n",
            ..PLAIN_TASK
        },
    );
    write_folder(
        &stage,
        "set",
        &TaskFolder { name: "steps", config: "[[steps]]\nname = \"one\"\n", ..PLAIN_TASK },
    );
    let tasks = path_text(&stage, "set");
    let out = path_text(&stage, "validated");
    let said = stage
        .run(["tasks", "validate", "--sandbox", "docker", "--tasks", &tasks, "--out", &out], 0);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("several steps") && told.contains("skipped 1 of 2 tasks"), "{told}");
    assert!(told.contains("ENTRYPOINT `/start` and CMD `serve` do not run"), "{told}");
    assert!(told.contains("Harbor's lint rule `shared-verifier`: 1 finding"), "{told}");
    let report = stage.report(Path::new(&out));
    assert_eq!(
        (&find_arm(&report, "gold")["resolved"], &find_arm(&report, "noop")["resolved"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(find_arm(&report, "gold")["resolved_clean"], 1, "{report:#}");
    let native = stage.run(["tasks", "validate", "--tasks", &tasks], 2);
    let told = String::from_utf8_lossy(&native.stderr).into_owned();
    assert!(told.contains("environment.dockerfile") && told.contains("made/plain"), "{told}");
}

/// The verifier sees everything that the agent changed, and the agent can't access the verifier's
/// files.
#[test]
fn verifier_sees_the_complete_result_and_follows_the_task_settings() {
    if !has_docker("verifier_sees_the_complete_result_and_follows_the_task_settings") {
        return;
    }
    let stage = Stage::new();
    let reward = |condition: &str| {
        format!("if {condition}; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n")
    };
    // The result also includes files, links, modes, owners and removals outside the work directory.
    let outside = reward(
        "[ \"$(cat /opt/made/a)\" = 1 ] && [ -L /usr/local/bin/tool ] && [ ! -e /etc/debian_version ] && \
         [ \"$(stat -c %a:%u /opt/made/a)\" = 640:1000 ] && [ ! -e /tests/planted ]",
    );
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "outside",
            test_script: &outside,
            solution_script: "mkdir -p /opt/made /tests; echo 1 > /opt/made/a; chmod 640 /opt/made/a; chown 1000 /opt/made/a\n\
                ln -s /opt/made/a /usr/local/bin/tool; rm /etc/debian_version; touch /tests/planted\n",
            ..PLAIN_TASK
        },
    );
    // This task uses variables from the image, the task and the verifier, a work directory, and
    // three users.
    let users = reward(
        "[ \"$A$B$C$D\" = taskimageverifier ] && [ \"$(pwd)\" = /srv/work ] && [ \"$(id -un)\" = app ] && \
         [ \"$(cat /srv/work/who)\" = agent ] && [ \"$HOME\" = /home/app ]",
    );
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "users",
            config: "[agent]\nuser = \"agent\"\n[environment]\nworkdir = \"/srv/work\"\nenv = { A = \"task\" }\n\
                 [verifier]\nenv = { C = \"${PROCTOR_TEST_UNSET:-verifier}\" }\n",
            dockerfile_lines: "RUN useradd -m agent && useradd -m app && mkdir -p /srv/work && chmod 777 /srv/work\n\
                ENV A=image B=image\nWORKDIR /app\nUSER app\n",
            test_script: &users,
            solution_script: "id -un > who\n",
        },
    );
    // Without WORKDIR, commands start in the root directory, and files there are part of the
    // result.
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "root",
            dockerfile_lines: "",
            test_script: &reward("[ \"$(cat /hello.txt)\" = hello ] && [ \"$(pwd)\" = / ]"),
            solution_script: "echo hello > hello.txt\n",
            ..PLAIN_TASK
        },
    );
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "several",
            test_script: "echo '{\"a\": true, \"b\": 0.5, \"c\": -2}' > /logs/verifier/reward.json\n\
               echo 1 > /logs/verifier/reward.txt\nexit 3\n",
            ..PLAIN_TASK
        },
    );
    // If the work directory contains a Git history, the history is part of the task.
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "history",
            dockerfile_lines: "WORKDIR /app\nRUN mkdir -p .git/objects __pycache__ && echo old > .git/HEAD && echo x > __pycache__/m.pyc\n",
            test_script: &reward("[ \"$(cat .git/HEAD)\" = new ] && [ -e __pycache__/m.pyc ]"),
            solution_script: "[ \"$(cat .git/HEAD)\" = old ] && [ -e __pycache__/m.pyc ] && echo new > .git/HEAD\n",
            ..PLAIN_TASK
        },
    );
    // Here, the agent writes a reward itself, and leaves behind a process that would write one.
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "forged",
            test_script: &reward("[ -e never ]"),
            solution_script: "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt\n\
                echo '{\"reward\": 1}' > /logs/verifier/reward.json\n\
                (while sleep 0.1; do echo 1 > /logs/verifier/reward.json; done) > /dev/null 2>&1 &\n",
            ..PLAIN_TASK
        },
    );
    // A verifier without network access downloads nothing. Output about an unresolvable host name
    // is therefore the agent's result and not an infrastructure failure.
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "closed",
            config: "[verifier]\nnetwork_mode = \"no-network\"\n",
            test_script: "echo 'curl: (6) Could not resolve host: a.sh'\necho 0 > /logs/verifier/reward.txt\n",
            ..PLAIN_TASK
        },
    );
    // A verifier in a separate sandbox gets only the declared artifacts.
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "separate",
            config: "[[artifacts]]\nsource = \"out\"\n[verifier]\nenvironment_mode = \"separate\"\n",
            test_script: &reward(
                "[ \"$(cat out/a)\" = 1 ] && [ ! -e hidden ] && [ \"$(cat /logs/artifacts/b)\" = 2 ]",
            ),
            solution_script: "mkdir out; echo 1 > out/a; touch hidden; echo 2 > /logs/artifacts/b\n",
            ..PLAIN_TASK
        },
    );
    let (found, told) = grade_gold(&stage, "set", 0);
    for name in ["outside", "users", "root", "separate", "history"] {
        let verdict = &found[&format!("made/{name}")];
        assert_eq!(verdict["resolved"], true, "{name}: {verdict:#}\n{told}");
        assert_eq!(verdict["integrity"], "clean", "{name}: {verdict:#}");
        assert_eq!(verdict["rewards"], json!({"reward": 1.0}), "{name}");
        assert_eq!(verdict["policies"]["strict"]["version"], "0.26", "{name}");
    }
    let several = &found["made/several"];
    assert_eq!((&several["resolved"], &several["passed_rate"]), (&json!(false), &json!(0.5)));
    assert_eq!(several["rewards"], json!({"a": 1.0, "b": 0.5, "c": -2.0}));
    for name in ["made/forged", "made/closed"] {
        let verdict = &found[name];
        let rewards = json!({"reward": 0.0});
        assert_eq!(
            (&verdict["resolved"], &verdict["rewards"]),
            (&json!(false), &rewards),
            "{name}"
        );
    }
}

/// If a verifier writes no valid reward, there is no verdict. This does not count as a score of
/// zero.
#[test]
fn verifier_without_a_reward_is_an_infrastructure_failure() {
    if !has_docker("verifier_without_a_reward_is_an_infrastructure_failure") {
        return;
    }
    let stage = Stage::new();
    let cases = [
        ("silent", "", "true\n", "did not write reward.json or reward.txt"),
        ("nan", "", "echo judged\necho nan > /logs/verifier/reward.txt\n", "not a finite number"),
        ("words", "", "echo passed > /logs/verifier/reward.txt\n", "not a number"),
        ("empty", "", ": > /logs/verifier/reward.txt\n", "is empty"),
        ("link", "", "ln -s /etc/hostname /logs/verifier/reward.txt\n", "is not a regular file"),
        ("huge", "", "head -c 2000000 /dev/zero > /logs/verifier/reward.txt\n", "2000000 bytes"),
        ("hangs", "[verifier]\ntimeout_sec = 2\n", "sleep 100\n", "did not end within 2 s"),
        (
            "offline",
            "",
            "echo 'curl: (6) Could not resolve host: astral.sh'\necho 0 > /logs/verifier/reward.txt\n",
            "could not download its tools",
        ),
    ];
    for (name, config, test, _) in cases {
        write_folder(&stage, "set", &TaskFolder { name, config, test_script: test, ..PLAIN_TASK });
    }
    let tasks = path_text(&stage, "set");
    let out = path_text(&stage, "out");
    let args =
        ["grade", "--predictions", "gold", "--sandbox", "docker", "--tasks", &tasks, "--out", &out];
    let said = stage.proctor(args).output().unwrap();
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(read_verdicts(Path::new(&out)).is_empty(), "{told}");
    for (name, .., what) in cases {
        let lines: Vec<&str> =
            told.lines().filter(|line| line.contains(&format!("made/{name}"))).collect();
        assert!(lines.iter().any(|line| line.contains(what)), "{name}: {what}\n{told}");
    }
    // The reasons and the output stay in the record.
    let report = fs::read(Path::new(&out).join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    for (name, .., what) in cases {
        let id = format!("made/{name}");
        let tasks = report["tasks"].as_array().unwrap();
        let trial = tasks.iter().find(|trial| trial["task"] == id.as_str()).unwrap();
        let reason = trial["grading_fault"].as_str().unwrap_or_default();
        assert!(reason.contains(what), "{name}: {trial:#}");
        let shown = stage.run(["show", &out, &id, "gold", "1"], 0);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(&format!("why: {reason}")), "{name}: {shown}");
    }
    let listed = String::from_utf8_lossy(&stage.run(["show", &out], 0).stdout).into_owned();
    assert!(listed.contains("not a finite number"), "{listed}");
    let logs = find_files(Path::new(&out), "failed-1.txt");
    let is_of_nan = |path: &&PathBuf| path.to_string_lossy().contains("Fnan/");
    let log = fs::read_to_string(logs.iter().find(is_of_nan).unwrap()).unwrap();
    assert!(log.contains("judged"), "{log}");
}

/// A verifier without network that downloads its tools gives every solution 0. The reward counts in
/// a run, but `validate` and `--check-tasks` report the reason.
#[test]
fn validate_names_the_tools_that_a_verifier_lacks() {
    if !has_docker("validate_names_the_tools_that_a_verifier_lacks") {
        return;
    }
    let stage = Stage::new();
    let cases = [
        (
            "download",
            "echo \"Temporary failure resolving 'deb.debian.org'\"\necho 0 > /logs/verifier/reward.txt\n",
            "the verifier has no network",
        ),
        (
            "tools",
            "no-such-runner /tests && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n",
            "the verifier's tools are missing",
        ),
    ];
    for (name, test_script, _) in cases {
        let config = "[verifier]\nnetwork_mode = \"no-network\"\n";
        write_folder(&stage, "set", &TaskFolder { name, config, test_script, ..PLAIN_TASK });
    }
    let tasks = path_text(&stage, "set");
    let said = stage.run(["tasks", "validate", "--sandbox", "docker", "--tasks", &tasks], 1);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    for (name, _, what) in cases {
        let about = |line: &str| line.contains(&format!("made/{name}, attempt 1: gold"));
        assert!(told.lines().any(|line| about(line) && line.contains(what)), "{name}\n{told}");
    }
}

/// A prediction is only a patch, but a separate verifier gets files of the agent's final state.
#[test]
fn predictions_for_separate_verifiers_are_rejected_before_anything_runs() {
    if !has_docker("predictions_for_separate_verifiers_are_rejected_before_anything_runs") {
        return;
    }
    let stage = Stage::new();
    let config = "[verifier]\nenvironment_mode = \"separate\"\n";
    write_folder(&stage, "set", &TaskFolder { config, ..PLAIN_TASK });
    let row = json!({"instance_id": "made/plain", "model_name_or_path": "m", "model_patch": ""});
    let file = stage.write_file("predictions.jsonl", &row.to_string());
    let (tasks, out) = (path_text(&stage, "set"), path_text(&stage, "out"));
    let file = file.to_str().unwrap();
    let args =
        ["grade", "--predictions", file, "--sandbox", "docker", "--tasks", &tasks, "--out", &out];
    let told = String::from_utf8_lossy(&stage.run(args, 2).stderr).into_owned();
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("predictions for 1 task cannot be graded"), "{told}");
    assert!(flat.contains("made/plain") && flat.contains("`proctor run`"), "{told}");
    assert!(find_files(Path::new(&out), "trajectory.jsonl").is_empty());
}

/// The image of a separate verifier must contain the tests.
#[test]
fn verifier_image_without_tests_is_reported_with_a_hint() {
    if !has_docker("verifier_image_without_tests_is_reported_with_a_hint") {
        return;
    }
    let stage = Stage::new();
    let config = format!("[verifier.environment]\ndocker_image = \"{DEBIAN_IMAGE}\"\n");
    write_folder(&stage, "set", &TaskFolder { config: &config, ..PLAIN_TASK });
    let (found, told) = grade_gold(&stage, "set", 3);
    assert!(found.is_empty(), "{found:#?}");
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("the verifier's image has no /tests/test.sh"), "{told}");
    assert!(flat.contains("copy the tests to /tests when you build that image"), "{told}");
}

#[test]
fn task_that_needs_a_server_is_graded_in_the_agents_sandbox() {
    if !has_docker("task_that_needs_a_server_is_graded_in_the_agents_sandbox") {
        return;
    }
    let stage = Stage::new();
    write_folder(
        &stage,
        "set",
        &TaskFolder {
            name: "server",
            test_script: "pgrep() { for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f 2>/dev/null; echo; done | grep \"$1\"; }\n\
               if pgrep 'sleep 5432[1]' > /dev/null; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n",
            solution_script: "nohup sleep 54321 > /dev/null 2>&1 &\n",
            ..PLAIN_TASK
        },
    );
    let tasks = path_text(&stage, "set");
    let said = stage.run(["tasks", "validate", "--sandbox", "docker", "--tasks", &tasks], 1);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("grading.harbor_shared = true"), "{told}");
    let config = format!(
        "tasks = ['{tasks}']\n[grading]\nharbor_shared = true\n[sandbox]\nkind = 'docker'\n\
         [[arms]]\nname = 'gold'\nscaffold = 'gold'\n"
    );
    let config = stage.write_file("shared.toml", &config);
    let out = path_text(&stage, "shared");
    stage.run(["run", config.to_str().unwrap(), "--out", &out], 0);
    let verdict = &read_verdicts(Path::new(&out))["made/server"];
    assert_eq!((&verdict["resolved"], &verdict["integrity"]), (&json!(true), &json!("unverified")));
    let journal = &find_files(Path::new(&out), "trajectory.jsonl")[0];
    assert!(!events(journal, "noted").is_empty());
}

/// Tests a task in Proctor's own format whose image is built from a folder. The image determines
/// the remaining settings.
#[test]
fn proctor_task_is_built_from_a_dockerfile_and_uses_its_workdir() {
    if !has_docker("proctor_task_is_built_from_a_dockerfile_and_uses_its_workdir") {
        return;
    }
    let stage = Stage::new();
    let context = stage.path("context");
    fs::create_dir(&context).unwrap();
    let dockerfile = format!(
        "FROM {DEBIAN_IMAGE}\nCOPY . /code\nENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin ANSWER=42\nWORKDIR /code\n"
    );
    fs::write(context.join("Dockerfile"), dockerfile).unwrap();
    fs::write(context.join(".dockerignore"), "ignored.txt\nDockerfile\n").unwrap();
    fs::write(context.join("ignored.txt"), "x").unwrap();
    fs::write(context.join("answer.py"), "X = 1\n").unwrap();
    let test = "import os\n\nimport answer\n\n\ndef test_x():\n    assert answer.X == int(os.environ['ANSWER'])\n    \
                assert not os.path.exists('ignored.txt')\n";
    fs::write(context.join("test_code.py"), test).unwrap();
    let gold = "diff --git a/answer.py b/answer.py\n--- a/answer.py\n+++ b/answer.py\n@@ -1 +1 @@\n-X = 1\n+X = 42\n";
    let row = json!({
        "schema_version": 1, "id": "own-1", "statement": "Set X.",
        "environment": {"dockerfile": "context",
            "setup": ["python3 -m venv /venv", "/venv/bin/pip install --quiet pytest==8.4.2"]},
        "gold": gold, "hidden": ["test_code.py"], "fail_to_pass": ["test_code.py::test_x"],
        "test_command": ["python", "-m", "pytest", "-q"],
    });
    let tasks = stage.write_file("own.jsonl", &row.to_string());
    let tasks = tasks.to_str().unwrap();
    stage.run(["tasks", "validate", "--sandbox", "docker", "--tasks", tasks], 0);
    let native = stage.run(["tasks", "validate", "--tasks", tasks], 2);
    let told = String::from_utf8_lossy(&native.stderr).into_owned();
    assert!(told.contains("environment.dockerfile") && told.contains("own-1"), "{told}");
}
