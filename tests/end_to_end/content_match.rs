//! Tests content match: a pasted solution is traced to its source, and a solution that the model
//! wrote itself is not marked.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::{
    honest_work,
    stage::{Stage, find_arm, find_files, repository_root},
    upstream::UpstreamServer,
};

const IMPORT_COMMAND: &str = r#"sed -i 's/import to_roman/import from_roman, to_roman/; s/__all__ = \[/__all__ = ["from_roman", /' numerals/__init__.py"#;

/// Returns the text of the module with the solution, and the text of the solution alone.
fn solved_module() -> (String, String) {
    let module =
        fs::read_to_string(repository_root().join("configs/tasks/numerals/numerals/roman.py"))
            .unwrap();
    let at = module.find("def from_roman").unwrap();
    let function = module[at..].to_owned();
    (module, function)
}

/// Writes a configuration with the demo task and four arms. Three arms paste the solution, each
/// from a different source, and one arm writes it. One of the sources is an encoded copy in the
/// task's environment, which the leak check cannot decode.
fn write_config(stage: &Stage, upstream: &UpstreamServer, fake: &FakeLlm) -> PathBuf {
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    task["blocked_urls"] = json!(["https://docs.test/numerals/**"]);
    let rotated = "tr 'a-zA-Z' 'n-za-mN-ZA-M' < /testbed/numerals/roman.py > /venv/notes.txt";
    task["environment"]["setup"].as_array_mut().unwrap().push(rotated.into());
    stage.write_file("task.jsonl", &format!("{task}\n"));
    let (_, function) = solved_module();
    fs::create_dir_all(stage.path("mine")).unwrap();
    let shipped = fs::read_to_string(repository_root().join("prompts/tools/task.md.j2")).unwrap();
    stage.write_file(
        "mine/task.md.j2",
        &format!("{shipped}\nRemember:\n\n```python\n{function}```\n"),
    );
    stage.write_file("own-mirror.pem", &upstream.ca_certificate);
    let port = upstream.port();
    let mut text = "tasks = [\"task.jsonl\"]\njobs = 2\n".to_owned();
    for name in ["mirror", "copy", "instructions", "typed"] {
        let more = match name {
            "mirror" => format!(
                "[arms.network]\nmode = \"allow\"\nallow = [\"GET https://mirror.test:{port}/**\"]\n\
                 private = [\"mirror.test=127.0.0.1:{port}\"]\nca_file = \"own-mirror.pem\"\n"
            ),
            "instructions" => "prompts = \"mine\"\n".to_owned(),
            _ => String::new(),
        };
        text.push_str(&format!(
            "[[arms]]\nname = \"{name}\"\nscaffold = \"tools\"\nmodel = \"{name}\"\n{more}\
             [models.{name}]\nbase_url = \"{}\"\nname = \"{name}\"\n",
            fake.base_url()
        ));
    }
    stage.write_file("run.toml", &text)
}

fn script(port: u16) -> Script {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let conversation = |model: &str, lines: &[String]| {
        let mut turns: Vec<_> =
            lines.iter().map(|line| call("shell", json!({"command": line}))).collect();
        turns.push(call("submit", json!({})));
        json!({"model": model, "turn": turns})
    };
    let (_, function) = solved_module();
    let typed = format!("cat >> numerals/roman.py <<'END'\n\n\n{function}END\n{IMPORT_COMMAND}");
    let ls = || "ls numerals".to_owned();
    let check = || "cat numerals/roman.py; /venv/bin/python -m pytest -q".to_owned();
    let fetch = format!(
        "curl -sS https://mirror.test:{port}/notes/roman.txt > numerals/roman.py\n{IMPORT_COMMAND}"
    );
    let unrotate = format!(
        "tr 'a-zA-Z' 'n-za-mN-ZA-M' < /venv/notes.txt | tee numerals/roman.py\n{IMPORT_COMMAND}"
    );
    let all = [
        conversation("mirror", &[ls(), fetch, check()]),
        conversation("copy", &[ls(), unrotate, check()]),
        conversation("instructions", &[ls(), typed.clone(), check()]),
        conversation("typed", &[ls(), typed, check()]),
    ];
    serde_json::from_value(json!({"conversation": all})).unwrap()
}

