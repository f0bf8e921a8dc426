//! Tests that with `--mask`, output contains neither keys nor listed words, and that a message says
//! what was masked.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use fake_llm::FakeLlm;

use crate::{scripted_trial::script, stage::Stage};

/// Returns the key. It is split in two here, so that no file in this repository contains it.
fn key() -> String {
    ["sk-proj-", "a1B2c3D4e5F6g7H8i9J0"].concat()
}

/// Runs a model that prints a key and writes it to the work directory.
fn run(stage: &Stage) -> PathBuf {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let command = format!("echo 'key\\n{}' | tee settings.ini; echo Straße-7", key());
    let fake = runtime.block_on(FakeLlm::start(script(&[command]))).unwrap();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n\
             [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let run = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", run.to_str().unwrap()], 0);
    run
}

/// Returns the content of every file below a folder, including files in archives, without the file
/// names in `fidelity.json`, which are not masked.
fn read_contents(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("fidelity.json") {
            continue;
        } else if path.is_dir() {
            all.extend(read_contents(&path));
        } else if path.extension().is_some_and(|end| end == "eval") {
            let mut archive = zip::ZipArchive::new(fs::File::open(&path).unwrap()).unwrap();
            for index in 0..archive.len() {
                archive.by_index(index).unwrap().read_to_end(&mut all).unwrap();
            }
        } else {
            all.extend(fs::read(&path).unwrap());
        }
    }
    all
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn mask_applies_to_exports_pages_and_reports() {
    let stage = Stage::new();
    let run = run(&stage);
    let run = run.to_str().unwrap();
    let words = stage.write_file("words.txt", "Straße-7\n\ndemo__roman\n");
    let words = words.to_str().unwrap();
    let key = key();
    for format in [
        "atif",
        "inspect",
        "mini",
        "otel",
        "rollouts",
        "swe-agent",
        "swebench",
        "swebench-submission",
    ] {
        let (plain, masked) = (stage.path(&format!("{format}-plain")), stage.path(format));
        let export = |out: &Path, more: &[&str]| {
            let args = ["export", run, "--format", format, "--out", out.to_str().unwrap()];
            let done = stage.run([&args[..], more].concat(), 0);
            String::from_utf8(done.stderr).unwrap()
        };
        let said = export(&plain, &[]);
        assert!(
            contains(&read_contents(&plain), &key) && !said.contains("masked"),
            "{format}: {said}"
        );
        let said = export(&masked, &["--mask", "--mask-words", words]);
        let content = read_contents(&masked);
        assert!(!contains(&content, &key), "{format}: {said}");
        assert!(!contains(&content, "Straße-7") && !contains(&content, "demo__roman"), "{format}");
        assert!(said.contains("API key (") && said.contains("listed word ("), "{format}: {said}");
        let text = fs::read_to_string(masked.join("fidelity.json")).unwrap();
        let fidelity: serde_json::Value = serde_json::from_str(&text).unwrap();
        let files = fidelity["masked"].as_object().unwrap();
        assert!(
            files.values().any(|kinds| kinds["API key"].as_u64() > Some(0)),
            "{format}: {text}"
        );
    }
    // A file that was masked is still valid JSON.
    let text = fs::read_to_string(stage.path("mini").join("fidelity.json")).unwrap();
    assert!(text.contains("\"trials\": 1"), "{text}");
    for entry in fs::read_dir(stage.path("mini/scripted")).unwrap() {
        let text = fs::read(entry.unwrap().path()).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap();
    }

    let pages = stage.path("pages");
    let args = ["view", run, "--static", pages.to_str().unwrap(), "--mask"];
    let said = String::from_utf8(stage.run(args, 0).stderr).unwrap();
    assert!(!contains(&read_contents(&pages), &key), "{said}");
    assert!(contains(&read_contents(&pages), "demo__roman"), "only listed words are masked");
    assert!(said.contains("masked ") && said.contains("step/1.html: API key ("), "{said}");

    let report = stage.path("report.html");
    let file = report.to_str().unwrap();
    let args = ["report", run, "--format", "html", "--out", file, "--mask-words", words];
    let said = String::from_utf8(stage.run(args, 0).stderr).unwrap();
    assert!(!fs::read_to_string(&report).unwrap().contains("demo__roman"), "{said}");
    assert!(said.contains("report.html: listed word ("), "{said}");

    // The record itself does not change.
    assert!(contains(&read_contents(Path::new(run)), &key));
    // The web server does not support masking.
    let said = String::from_utf8(stage.run(["view", run, "--mask"], 2).stderr).unwrap();
    assert!(said.contains("--static"), "{said}");
    let args = ["report", run, "--mask-words", "no/such/file"];
    let said = String::from_utf8(stage.run(args, 2).stderr).unwrap();
    assert!(said.contains("no/such/file") && said.contains(" hint: "), "{said}");
}
