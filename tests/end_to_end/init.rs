//! Tests `proctor init`, which writes a new user's first configuration.

use std::{fs, os::unix::fs::symlink, process::Output};

use crate::stage::Stage;

fn run_init(stage: &Stage, args: &[&str]) -> Output {
    let mut command = stage.proctor([&["init"], args].concat());
    command.current_dir(stage.dir.path()).output().unwrap()
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Returns the plan for a configuration file in the stage's folder.
fn dry_run_plan(stage: &Stage, file: &str) -> String {
    let mut command = stage.proctor(["run", file, "--dry-run"]);
    let output = command.current_dir(stage.dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    output_text(&output)
}

#[test]
fn init_writes_a_configuration_that_runs() {
    let stage = Stage::new();
    let done = run_init(&stage, &["--model", "openai/gpt-5.1"]);
    assert_eq!(done.status.code(), Some(0), "{}", output_text(&done));
    assert!(output_text(&done).contains("wrote proctor.toml"), "{}", output_text(&done));
    let plan_of_demo = dry_run_plan(&stage, "proctor.toml");
    assert!(plan_of_demo.contains("tools/openai/gpt-5.1: tools, gpt-5.1, 50 steps"));
    assert!(plan_of_demo.contains("task demo__roman-1"), "{plan_of_demo}");
    // Comments explain the file and tell where all keys are documented.
    let text = fs::read_to_string(stage.path("proctor.toml")).unwrap();
    assert!(text.lines().filter(|line| line.contains('#')).count() > 10, "{text}");
    assert!(text.contains("proctor schema config"), "{text}");
}

#[test]
fn init_combines_models_and_scaffolds() {
    let stage = Stage::new();
    let done = run_init(
        &stage,
        &[
            "several.toml",
            "--model",
            "anthropic/claude-sonnet-4-5",
            "--model",
            "google/gemini-2.5-pro",
            "--model",
            "llama.cpp/qwen",
            "--model",
            "llama.cpp/qwen",
            "--scaffold",
            "tools",
            "--scaffold",
            "bash",
            "--scaffold",
            "noop",
            "--sandbox",
            "docker",
        ],
    );
    assert_eq!(done.status.code(), Some(0), "{}", output_text(&done));
    let text = fs::read_to_string(stage.path("several.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["arms"].as_array().unwrap().len(), 7);
    let model = |name: &str, key: &str| {
        table["models"][name].get(key).and_then(|value| value.as_str()).map(str::to_owned)
    };
    let anthropic = "anthropic/claude-sonnet-4-5";
    assert_eq!(model(anthropic, "api").as_deref(), Some("messages"));
    assert_eq!(model(anthropic, "key_env").as_deref(), Some("ANTHROPIC_API_KEY"));
    assert_eq!(model("google/gemini-2.5-pro", "api").as_deref(), Some("gemini"));
    assert_eq!(model("llama.cpp/qwen", "api"), None);
    assert_eq!(model("llama.cpp/qwen", "base_url").as_deref(), Some("http://127.0.0.1:8080/v1"));
    assert_eq!(table["sandbox"]["kind"].as_str(), Some("docker"));
    // The file also contains the vendors' own agents, as comments.
    assert!(text.contains("# scaffold = \"claude-code\""), "{text}");
    assert!(text.contains("# scaffold = \"gemini-cli\""), "{text}");
}

#[test]
fn init_never_overwrites() {
    let stage = Stage::new();
    stage.write_file("proctor.toml", "mine");
    symlink("nowhere", stage.path("dangling.toml")).unwrap();
    fs::create_dir(stage.path("folder.toml")).unwrap();
    for file in ["proctor.toml", "dangling.toml", "folder.toml"] {
        let done = run_init(&stage, &[file, "--model", "openai/gpt-5.1"]);
        assert_eq!(done.status.code(), Some(2), "{}", output_text(&done));
        assert!(output_text(&done).contains("never overwrites"), "{}", output_text(&done));
    }
    assert_eq!(fs::read_to_string(stage.path("proctor.toml")).unwrap(), "mine");
    assert!(!stage.path("nowhere").exists());
}

#[test]
fn init_reports_errors_and_writes_nothing() {
    let stage = Stage::new();
    for (args, what) in [
        (&[][..], "no model given"),
        (&["--model", "opena/gpt-5.1"][..], "did you mean `openai/gpt-5.1`?"),
        (&["--model", "gpt-5.1"][..], "did you mean `openai/gpt-5.1`?"),
        (&["--model", "openai/gpt-5.1", "--scaffold", "tolos"][..], "did you mean `tools`?"),
        (&["--model", "openai/gpt-5.1", "--scaffold", "noop"][..], "--model has no effect"),
        (&["no/such/folder.toml", "--model", "openai/gpt-5.1"][..], "cannot write"),
    ] {
        let done = run_init(&stage, args);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", output_text(&done));
        assert!(output_text(&done).contains(what), "{args:?}: {}", output_text(&done));
        assert!(output_text(&done).contains(" hint: "), "{args:?}: {}", output_text(&done));
        assert!(!stage.path("proctor.toml").exists(), "{args:?}");
    }
}
