use crate::{ConfigFile, UserError, read_config};

const MODELS: &str = "[models.m]\nbase_url = 'http://h'\nname = 'm'\n[models.n]\nbase_url = 'http://h'\nname = 'n'\n";

fn read_matrix(matrix: &str, arms: &str) -> Result<ConfigFile, UserError> {
    read_matrix_with_sets(matrix, arms, &[])
}

fn read_matrix_with_sets(matrix: &str, arms: &str, sets: &[&str]) -> Result<ConfigFile, UserError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("tasks = []\n[budget]\ncost_usd = 2\n{arms}\n{matrix}\n{MODELS}");
    std::fs::write(file.path(), text).unwrap();
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    read_config(file.path(), &sets).map(|(config, _)| config)
}

fn arm_names(config: &ConfigFile) -> Vec<&str> {
    config.arms.iter().map(|arm| arm.name.as_str()).collect()
}

const BASE_ARM: &str = "[[arms]]\nname = 'base'\nscaffold = 'tools'\nmodel = 'm'\n";

#[test]
fn every_combination_becomes_an_arm_named_after_its_differences() {
    let matrix = "[matrix]\nscaffold = ['tools', 'bash']\n'budget.steps' = [50, 100]\n\
        'budget.ending' = ['grace']";
    let config = read_matrix(matrix, BASE_ARM).unwrap();
    let wanted = [
        "base/tools/steps=50",
        "base/tools/steps=100",
        "base/bash/steps=50",
        "base/bash/steps=100",
    ];
    assert_eq!(arm_names(&config), wanted);
    let last = &config.arms[3];
    assert_eq!((last.scaffold.as_str(), last.budget.steps), ("bash", Some(100)));
    assert_eq!(last.budget.cost_usd, Some(2.0), "keys that are not crossed are inherited");
    assert_eq!(last.budget.ending, proctor_types::BudgetEnding::Grace);
    // Nested tables and keys with dots are equivalent. Without [[arms]], an arm is named after its
    // scaffold and model.
    let tables = "[matrix]\nscaffold = ['tools']\nmodel = ['m']\n[matrix.budget]\nsteps = [50, 100]\n\
        disclosure = ['hidden', 'countdown']";
    let config = read_matrix(tables, "").unwrap();
    assert_eq!(
        arm_names(&config)[..2],
        ["tools/m/steps=50/disclosure=hidden", "tools/m/steps=50/disclosure=countdown"]
    );
    assert_eq!(config.arms.len(), 4);
}

