//! The user's mistakes: exit status 2, the key or file, and the mend.

use crate::stage::Stage;

fn mistake(config: &str, args: &[&str]) -> String {
    let stage = Stage::new();
    let config = stage.file("run.toml", config);
    let mut all = vec!["run", config.to_str().unwrap()];
    all.extend(args);
    let output = stage.run(all, 2);
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

const NOOP: &str =
    "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"a\"\nscaffold = \"noop\"\n";

#[test]
fn an_unknown_key_names_itself_and_the_nearest() {
    let said = mistake(&format!("{NOOP}[budget]\nstesp = 3\n"), &[]);
    assert!(said.contains("stesp") && said.contains("did you mean `steps`?"), "{said}");
}

#[test]
fn an_unknown_scaffold_lists_the_known() {
    let said = mistake(NOOP, &["--set", "arms.0.scaffold=tolls"]);
    assert!(said.contains("tolls") && said.contains("known: ") && said.contains("tools"), "{said}");
}

#[test]
fn a_scaffold_without_its_model_is_told() {
    let said = mistake(NOOP, &["--set", "arms.0.scaffold=tools"]);
    assert!(said.contains("needs a model"), "{said}");
}

#[test]
fn a_network_that_cannot_be_kept_is_refused() {
    let said = mistake(NOOP, &["--set", "network.mode=allow"]);
    assert!(said.contains("network.mode"), "{said}");
}

#[test]
fn two_arms_with_the_same_factors_are_refused() {
    let twice = format!("{NOOP}[[arms]]\nname = \"b\"\nscaffold = \"noop\"\n");
    let said = mistake(&twice, &[]);
    assert!(said.contains("same factors"), "{said}");
}

#[test]
fn a_bad_row_is_named_by_file_and_line() {
    let stage = Stage::new();
    let rows = stage.file("rows.jsonl", "{\"schema_version\": 1, \"id\": \"x\"}\nnot json\n");
    let config = stage.file(
        "run.toml",
        &format!("tasks = [{rows:?}]\n[[arms]]\nname = \"a\"\nscaffold = \"noop\"\n"),
    );
    let output = stage.run(["run", config.to_str().unwrap()], 2);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("rows.jsonl") && said.contains('2'), "{said}");
}

#[test]
fn a_folder_that_is_no_run_is_told() {
    let stage = Stage::new();
    for command in ["resume", "report"] {
        let output = stage.run([command, stage.dir.path().to_str().unwrap()], 2);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("run.json"), "{said}");
    }
}
