//! Tests `proctor` as a user other than root, with a single id and with a range of ids.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::Value;

use crate::{
    demo::run_demo,
    stage::{Stage, events, find_arm, find_files, repository_root},
    users::{self, User},
};

/// Writes a configuration with the demo's own task, whose commands run as the given user in the
/// sandbox.
fn write_config_for_user(stage: &Stage, user: &str) -> String {
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["user"] = user.into();
    task["source"]["path"] = stage.path("configs/tasks/numerals").to_str().unwrap().into();
    stage.write_file("tasks.jsonl", &format!("{task}\n"));
    let text = "tasks = [\"tasks.jsonl\"]\n\
                [[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n\
                [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"scripted\"\n\
                [models.scripted]\nbase_url = \"script:configs/scripts/demo.toml\"\nname = \"scripted-demo\"\n\
                price = { input = 0.0, output = 0.0 }\n";
    stage.write_file("user.toml", text).to_str().unwrap().to_owned()
}

/// Returns the limits that the sandboxes of a run's trials do not enforce.
fn read_not_enforced(stage: &Stage, run: &str) -> Vec<String> {
    let mut all = Vec::new();
    for journal in find_files(&stage.path(run).join("trials"), "trajectory.jsonl") {
        for event in events(&journal, "setup_finished") {
            let entries = event["not_enforced"].as_array().unwrap();
            all.extend(entries.iter().map(|entry| entry.as_str().unwrap().to_owned()));
        }
    }
    all
}

#[test]
fn demo_without_root_distinguishes_the_arms() {
    let test = "demo_without_root_distinguishes_the_arms";
    let Some(()) = users::require_root(test) else { return };
    let single_id_user: User = users::user_with_single_id(11);
    for user in [Some(single_id_user), users::user_with_id_range(test)].into_iter().flatten() {
        let stage = Stage::for_user(user);
        run_demo(&stage, "run", &[]);
        let said = read_not_enforced(&stage, "run");
        let one = said.iter().any(|entry| entry.starts_with("other users:"));
        assert_eq!(one, user.uid == single_id_user.uid, "{said:?}");
    }
}

#[test]
fn doctor_without_root_runs_a_minimal_trial() {
    let test = "doctor_without_root_runs_a_minimal_trial";
    let Some(()) = users::require_root(test) else { return };
    let stage = Stage::for_user(users::user_with_single_id(12));
    let said = stage.run(["doctor"], 0);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let (native, _) = said.split_once("\ndocker:").unwrap();
    assert!(native.contains("\ntrial: ok\n"), "{said}");
    assert!(native.contains("not enforced: other users:"), "{said}");
    assert!(native.contains("hint: install newuidmap"), "{said}");
}

#[test]
fn task_user_works_with_a_range_of_ids() {
    let test = "task_user_works_with_a_range_of_ids";
    let Some(user) = users::require_root(test).and_then(|()| users::user_with_id_range(test))
    else {
        return;
    };
    let stage = Stage::for_user(user);
    let config = write_config_for_user(&stage, "1000");
    stage.run(["run", &config, "--out", "run"], 0);
    let report = stage.report(&stage.path("run"));
    assert_eq!(find_arm(&report, "gold")["resolved_rate"], 1.0, "{report:#}");
    assert_eq!(find_arm(&report, "scripted")["resolved_rate"], 1.0, "{report:#}");
    // The environment contains files of that user, and `clean` must be able to remove them.
    let layers = stage.path("cache/native/layers");
    let is_layer = |name: &str| name.len() == 64;
    let count = || {
        let entries = fs::read_dir(&layers).unwrap();
        entries.filter(|one| is_layer(&one.as_ref().unwrap().file_name().to_string_lossy())).count()
    };
    assert!(count() > 0);
    stage.run(["clean"], 0);
    assert_eq!(count(), 0);
}

#[test]
fn task_user_is_a_fault_with_a_single_id() {
    let test = "task_user_is_a_fault_with_a_single_id";
    let Some(()) = users::require_root(test) else { return };
    let stage = Stage::for_user(users::user_with_single_id(13));
    let config = write_config_for_user(&stage, "1000");
    let output = stage.proctor(["run", &config, "--out", "run"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/etc/subuid"), "{said}");
    assert!(find_files(&stage.path("run"), "verdict.json").is_empty(), "a fault is never scored");
}

/// Runs one task of the demo as a user. `starter` is a command that starts `proctor`.
fn run_with_starter(stage: &Stage, user: User, starter: &[&str]) {
    let run =
        stage.proctor(["run", "configs/demo.toml", "--tasks", "demo__roman-1", "--out", "run"]);
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid)])
        .arg("--clear-groups")
        .args(starter)
        .arg(run.get_program())
        .args(run.get_args())
        .current_dir(stage.dir.path())
        .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = stage.report(&stage.path("run"));
    assert_eq!(find_arm(&report, "gold")["resolved_rate"], 1.0, "{report:#}");
}

#[test]
fn low_process_limit_does_not_stop_a_run() {
    let test = "low_process_limit_does_not_stop_a_run";
    let Some(()) = users::require_root(test) else { return };
    let user = users::user_with_single_id(14);
    let stage = Stage::for_user(user);
    run_with_starter(&stage, user, &["bash", "-c", "ulimit -u 300 && exec \"$@\"", "bash"]);
    let entries = read_not_enforced(&stage, "run");
    assert!(entries.iter().any(|entry| entry.starts_with("processes: 300")), "{entries:?}");
}

/// A container whose root is not root on the host runs in such a user namespace.
#[test]
fn root_of_a_user_namespace_with_one_id_runs_the_demo() {
    let test = "root_of_a_user_namespace_with_one_id_runs_the_demo";
    let Some(()) = users::require_root(test) else { return };
    let user = users::user_with_single_id(15);
    let stage = Stage::for_user(user);
    run_with_starter(&stage, user, &["unshare", "--user", "--map-root-user"]);
    let entries = read_not_enforced(&stage, "run");
    assert!(entries.iter().any(|entry| entry.starts_with("other users:")), "{entries:?}");
}

#[test]
fn run_without_read_permission_is_reported_as_such() {
    let test = "run_without_read_permission_is_reported_as_such";
    let Some(()) = users::require_root(test) else { return };
    let stage = Stage::for_user(users::user_with_single_id(16));
    // Set permissions as another user's umask would, either on the folder or on the files in it.
    for (folder_mode, file_mode) in [(0o700, 0o644), (0o755, 0o600)] {
        let run = stage.path("closed");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("run.json"), "{}").unwrap();
        fs::set_permissions(run.join("run.json"), fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(folder_mode)).unwrap();
        let refused = stage.run(["report", "closed"], 1);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("no permission to read the run; ask its owner"), "{said}");
    }
}
