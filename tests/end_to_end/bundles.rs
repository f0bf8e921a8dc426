//! `proctor scaffold`: what there is, what is built, and what was damaged.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

use crate::stage::{Stage, root};

/// An agent that is a script: its manifest, in a folder of its own beside what it names.
fn mine(stage: &Stage) -> String {
    stage.file("agent.sh", "#!/bin/sh\necho mine\n");
    let text = "name = \"mine\"\nversion = \"1.0\"\napi = \"chat\"\n\
                command = { argv = [\"/agent/bin/agent\"] }\n[bundle]\nkind = \"files\"\n\
                files = { \"lib/agent\" = \"agent.sh\" }\nbin = { agent = \"lib/agent\" }\n";
    stage.file("mine.toml", text).display().to_string()
}

/// Runs with a cache of the test's own, and without the machine's engine: cleaning would take the images of others.
fn run(stage: &Stage, args: &[&str], status: i32) -> (String, String) {
    let Output { stdout, stderr, status: ended } = stage
        .proctor(args)
        .env("PROCTOR_CACHE", stage.path("cache"))
        .env("DOCKER_HOST", format!("unix://{}", stage.path("no-engine").display()))
        .output()
        .unwrap();
    let (out, said) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(ended.code(), Some(status), "{args:?}\n{out}\n{said}");
    (out, said)
}

fn tree(out: &str) -> PathBuf {
    let line = out.lines().find_map(|line| line.trim_start_matches("# ").strip_prefix("folder"));
    Path::new(line.unwrap().trim()).to_owned()
}

#[test]
fn a_bundle_is_built_shown_checked_and_cleaned() {
    let stage = Stage::new();
    let manifest = mine(&stage);
    let (out, said) = run(&stage, &["scaffold", "show", &manifest], 0);
    assert!(out.contains("kind = \"files\"") && out.contains("# bundle    not built"), "{out}");
    assert_eq!(said, "");
    let (out, said) = run(&stage, &["scaffold", "add", &manifest], 0);
    assert!(said.contains("built the bundle of mine 1.0: 0 MB, 2 files"), "{said}");
    let folder = tree(&out);
    let program = fs::metadata(folder.join("bin/agent")).unwrap();
    assert_eq!(program.permissions().mode() & 0o7777, 0o755);
    let (again, said) = run(&stage, &["scaffold", "add", &manifest], 0);
    assert_eq!((again.as_str(), said.as_str()), (out.as_str(), ""), "it was built once");

    // What is shown is still a manifest.
    let (shown, said) = run(&stage, &["scaffold", "show", &manifest, "--verify"], 0);
    assert!(shown.parse::<toml::Table>().unwrap().contains_key("bundle"));
    assert_eq!(tree(&shown), folder);
    assert!(said.contains("the bundle of mine 1.0 is whole"), "{said}");
    fs::write(folder.join("lib/agent"), "#!/bin/sh\necho evil\n").unwrap();
    let (_, said) = run(&stage, &["scaffold", "show", &manifest, "--verify"], 1);
    assert!(said.contains("lib/agent was changed") && said.contains("build it again"), "{said}");

    let (out, _) = run(&stage, &["clean"], 0);
    assert!(out.contains("bundles/built: 1 item"), "{out}");
    assert!(!folder.exists());
}

#[test]
fn what_there_is_is_listed() {
    let stage = Stage::new();
    let (out, _) = run(&stage, &["scaffold", "list"], 0);
    let line = |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("tools").contains("built in"), "{out}");
    for name in ["claude-code", "codex", "gemini-cli", "mini-swe-agent", "openhands", "qwen-code"] {
        assert!(line(name).ends_with("not built"), "{name}: {out}");
    }
    assert!(line("codex").contains("0.169.0"), "{out}");
}

#[test]
fn a_bundle_that_cannot_be_had_is_told() {
    let stage = Stage::new();
    let (_, said) = run(&stage, &["scaffold", "show", "codex@0.1.0"], 2);
    assert!(said.contains("pinned at") && said.contains("scaffold add codex@0.1.0"), "{said}");
    let (_, said) = run(&stage, &["scaffold", "add", "codecs"], 2);
    assert!(said.contains("codecs") && said.contains("known: claude-code"), "{said}");
    let manifest = mine(&stage);
    fs::remove_file(stage.path("agent.sh")).unwrap();
    let (_, said) = run(&stage, &["scaffold", "add", &manifest], 1);
    assert!(said.contains("mine 1.0") && said.contains("agent.sh"), "{said}");
    let text = fs::read_to_string(&manifest).unwrap().replace("bin =", "bins =");
    let wrong = stage.file("wrong.toml", &text).display().to_string();
    let (_, said) = run(&stage, &["scaffold", "add", &wrong], 2);
    assert!(said.contains("wrong.toml") && said.contains("bins"), "{said}");
}

/// What a look at the plan can know of an agent, it tells, with the line of the arm and a hint.
#[test]
fn a_plan_tells_what_is_wrong_with_an_agent() {
    let stage = Stage::new();
    let manifest = mine(&stage);
    let plan = |scaffold: &str, status: i32| {
        let tasks = root().join("configs/tasks/demo.jsonl");
        let text = format!(
            "tasks = [{tasks:?}]\n[[arms]]\nname = \"a\"\nscaffold = {scaffold:?}\nmodel = \"m\"\n\
             [models.m]\nbase_url = \"http://127.0.0.1:9/v1\"\nname = \"m\"\n"
        );
        let config = stage.file("run.toml", &text).display().to_string();
        let (out, said) = run(&stage, &["run", &config, "--dry-run"], status);
        format!("{out}{said}").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(plan(&manifest, 0).contains("a: mine, m"));
    // A manifest's version can be written behind its name, and is no other arm.
    let arm = |text: &str| text.split(" codex").next().unwrap().to_owned();
    assert_eq!(arm(&plan("codex@0.169.0", 0)), arm(&plan("codex", 0)));
    let text = fs::read_to_string(&manifest).unwrap();
    let misnamed = text.replace("\"/agent/bin/agent\"", "\"/agent/bin/agent\", \"{{ promt }}\"");
    let misnamed = stage.file("misnamed.toml", &misnamed).display().to_string();
    fs::remove_file(stage.path("agent.sh")).unwrap();
    for (scaffold, says) in [
        ("codex@0.1.0", "`codex` is pinned at 0.169.0, not 0.1.0"),
        (misnamed.as_str(), "`command.argv`: line 1: `promt` is undefined"),
        (manifest.as_str(), "agent.sh"),
    ] {
        let said = plan(scaffold, 2);
        assert!(said.contains("key `arms.0.scaffold` (arm `a`)"), "{said}");
        assert!(said.contains(says) && said.contains("hint: "), "{says}: {said}");
    }
}
