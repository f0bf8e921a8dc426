//! Tests `[matrix]`, which combines arms, from the plan to the report.

use std::path::PathBuf;

use crate::stage::Stage;

/// Writes a configuration with the demo task and the given additional lines.
fn write_config(stage: &Stage, lines: &str) -> PathBuf {
    let text = format!(
        "tasks = [\"configs/tasks/demo.jsonl\"]\n{lines}\n\
         [models.scripted]\nbase_url = \"script:configs/scripts/demo.toml\"\nname = \"scripted\"\n"
    );
    stage.write_file("matrix.toml", &text)
}

fn dry_run(stage: &Stage, lines: &str, status: i32) -> (String, String) {
    let config = write_config(stage, lines);
    let output = stage.run(["run", config.to_str().unwrap(), "--dry-run"], status);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

const BASE_ARM: &str = "[[arms]]\nname = \"base\"\nscaffold = \"tools\"\nmodel = \"scripted\"\n";

#[test]
fn matrix_arms_are_distinct_and_named_by_their_differences() {
    let stage = Stage::new();
    let lines = format!(
        "{BASE_ARM}[matrix]\nscaffold = [\"tools\", \"bash\"]\nbudget.steps = [10, 20]\n\
         statement.tests = [false, true]\n[[matrix.exclude]]\nscaffold = \"bash\"\nstatement.tests = true\n"
    );
    let (plan, _) = dry_run(&stage, &lines, 0);
    let arms: Vec<_> = plan.lines().filter(|line| line.starts_with("arm ")).collect();
    assert_eq!(arms.len(), 6, "{plan}");
    for name in
        ["base/tools/steps=10/tests=false", "base/tools/steps=20/tests=true", "base/bash/steps=20"]
    {
        assert!(plan.contains(&format!("  {name}")), "{name} is missing in {plan}");
    }
    let ids: std::collections::BTreeSet<_> =
        arms.iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(ids.len(), 6, "two arms share an id: {plan}");
    assert!(plan.contains("6 trials: 1 task x 6 arms x 1 attempt"), "{plan}");
}

#[test]
fn matrix_values_without_effect_are_rejected_at_their_line() {
    let stage = Stage::new();
    let lines = format!("{BASE_ARM}[matrix]\nstatement.interfaces = [true, false]\n");
    let (_, said) = dry_run(&stage, &lines, 2);
    for part in
        ["matrix.toml:7: key `matrix.statement.interfaces`, value `false`", "no effect", "hint: "]
    {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    let lines = format!("{BASE_ARM}[matrix]\nmodel = [\"scripted\", \"scriptd\"]\n");
    let (_, said) = dry_run(&stage, &lines, 2);
    for part in
        ["key `matrix.model`, value `scriptd` (arm `base/scriptd`)", "did you mean `scripted`?"]
    {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}
