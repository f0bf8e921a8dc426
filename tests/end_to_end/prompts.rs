//! Tests users' own prompts: what the model receives, and how they affect the id of an arm.

use std::fs;

use fake_llm::{FakeLlm, Script};
use serde_json::json;

use crate::stage::{Stage, find_files, repository_root};

/// Writes a configuration with a model and two arms with the scaffold `tools`: one with the
/// built-in prompts, and one with the prompts in a folder.
fn write_config(stage: &Stage, base_url: &str, folder: &str) -> String {
    let demo = repository_root().join("configs/tasks/demo.jsonl");
    let arm = |name: &str, more: &str| {
        format!("[[arms]]\nname = \"{name}\"\nscaffold = \"tools\"\nmodel = \"m\"\n{more}\n")
    };
    let text = format!(
        "tasks = [\"{}\"]\njobs = 1\n[budget]\nsteps = 3\n[models.m]\nbase_url = \"{base_url}\"\nname = \"m\"\n{}{}",
        demo.display(),
        arm("shipped", ""),
        arm("own", &format!("prompts = \"{folder}\""))
    );
    stage.write_file(&format!("{folder}.toml"), &text).display().to_string()
}

fn write_files(stage: &Stage, files: &[(&str, &str)]) {
    for (file, text) in files {
        let path = stage.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn recorded_prompts_survive_removal_of_their_folder() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let submit = json!({"tool_calls": [{"name": "submit", "arguments": {}}]});
    let script = json!({"conversation": [{"turn": [submit]}]}).to_string();
    let stage = Stage::new();
    let script = Script::load(&stage.write_file("script.json", &script)).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    write_files(
        &stage,
        &[
            ("mine/task.md.j2", "MARKED {{ workdir }}: {{ statement }}"),
            ("mine/tool_shell.md.j2", "MARKED shell."),
        ],
    );
    let config = write_config(&stage, &fake.base_url(), "mine");
    let out = stage.path("run");
    stage.run(["run", &config, "--out", out.to_str().unwrap()], 0);
    let marked = || {
        let bodies: Vec<_> = fake.requests().iter().map(|seen| seen.body.to_string()).collect();
        bodies
            .iter()
            .filter(|body| body.contains("MARKED /testbed") && body.contains("MARKED shell"))
            .count()
    };
    assert_eq!((fake.requests().len(), marked()), (2, 1));

    // The run continues with the prompts that it was planned with.
    fs::remove_dir_all(stage.path("mine")).unwrap();
    for trial in find_files(&out.join("trials"), "trajectory.jsonl") {
        fs::remove_dir_all(trial.parent().unwrap()).unwrap();
    }
    stage.run(["resume", out.to_str().unwrap(), "--confirm"], 0);
    assert_eq!((fake.requests().len(), marked()), (4, 2));
}

#[test]
fn arm_id_depends_on_prompt_content() {
    let stage = Stage::new();
    let text = "Do {{ statement }}";
    write_files(
        &stage,
        &[("one/task.md.j2", text), ("two/tools/task.md.j2", text), ("three/task.md.j2", "Do it.")],
    );
    let ids = |folder: &str| {
        let config = write_config(&stage, "http://localhost:1/v1", folder);
        let shown = stage.run(["run", &config, "--dry-run"], 0).stdout;
        let shown = String::from_utf8(shown).unwrap();
        let id = |line: &str| line.split_whitespace().nth(1).unwrap().to_owned();
        shown.lines().take(2).map(id).collect::<Vec<_>>()
    };
    let (one, two, three) = (ids("one"), ids("two"), ids("three"));
    assert_eq!(one, two);
    assert_ne!(one[0], one[1]);
    assert!(three[0] == one[0] && three[1] != one[1], "{one:?} {three:?}");
}

#[test]
fn unusable_prompt_folder_is_reported_at_the_arm() {
    let stage = Stage::new();
    write_files(
        &stage,
        &[
            ("typo/taks.md.j2", ""),
            ("secret/task.md.j2", "{{ gold }}"),
            ("other/bash/task.md.j2", ""),
            ("settings/manifest.toml", "nudge_limits = 3"),
        ],
    );
    for (folder, what) in [
        ("typo", "did you mean `task.md.j2`?"),
        ("secret", "tools/task.md.j2"),
        ("other", "no prompt file for `tools`"),
        ("settings", "nudge_limits"),
        ("none", "docs/reference/prompts.md"),
    ] {
        let config = write_config(&stage, "http://localhost:1/v1", folder);
        let said = stage.run(["run", &config, "--dry-run"], 2).stderr;
        let said =
            String::from_utf8(said).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let key = "key `arms.1.prompts` (arm `own`)";
        assert!(said.contains(what) && said.contains(key), "{folder}: {said}");
        assert!(said.contains("hint: "), "{folder}: {said}");
    }
}
