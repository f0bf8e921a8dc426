//! The egress door in the life of a trial: what a sandbox without a network may reach, what it may
//! not, and what of the run's keys it can see.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::{
    stage::{Stage, docker, events, find, root},
    upstream::Upstream,
};

/// A trial of these commands, a step each, in a room whose task is about the package `widget` of
/// `acme/widget`; then the events of its journal.
struct Trial {
    stage: Stage,
    fake: FakeLlm,
    commands: Vec<String>,
    network: String,
    extra: String,
}

impl Trial {
    /// The outputs of the commands by step, and the ledger by step.
    fn run(&self, runtime: &tokio::runtime::Runtime, kind: &str) -> (Vec<String>, Ledger) {
        let _inside = runtime.enter();
        let demo = fs::read_to_string(root().join("configs/tasks/demo.jsonl")).unwrap();
        let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
        task["repo"] = "acme/widget".into();
        task["source"]["path"] = root().join("configs/tasks/numerals").to_str().unwrap().into();
        task["blocked_urls"] = json!(["https://docs.test/widget/**"]);
        self.stage.file("task.jsonl", &format!("{task}\n"));
        let config = self.stage.file(
            "run.toml",
            &format!(
                "tasks = [\"{}\"]\n[sandbox]\nkind = \"{kind}\"\n[network]\n{}\n\
                 [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
                 [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n{}\n",
                self.stage.path("task.jsonl").display(),
                self.network,
                self.fake.base_url(),
                self.extra,
            ),
        );
        let out = self.stage.path("run");
        let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = self
            .stage
            .proctor(args)
            .env("PROCTOR_LOG", "debug")
            .env("PLANTED_KEY", key())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        self.stage.file("stderr", &said);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let journal = find(&out.join("trials"), "trajectory.jsonl").remove(0);
        let shown: Vec<_> = events(&journal, "tool_returned")
            .iter()
            .filter(|event| event["name"] == "shell")
            .map(|event| event["shown"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(shown.len(), self.commands.len(), "{shown:#?}");
        let mut ledger = Ledger::new();
        for event in events(&journal, "url_requested") {
            ledger.entry(event["step"].as_u64().unwrap()).or_default().push(event);
        }
        self.verdict_tells(&out, &ledger);
        (shown, ledger)
    }

    /// Every step in which the door was asked for what the task blocks is in the verdict.
    fn verdict_tells(&self, out: &Path, ledger: &Ledger) {
        let blocked =
            |event: &Value| matches!(event["reason"].as_str(), Some("task_blocked" | "task_alias"));
        let steps: Vec<u64> = ledger
            .iter()
            .filter(|(_, events)| events.iter().any(blocked))
            .map(|(step, _)| *step)
            .collect();
        let verdict = fs::read(&find(&out.join("trials"), "verdict.json")[0]).unwrap();
        let verdict: Value = serde_json::from_slice(&verdict).unwrap();
        let told: Vec<u64> = verdict["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["kind"].as_str().unwrap().starts_with("upstream_"))
            .flat_map(|one| one["steps"].as_array().unwrap())
            .map(|step| step.as_u64().unwrap())
            .collect();
        assert!(steps.iter().all(|step| told.contains(step)), "{steps:?}\n{verdict:#}");
        assert!(steps.is_empty() || verdict["integrity"] != "clean", "{verdict:#}");
    }
}

type Ledger = BTreeMap<u64, Vec<Value>>;

/// The steps' commands as the script of a model that then submits.
fn script(commands: &[String]) -> Script {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let mut turns: Vec<_> =
        commands.iter().map(|command| call("shell", json!({"command": command}))).collect();
    turns.push(call("submit", json!({})));
    serde_json::from_value(json!({"conversation": [{"turn": turns}]})).unwrap()
}

fn sh(folder: &Path, line: &str) {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A folder that is a package index, a file host and a git server: two packages, two repositories.
fn site(folder: &Path) -> PathBuf {
    let www = folder.join("www");
    fs::create_dir_all(www.join("files")).unwrap();
    fs::write(
        folder.join("wheel.py"),
        "import sys, zipfile\n\
         name, path = sys.argv[1:]\n\
         info = f'{name}-1.0.dist-info'\n\
         with zipfile.ZipFile(f'{path}/{name}-1.0-py3-none-any.whl', 'w') as wheel:\n\
         \x20   wheel.writestr(f'{name}.py', 'made = True\\n')\n\
         \x20   wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n')\n\
         \x20   wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \x20   wheel.writestr(f'{info}/RECORD', '')\n",
    )
    .unwrap();
    for name in ["gadget", "widget"] {
        fs::create_dir_all(www.join("simple").join(name)).unwrap();
        fs::create_dir_all(www.join("acme").join(name).join("archive")).unwrap();
        sh(folder, &format!("/usr/bin/python3 wheel.py {name} www/simple/{name}"));
        fs::write(www.join("acme").join(name).join("archive/main.zip"), "PK").unwrap();
        sh(
            folder,
            &format!(
                "git init -q -b main {name} && cd {name} && echo {name} > file && git add file && \
                 git -c user.name=t -c user.email=t@t commit -q -m {name} && \
                 git clone -q --bare . ../www/acme/{name}.git && \
                 git -C ../www/acme/{name}.git update-server-info"
            ),
        );
    }
    fs::write(www.join("files/widget-1.0.tar.gz"), "sdist").unwrap();
    www
}

/// Must show 1 of the sealed room.
fn doors(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = Stage::new();
    let www = site(stage.dir.path());
    let upstream = runtime.block_on(Upstream::start(&["index.test", "git.test"], &www));
    let port = upstream.port();
    stage.file("own-mirror.pem", &upstream.ca);
    let (index, git) = (format!("https://index.test:{port}"), format!("https://git.test:{port}"));
    let pip = |name: &str| {
        format!(
            "cd /tmp && /venv/bin/pip -vv download --no-deps --no-cache-dir --disable-pip-version-check \
             --retries 0 -i {index}/simple/ {name} 2>&1; ls /tmp/{name}*"
        )
    };
    let commands = vec![
        pip("gadget"),
        pip("widget"),
        format!("curl -sS {index}/simple/Widget/"),
        format!("curl -sS -i {index}/files/widget-1.0.tar.gz"),
        format!("curl -sS {git}/acme/widget/archive/main.zip"),
        "curl -sS https://widget.readthedocs.io/en/latest/".to_owned(),
        format!("git clone -q {git}/acme/gadget.git /tmp/g 2>&1 && cat /tmp/g/file"),
        format!("git clone -q {git}/acme/widget.git /tmp/w 2>&1"),
        format!("curl -sS --noproxy '*' --connect-timeout 5 https://127.0.0.1:{port}/ 2>&1"),
        format!("curl -sS --noproxy '' https://127.0.0.1:{port}/simple/ 2>&1"),
        "cat /proc/net/dev | tail -n +3 | cut -d: -f1".to_owned(),
    ];
    let fake = runtime.block_on(FakeLlm::start(script(&commands))).unwrap();
    let network = format!(
        "mode = \"allow\"\n\
         allow = [\"GET,HEAD {index}/**\", \"{git}/**\", \"*://**.readthedocs.io\"]\n\
         private = [\"index.test=127.0.0.1:{port}\", \"git.test=127.0.0.1:{port}\"]\n\
         ca_file = \"own-mirror.pem\""
    );
    let trial = Trial { stage, fake, commands, network, extra: String::new() };
    let (shown, ledger) = trial.run(&runtime, kind);

    let wheel = "/tmp/gadget-1.0-py3-none-any.whl";
    assert!(shown[0].contains(wheel), "{}", shown[0]);
    assert!(ledger[&1].iter().all(|line| line["decision"] == "allowed"), "{:#?}", ledger[&1]);
    let fetched = ledger[&1].iter().find(|line| line["url"].as_str().unwrap().ends_with(".whl"));
    assert!(fetched.unwrap()["bytes_down"].as_u64().unwrap() > 100, "{fetched:?}");

    let denied = |step: u64, url: &str, says: &str| {
        let (lines, text) = (&ledger[&step], &shown[step as usize - 1]);
        assert!(
            lines.iter().all(|line| line["decision"] == "denied" && line["reason"] == "task_alias"),
            "step {step}: {lines:#?}"
        );
        assert!(lines.iter().any(|line| line["url"].as_str().unwrap().contains(url)), "{lines:#?}");
        assert!(text.contains(says), "step {step}: {text}");
    };
    denied(2, "/simple/widget/", "Blocked by the egress door: task_alias");
    denied(3, "/simple/Widget/", "the package or repository under test, which this task blocks");
    denied(4, "/files/widget-1.0.tar.gz", "x-proctor-egress: task_alias");
    denied(5, "/acme/widget/archive/main.zip", "which this task blocks");
    denied(6, "https://widget.readthedocs.io/en/latest/", "which this task blocks");
    assert!(shown[6].contains("gadget"), "{}", shown[6]);
    assert!(ledger[&7].iter().any(|line| line["url"].as_str().unwrap().contains("gadget.git/")));
    denied(8, "/acme/widget.git/info/refs", "403");
    assert!(
        shown[8].contains("Failed to connect") || shown[8].contains("onnection refused"),
        "{}",
        shown[8]
    );
    assert!(!ledger.contains_key(&9), "what does not go through a door reaches nothing");
    assert!(shown[9].contains("Blocked by the egress door"), "{}", shown[9]);
    assert!(shown[10].contains("lo") && !shown[10].contains("eth"), "{}", shown[10]);
    let asked = upstream.asked();
    assert!(asked.iter().all(|line| !line.to_lowercase().contains("widget")), "{asked:#?}");
    let run: Value =
        serde_json::from_slice(&fs::read(trial.stage.path("run/run.json")).unwrap()).unwrap();
    assert_eq!(run["arms"][0]["network"]["private"].as_array().unwrap().len(), 2);
}

#[test]
fn a_sealed_room_reaches_what_is_allowed_and_not_its_own_package() {
    doors("native");
}

#[test]
fn docker_a_sealed_room_reaches_what_is_allowed_and_not_its_own_package() {
    if docker("docker_a_sealed_room_reaches_what_is_allowed_and_not_its_own_package") {
        doors("docker");
    }
}

/// In two parts, so that no file of this repository holds it.
fn key() -> String {
    ["sk-planted-", "5f0c7d1e93"].concat()
}

/// Must show 2 of the sealed room.
fn keys(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A pattern that does not match itself; the control shows that it does match.
    let pattern = "sk-plante[d]-5f0c7d1e93";
    let commands = vec![
        "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"
            .to_owned(),
        "printf 'sk-plan%s' ted-5f0c7d1e93 > /tmp/control".to_owned(),
        format!(
            "grep -rlsa --devices=skip '{pattern}' /etc /run /tmp /var /root /home /srv /mnt /testbed \
             /venv /dev/shm /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/mountinfo"
        ),
        "curl -sS -v https://a.test/ 2>&1".to_owned(),
    ];
    let fake = runtime.block_on(FakeLlm::start(script(&commands))).unwrap();
    let trial = Trial {
        stage: Stage::new(),
        fake,
        commands,
        network: "mode = \"allow\"\nallow = []".into(),
        extra: "key_env = \"PLANTED_KEY\"".into(),
    };
    let (shown, ledger) = trial.run(&runtime, kind);
    let used = trial.fake.requests().into_iter().filter_map(|seen| seen.authorization).count();
    assert_eq!(used, trial.commands.len() + 1, "the key was in use");
    assert!(shown[0].contains("HTTPS_PROXY=http://127.0.0.1:"), "{}", shown[0]);
    assert!(!shown[0].contains("PLANTED"), "{}", shown[0]);
    let found: Vec<_> = shown[2].lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(found, ["/tmp/control"], "{}", shown[2]);
    assert_eq!(ledger[&4][0]["reason"], "not_allowed");

    let mut files = all_files(&trial.stage.path("run"));
    assert!(files.len() > 5, "{files:?}");
    files.push(trial.stage.path("stderr"));
    let marker = key();
    for file in files {
        let content = fs::read(&file).unwrap();
        let held = content.windows(marker.len()).any(|window| window == marker.as_bytes());
        assert!(!held, "{} holds the key", file.display());
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(all_files(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

#[test]
fn no_key_is_inside_nor_in_the_record() {
    keys("native");
}

#[test]
fn docker_no_key_is_inside_nor_in_the_record() {
    if docker("docker_no_key_is_inside_nor_in_the_record") {
        keys("docker");
    }
}
