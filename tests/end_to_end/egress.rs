//! Tests the egress proxy during a trial: what a sandbox without network access can and cannot
//! reach, and which of the run's keys are visible in the sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fake_llm::FakeLlm;
use serde_json::Value;

use crate::{
    package_site::{create_site, numerals_folder},
    scripted_trial::{ScriptedTrial, planted_key, script},
    stage::{Stage, has_docker},
    upstream::UpstreamServer,
};

/// Checks the first requirement for closed sandboxes: they can reach what is allowed, but not the
/// package that the task is about.
fn check_network(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = Stage::new();
    let www = create_site(stage.dir.path());
    let upstream = runtime.block_on(UpstreamServer::start(&["index.test", "git.test"], &www));
    let port = upstream.port();
    stage.write_file("own-mirror.pem", &upstream.ca_certificate);
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
         allow = [\"GET,HEAD {index}/**\", \"GET,POST {git}/**\", \"*://**.readthedocs.io\"]\n\
         private = [\"index.test=127.0.0.1:{port}\", \"git.test=127.0.0.1:{port}\"]\n\
         ca_file = \"own-mirror.pem\""
    );
    let trial = ScriptedTrial {
        stage,
        fake,
        commands,
        network_lines: network,
        model_lines: String::new(),
        setup_lines: Vec::new(),
        source: numerals_folder(),
    };
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
    denied(2, "/simple/widget/", "Blocked by the egress proxy: task_alias");
    denied(3, "/simple/Widget/", "the package or repository under test, which the task blocks");
    denied(4, "/files/widget-1.0.tar.gz", "x-proctor-egress: task_alias");
    denied(5, "/acme/widget/archive/main.zip", "which the task blocks");
    denied(6, "https://widget.readthedocs.io/en/latest/", "which the task blocks");
    assert!(shown[6].contains("gadget"), "{}", shown[6]);
    assert!(ledger[&7].iter().any(|line| line["url"].as_str().unwrap().contains("gadget.git/")));
    denied(8, "/acme/widget.git/info/refs", "403");
    assert!(
        shown[8].contains("Failed to connect") || shown[8].contains("onnection refused"),
        "{}",
        shown[8]
    );
    assert!(!ledger.contains_key(&9), "a connection past the proxy reached the network");
    assert!(shown[9].contains("Blocked by the egress proxy"), "{}", shown[9]);
    assert!(shown[10].contains("lo") && !shown[10].contains("eth"), "{}", shown[10]);
    let asked = upstream.requests();
    assert!(asked.iter().all(|line| !line.to_lowercase().contains("widget")), "{asked:#?}");
    let run: Value =
        serde_json::from_slice(&fs::read(trial.stage.path("run/run.json")).unwrap()).unwrap();
    assert_eq!(run["arms"][0]["network"]["private"].as_array().unwrap().len(), 2);
}

#[test]
fn closed_sandbox_reaches_only_allowed_hosts() {
    check_network("native");
}

#[test]
fn docker_closed_sandbox_reaches_only_allowed_hosts() {
    if has_docker("docker_a_sealed_room_reaches_what_is_allowed_and_not_its_own_package") {
        check_network("docker");
    }
}

/// Checks the second requirement for closed sandboxes: the run's keys are not visible in them.
fn check_keys(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Use a pattern that does not match its own text. A control file shows that the pattern matches
    // the key.
    let pattern = "sk-plante[d]-5f0c7d1e93";
    let commands = vec![
        "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"
            .to_owned(),
        "true".to_owned(),
        // Remove the control file before the step ends, because snapshots contain files outside the
        // work directory.
        format!(
            "printf 'sk-plan%s' ted-5f0c7d1e93 > /tmp/control; grep -rlsa --devices=skip '{pattern}' /etc /run /tmp /var /root /home /srv /mnt /testbed \
             /venv /dev/shm /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/mountinfo; rm /tmp/control"
        ),
        "curl -sS -v https://a.test/ 2>&1".to_owned(),
    ];
    let fake = runtime.block_on(FakeLlm::start(script(&commands))).unwrap();
    let trial = ScriptedTrial {
        stage: Stage::new(),
        fake,
        commands,
        network_lines: "mode = \"allow\"\nallow = []".into(),
        model_lines: "key_env = \"PLANTED_KEY\"".into(),
        setup_lines: Vec::new(),
        source: numerals_folder(),
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
    let marker = planted_key();
    for file in files {
        let content = fs::read(&file).unwrap();
        let held = content.windows(marker.len()).any(|window| window == marker.as_bytes());
        assert!(!held, "{} contains the key", file.display());
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
fn keys_are_absent_from_sandbox_and_record() {
    check_keys("native");
}

#[test]
fn docker_keys_are_absent_from_sandbox_and_record() {
    if has_docker("docker_keys_are_absent_from_sandbox_and_record") {
        check_keys("docker");
    }
}