#[test]
fn matrix_can_be_set_on_the_command_line() {
    let sets =
        [r#"matrix."budget.steps"=[1, 2]"#, "matrix.network.mode=[\"closed\", \"open_except\"]"];
    let config = read_matrix_with_sets("", BASE_ARM, &sets).unwrap();
    assert_eq!(config.arms.len(), 4);
    assert!(
        arm_names(&config).contains(&"base/steps=2/network=closed"),
        "{:?}",
        arm_names(&config)
    );
    let error =
        read_matrix_with_sets("", BASE_ARM, &[r#"matrix."budget.steps"=["many"]"#]).unwrap_err();
    assert!(
        error
            .message
            .starts_with("--set: key `matrix.\"budget.steps\"`, value `many` (arm `base`)"),
        "{error}"
    );
}

#[test]
fn crossed_temperatures_create_separate_models() {
    let matrix = "[matrix]\nmodel = ['m', 'n']\n'model.temperature' = [0, 0.7]";
    let config = read_matrix(matrix, BASE_ARM).unwrap();
    assert_eq!(arm_names(&config)[1], "base/m/temperature=0.7");
    let of = |arm: usize| config.models[config.arms[arm].model.as_ref().unwrap()].temperature;
    assert_eq!([of(0), of(1), of(2), of(3)], [Some(0.0), Some(0.7), Some(0.0), Some(0.7)]);
    // The axis applies to one model only, so the other model occurs once.
    let one = "[matrix]\nmodel = ['m', 'n']\nmodels.n.temperature = [0, 0.7]";
    let config = read_matrix(one, BASE_ARM).unwrap();
    assert_eq!(arm_names(&config), ["base/m", "base/n/temperature=0", "base/n/temperature=0.7"]);
    assert_eq!(config.models["m"].temperature, None);
}

#[test]
fn matrix_excludes_and_includes_combinations() {
    let matrix = "[matrix]\nscaffold = ['tools', 'bash']\nbudget.steps = [50, 100]\n\
        [[matrix.exclude]]\nscaffold = 'bash'\n'budget.steps' = [100]\n\
        [[matrix.include]]\nscaffold = 'bash'\nbudget.steps = 7\n\
        [[matrix.include]]\nname = 'short'\n'budget.steps' = 1";
    let config = read_matrix(matrix, BASE_ARM).unwrap();
    let wanted = [
        "base/tools/steps=50",
        "base/tools/steps=100",
        "base/bash/steps=50",
        "base/bash/steps=7",
        "short",
    ];
    assert_eq!(arm_names(&config), wanted);
    assert_eq!(config.arms[4].scaffold, "tools");
    // `exclude` can also match an arm's own keys and its name.
    let two =
        format!("{BASE_ARM}{}", BASE_ARM.replace("base", "other").replace("'tools'", "'bash'"));
    let matrix = "[matrix]\nbudget.steps = [5, 10]\n[[matrix.exclude]]\nname = 'other'\nbudget.steps = 10.0\n\
        [[matrix.exclude]]\nscaffold = 'tools'\nbudget = { cost_usd = 2, steps = 5 }";
    let config = read_matrix(matrix, &two).unwrap();
    assert_eq!(arm_names(&config), ["base/steps=10", "other/steps=5"]);
}

#[test]
fn matrix_errors_name_the_key_and_the_value() {
    let mut wrong = Vec::new();
    for (matrix, what, hint) in [
        (
            "'budget.steps' = [50, 'many']",
            ":10: key `matrix.\"budget.steps\"`, value `many` (arm `base/steps=many`): expected a whole number, found text",
            "steps = 50",
        ),
        (
            "budget.steps = [0, 5]",
            "key `matrix.budget.steps`, value `0` (arm `base/steps=0`): 0 is out of range",
            "from 1",
        ),
        (
            "steps = [5]",
            "key `matrix.steps`: not a key of an arm",
            "did you mean \"budget.steps\"?",
        ),
        (
            "temperature = [5]",
            "key `matrix.temperature`: not a key of an arm",
            "did you mean \"model.temperature\"?",
        ),
        (
            "'budget.step' = [5]",
            "key `matrix.\"budget.step\"`: unknown key",
            "did you mean `steps`?",
        ),
        ("scafold = ['tools']", "key `matrix.scafold`: unknown key", "did you mean `scaffold`?"),
        ("attempts = [1, 2]", "key `matrix.attempts`: not a factor", "[[arms]]"),
        ("'model.base_url' = ['http://x']", "not a factor", "its own table"),
        (
            "scaffold = 'tools'",
            "key `matrix.scaffold`: expected a list of values, found text",
            "[\"tools\"]",
        ),
        ("scaffold = []", "key `matrix.scaffold`: no values", "at least one"),
        ("budget.cost_usd = [1, 1.0]", "duplicate value `1.0`", "attempts"),
        ("budget.steps = [1]\n'budget.steps' = [2]", "crossed twice", "once"),
        (
            "budget.steps = [1, 2]\n[[matrix.exclude]]\nbudget.steps = 3",
            ":12: key `matrix.exclude.0.budget.steps`: no combination has the value `3`",
            "`1`, `2`",
        ),
        (
            "budget.steps = [1, 2]\n[[matrix.exclude]]\nscaffold = 'tools'",
            "excludes every arm",
            "narrow",
        ),
        (
            "budget.steps = [1]\n[[matrix.include]]\n'budget.stepps' = 3",
            "key `matrix.include.0.\"budget.stepps\"`, value `3`: unknown key",
            "steps",
        ),
        ("disclosure = ['hidden']", "not a key of an arm", "\"budget.disclosure\""),
        (
            "network = ['closed']",
            "key `matrix.network`, value `closed` (arm `base`): expected a table, found text",
            "mode = \"allow\"",
        ),
        ("", "no factors to cross", "scaffold = ["),
    ] {
        let error = read_matrix(&format!("[matrix]\n{matrix}"), BASE_ARM).unwrap_err();
        let told = error.hint.clone().unwrap_or_default();
        if !error.message.contains(what) || !told.contains(hint) {
            wrong.push(format!("{matrix}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let many: Vec<_> = (1..200).map(|n| n.to_string()).collect();
    let list = many.join(", ");
    let matrix = format!("[matrix]\nbudget.steps = [{list}]\nbudget.input_tokens = [{list}]");
    assert!(read_matrix(&matrix, BASE_ARM).unwrap_err().message.contains("more than 10000 arms"));
    let error = read_matrix("[matrix]\n'budget.steps' = [1]", "").unwrap_err();
    assert!(error.message.contains("`matrix`") && error.message.contains("is missing"), "{error}");
}

/// A prompt directory is named by its last part.
#[test]
fn prompts_can_be_crossed() {
    let config = read_matrix("[matrix]\nprompts = ['p/one', '/q/two']", BASE_ARM).unwrap();
    assert_eq!(arm_names(&config), ["base/prompts=one", "base/prompts=two"]);
    assert_eq!(config.arms[1].prompts.as_deref(), Some(std::path::Path::new("/q/two")));
}

/// Names must differ for similar values, for paths, and for two keys with the same last part.
#[test]
fn matrix_names_are_unique() {
    let config = read_matrix(
        "[matrix]\nscaffold = ['a/x.toml', 'b/x.toml']\nsandbox.cpus = [1, 2]\nbudget.arm.steps = [7]\n\
         settings.format = ['natural', 'patch']\nnetwork = [{ mode = 'closed' }, { mode = 'open_except' }]",
        "",
    )
    .unwrap();
    let mut names = arm_names(&config);
    assert_eq!(names[0], "a/x.toml/cpus=1/format=natural/network=mode=closed");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 16);
}