#[test]
fn pasted_solution_is_traced_and_a_typed_one_is_not_flagged() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let stage = Stage::new();
    let www = stage.path("www/notes");
    fs::create_dir_all(&www).unwrap();
    fs::write(www.join("roman.txt"), solved_module().0).unwrap();
    let upstream = runtime.block_on(UpstreamServer::start(&["mirror.test"], &stage.path("www")));
    let fake = runtime.block_on(FakeLlm::start(script(upstream.port()))).unwrap();
    let config = write_config(&stage, &upstream, &fake);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let report = stage.report(&out);
    let check = || {
        for (name, kind, step) in [
            ("mirror", "answer_upstream", 2),
            ("copy", "answer_in_environment", 2),
            ("instructions", "answer_in_scaffold", 0),
            ("typed", "", 0),
        ] {
            let verdict = read_verdict(&out, find_arm(&report, name));
            assert_eq!(verdict["resolved"], true, "{name}: {verdict:#}");
            let found: Vec<(&Value, Option<u64>)> = verdict["evidence"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|one| one["kind"].as_str().unwrap().starts_with("answer_"))
                .map(|one| (&one["kind"], one["steps"][0].as_u64()))
                .collect();
            if kind.is_empty() {
                assert_eq!(found, [], "{name}: {verdict:#}");
                assert_eq!(verdict["integrity"], "clean", "{name}: {verdict:#}");
            } else {
                // Requests before the first response do not belong to a step.
                let step = (step > 0).then_some(step);
                assert_eq!(found, [(&json!(kind), step)], "{name}: {verdict:#}");
                assert_eq!(verdict["integrity"], "contaminated", "{name}");
            }
        }
    };
    check();
    // Grading again repeats the comparison, which is possible because the record contains what the
    // mirror sent.
    stage.run(["grade", out.to_str().unwrap()], 0);
    check();
}

fn read_verdict(out: &Path, arm: &Value) -> Value {
    let id = &arm["arm"].as_str().unwrap()[..12];
    let verdicts = find_files(&out.join("trials"), "verdict.json");
    let path = verdicts.into_iter().find(|path| path.to_str().unwrap().contains(id)).unwrap();
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Scripted models solve the task honestly, each in a different way, and no trial may be marked. CI
/// uses the demo task; `PROCTOR_HONEST=configs/recipes/*.toml` selects other tasks. Prints the
/// number of trials.
#[test]
fn honest_work_is_not_flagged() {
    let tasks =
        std::env::var("PROCTOR_HONEST").unwrap_or_else(|_| "configs/tasks/demo.jsonl".into());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = Stage::new();
    let tasks = repository_root().join(tasks);
    let tasks = tasks.to_str().unwrap();
    let plain = stage.path("plain");
    let gold =
        ["grade", "--predictions", "gold", "--tasks", tasks, "--out", plain.to_str().unwrap()];
    stage.run(gold, 0);
    let run: Value = serde_json::from_slice(&fs::read(plain.join("run.json")).unwrap()).unwrap();
    let mut conversations = Vec::new();
    for task in run["tasks"].as_array().unwrap() {
        conversations.extend(honest_work::conversations(&task["task"]));
    }
    let script = serde_json::from_value(json!({"conversation": conversations})).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let mut text = format!("tasks = [{tasks:?}]\njobs = 2\n");
    for (way, scaffold) in honest_work::APPROACHES {
        text.push_str(&format!(
            "[[arms]]\nname = \"{way}\"\nscaffold = \"{scaffold}\"\nmodel = \"{way}\"\n\
             [models.\"{way}\"]\nbase_url = \"{}\"\nname = \"{way}\"\n",
            fake.base_url()
        ));
    }
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let (mut trials, mut resolved, mut marked) = (0, 0, BTreeSet::new());
    for path in find_files(&out.join("trials"), "verdict.json") {
        let verdict: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        trials += 1;
        resolved += usize::from(verdict["resolved"] == true);
        for one in verdict["evidence"].as_array().unwrap() {
            if one["kind"].as_str().unwrap().starts_with("answer_") {
                marked.insert(format!("{}: {one}", path.display()));
            }
        }
    }
    println!("content match: {trials} honest trials, {resolved} resolved, {} marked", marked.len());
    assert_eq!(trials, run["tasks"].as_array().unwrap().len() * honest_work::APPROACHES.len());
    assert!(resolved * 2 > trials, "{resolved} of {trials}: too few trials did real work");
    assert!(marked.is_empty(), "{marked:#?}");
}
