//! Tests that an agent whose bundle contains a copy of the package under test is rejected before
//! any trial starts.

use std::fs;

use crate::stage::{Stage, repository_root};

/// Writes a configuration with the demo tasks, an arm with a built-in scaffold, and an agent whose
/// bundle contains `files` among its packages. Returns the paths of the configuration and of the
/// run directory to create.
fn write_config(stage: &Stage, files: &[(&str, &str)]) -> (String, String) {
    for (path, text) in files {
        let path = stage.path("packages").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    stage.write_file("agent.sh", "#!/bin/sh\necho mine\n");
    stage.write_file(
        "mine.toml",
        "name = \"mine\"\nversion = \"1.0\"\napi = \"chat\"\n\
         command = { argv = [\"/agent/bin/agent\"] }\n[bundle]\nkind = \"files\"\n\
         bin = { agent = \"lib/agent.sh\" }\n\
         files = { \"lib/agent.sh\" = \"agent.sh\", \"lib/python3/dist-packages\" = \"packages\" }\n",
    );
    let text = format!(
        "tasks = [\"{}\"]\n[budget]\nsteps = 5\n[models.m]\nbase_url = \"script:script.json\"\nname = \"m\"\n\
         [[arms]]\nname = \"plain\"\nscaffold = \"noop\"\n\
         [[arms]]\nname = \"lends\"\nscaffold = \"mine.toml\"\nmodel = \"m\"\n",
        repository_root().join("configs/tasks/demo.jsonl").display()
    );
    stage.write_file("script.json", "{\"conversation\": [{\"turn\": [{\"content\": \"x\"}]}]}");
    let config = stage.write_file("run.toml", &text).display().to_string();
    (config, stage.path("run").display().to_string())
}

fn rejection_text(stage: &Stage, files: &[(&str, &str)]) -> String {
    let (config, out) = write_config(stage, files);
    let ended = stage.run(["run", &config, "--out", &out], 2);
    assert!(!stage.path("run").exists(), "the run began");
    // Now that the bundle is built, a dry run also rejects it.
    let looked = stage.run(["run", &config, "--dry-run"], 2);
    let said = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        words[words.find("error:").unwrap()..].to_owned()
    };
    assert_eq!(said(&ended.stderr), said(&looked.stderr));
    said(&ended.stderr)
}

#[test]
fn agent_with_the_package_under_test_is_rejected() {
    let stage = Stage::new();
    let said =
        rejection_text(&stage, &[("numerals/__init__.py", "x = 1\n"), ("other.py", "y = 1\n")]);
    for part in ["run.toml", "arm `lends`", "`demo__roman-1`", "/dist-packages/numerals", "hint: "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("plain"), "{said}");
}

/// The copy has another name and is in an unrelated package.
#[test]
fn renamed_copy_of_the_solution_in_a_bundle_is_detected() {
    let stage = Stage::new();
    let original = repository_root().join("configs/tasks/numerals/numerals/roman.py");
    let text = fs::read_to_string(original).unwrap().replace("    ", "\t");
    let said = rejection_text(&stage, &[("helper/deep/old.py", &text)]);
    assert!(said.contains("helper/deep/old.py") && said.contains("1 task"), "{said}");
}

#[test]
fn agent_with_other_packages_is_accepted() {
    let stage = Stage::new();
    let (config, _) =
        write_config(&stage, &[("numerals_of_others/roman.py", "def roman():\n    pass\n")]);
    stage.run(["scaffold", "add", &stage.path("mine.toml").display().to_string()], 0);
    stage.run(["run", &config, "--dry-run"], 0);
}
