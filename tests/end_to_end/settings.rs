//! Sets every key in a run configuration to invalid values. Proctor must exit with status 2. The
//! message must contain the file and the line, the key as it was written, and a hint, but no
//! internal terms of the program.

use std::process::Output;

use serde_json::Value;

use crate::stage::{Stage, repository_root};

/// The kind of value that a key accepts, which determines invalid values for it.
#[derive(Clone, Copy)]
enum ValueKind {
    Count,
    /// A whole number.
    Integer,
    Number,
    Choice,
    Flag,
    Text,
    /// A string with a required format, such as an address or the name of a variable.
    FormattedText,
    Texts,
    Table,
}
use ValueKind::{Choice, Count, Flag, FormattedText, Integer, Number, Table, Text, Texts};

/// A table of the configuration: its header in a file, its path, and its keys.
type ConfigTable = (String, String, Vec<(String, ValueKind)>);

/// Returns all tables in the schema that is committed for editors.
fn schema_tables() -> Vec<ConfigTable> {
    let text = std::fs::read_to_string(repository_root().join("configs/schema.json")).unwrap();
    let mut found = Vec::new();
    collect_tables(&serde_json::from_str(&text).unwrap(), "", "", &mut found);
    found
}

/// Collects the tables of a schema. `name` is the table as in a header; `path` also contains the
/// number of the arm.
fn collect_tables(schema: &Value, name: &str, path: &str, tables: &mut Vec<ConfigTable>) {
    let head = match (name, path.ends_with(".0")) {
        ("", _) => String::new(),
        (_, true) => format!("[[{name}]]"),
        (_, false) => format!("[{name}]"),
    };
    let properties = schema["properties"].as_object().unwrap();
    let keys = properties.iter().map(|(key, value)| (key.clone(), ValueKind::from_schema(value)));
    tables.push((head, path.to_owned(), keys.collect()));
    for (key, inner) in properties {
        let below =
            |place: &str| if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        let (name, path) = (below(name), below(path));
        if inner["items"]["type"] == "object" {
            collect_tables(&inner["items"], &name, &format!("{path}.0"), tables);
        } else if inner["additionalProperties"]["properties"].is_object() {
            // [`config_with_line`] uses these names.
            let own = if key == "models" { "\"m-1.5\"" } else { "mine" };
            let (name, path) = (format!("{name}.{own}"), format!("{path}.{own}"));
            collect_tables(&inner["additionalProperties"], &name, &path, tables);
        } else if inner["properties"].is_object() {
            collect_tables(inner, &name, &path, tables);
        }
    }
}

impl ValueKind {
    fn from_schema(schema: &Value) -> Self {
        match schema["type"].as_str() {
            _ if schema["enum"].is_array() || schema["oneOf"].is_array() => Choice,
            Some("integer") if schema["minimum"].is_null() => Integer,
            Some("integer") => Count,
            Some("number") => Number,
            Some("boolean") => Flag,
            Some("string") if schema["x-form"].is_string() => FormattedText,
            Some("string") => Text,
            Some("array") if schema["items"]["type"] == "string" => Texts,
            _ => Table,
        }
    }

    fn invalid_values(self) -> &'static [&'static str] {
        match self {
            Count => &[
                "'many'",
                "true",
                "1.5",
                "-1",
                "nan",
                "[1]",
                "{}",
                "2026-01-01",
                "9223372036854775807",
                "99999999999999999999999",
            ],
            Integer => &["'many'", "true", "1.5", "nan", "[1]", "99999999999999999999999"],
            Number => {
                &["'many'", "true", "-1", "-0.5", "1e30", "nan", "inf", "-inf", "[1.0]", "{}"]
            }
            Choice => &["5", "'nonsense'", "''", "true", "['a']"],
            Flag => &["5", "'yes'", "[true]", "{}"],
            Text => &["5", "''", "true", "['a']", "{}"],
            FormattedText => &["5", "''", "true", "['a']", "'no/such form'", "'ftp://h'"],
            Texts => &["5", "'text'", "[5]", "true", "{}"],
            Table => &["5", "'text'", "true", "[5]", "['text']"],
        }
    }
}

/// Returns a complete configuration, with one line added to one of its tables. If the line sets a
/// key, the key is removed elsewhere.
fn config_with_line(head: &str, line: &str) -> String {
    let key = line.split(" =").next().unwrap_or_default();
    let top = ["tasks = ['configs/tasks/demo.jsonl']"];
    let tables: &[(&str, &[&str])] = &[
        ("[[arms]]", &["name = 'a'", "scaffold = 'tools'", "model = 'm-1.5'"]),
        ("[models.\"m-1.5\"]", &["base_url = 'http://127.0.0.1:9/v1'", "name = 'm'"]),
        ("[endpoints.mine]", &["base_url = 'http://127.0.0.1:9/v1'", "max_concurrent = 2"]),
    ];
    let kept = |own: &str, lines: &[&str]| -> Vec<String> {
        let anew = |one: &&&str| !(own == head && one.starts_with(&format!("{key} =")));
        lines.iter().filter(anew).map(|one| (*one).to_owned()).collect()
    };
    let mut text = kept("", &top);
    if head.is_empty() {
        text.push(line.to_owned());
    }
    for (own, lines) in tables {
        // A file cannot contain both `arms = 5` and `[[arms]]`, so leave out `[[arms]]`.
        if head.is_empty() && !key.is_empty() && own.contains(key) {
            continue;
        }
        text.push((*own).to_owned());
        text.extend(kept(own, lines));
        if *own == head {
            text.push(line.to_owned());
        }
        // A table of an arm must come after the arm itself.
        if *own == "[[arms]]" && head.starts_with("[arms.") {
            text.extend([head.to_owned(), line.to_owned()]);
        }
    }
    if !head.is_empty() && !head.starts_with("[arms.") && !text.iter().any(|one| one == head) {
        text.extend([head.to_owned(), line.to_owned()]);
    }
    text.join("\n") + "\n"
}

fn dry_run(stage: &Stage, text: &str, args: &[&str]) -> Output {
    let config = stage.write_file("run.toml", text);
    let all = [&["run", config.to_str().unwrap(), "--dry-run"], args].concat();
    stage.proctor(all).output().unwrap()
}

/// Returns the message for a mistake. First checks what all such messages must have in common.
fn mistake_message(stage: &Stage, text: &str, args: &[&str]) -> String {
    let done = dry_run(stage, text, args);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{args:?}\n{text}\n{said}");
    assert!(done.stdout.is_empty());
    assert!(said.contains("\n hint: "), "no hint: {said}\n{text}");
    // The name of the directory is random, so remove it.
    let words = said.replace(stage.dir.path().to_str().unwrap(), "");
    for word in [
        "::",
        "struct ",
        "enum ",
        "invalid type",
        "variant",
        "u32",
        "u64",
        "i64",
        "f64",
        "usize",
        "Some(",
        "os error 9",
    ] {
        assert!(!words.contains(word), "{word:?} is an internal term: {said}");
    }
    said
}

#[test]
fn every_key_rejects_invalid_values_with_a_clear_message() {
    let stage = Stage::new();
    let done = dry_run(&stage, &config_with_line("", ""), &[]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let mut cases = 0;
    for (head, path, keys) in &schema_tables() {
        for (key, takes) in keys {
            for value in takes.invalid_values() {
                let line = format!("{key} = {value}");
                let text = config_with_line(head, &line);
                let said = mistake_message(&stage, &text, &[]);
                let number = text.lines().position(|one| one == line).unwrap() + 1;
                let whole = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let place = format!("run.toml:{number}: key `{whole}`");
                assert!(said.contains(&place), "{place:?} is missing in {said}\n{text}");
                cases += 1;
            }
        }
    }
    assert!(cases > 500, "{cases}");
}

/// The message lists the same keys as the schema.
#[test]
fn unknown_key_is_reported_with_all_known_keys() {
    let stage = Stage::new();
    for (head, path, keys) in &schema_tables() {
        let said = mistake_message(&stage, &config_with_line(head, "zzz = 1"), &[]);
        let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
        let known = format!("known keys: {}\n", names.join(", "));
        assert!(said.contains(&known), "{known} is missing in {said}");
        let dot = if path.is_empty() { "" } else { "." };
        assert!(said.contains(&format!("key `{path}{dot}zzz`")), "{said}");
    }
}

#[test]
fn missing_key_is_reported_with_an_example() {
    let stage = Stage::new();
    for (text, key, write) in [
        ("arms = []\n", "tasks", "`tasks = ["),
        ("tasks = []\n", "arms", "[[arms]]"),
        ("tasks = []\narms = []\n", "arms", "[[arms]]"),
        ("tasks = []\n[[arms]]\nname = 'a'\n", "arms.0.scaffold", "`scaffold = \"tools\"`"),
        ("tasks = []\narms = []\n[models.m]\nname = 'm'\n", "models.m.base_url", "https://HOST/v1"),
        ("tasks = []\narms = []\n[models.m]\nbase_url = 'http://h'\n", "models.m.name", "`name ="),
    ] {
        let said = mistake_message(&stage, text, &[]);
        assert!(said.contains(&format!("key `{key}`")) && said.contains(write), "{said}");
    }
}

#[test]
fn key_of_another_table_is_reported_with_its_table() {
    let stage = Stage::new();
    let said = mistake_message(&stage, &config_with_line("[budget.run]", "wall_seconds = 5"), &[]);
    assert!(said.contains("it belongs to [budget]") && !said.contains("did you mean"), "{said}");
    let said = mistake_message(&stage, &config_with_line("", "steps = 5"), &[]);
    assert!(said.contains("it belongs to [budget] or [budget.arm] or [budget.run]"), "{said}");
}

/// If a value is inherited or comes from `--set`, the message names the place where it was written.
#[test]
fn key_is_reported_where_it_was_written() {
    let stage = Stage::new();
    let said = mistake_message(
        &stage,
        &config_with_line("[network]", "ca_file = 'no.pem'\nmode = 'open_except'"),
        &[],
    );
    assert!(said.contains("run.toml:13: key `network.ca_file`: cannot read"), "{said}");
    let said = mistake_message(
        &stage,
        &config_with_line("[arms.network]", "ca_file = 'no.pem'\nmode = 'open_except'"),
        &[],
    );
    assert!(said.contains("key `arms.0.network.ca_file` (arm `a`)"), "{said}");
    let said = mistake_message(&stage, &config_with_line("", ""), &["--set", "budget.steps=many"]);
    assert!(
        said.contains("--set: key `budget.steps`: expected a whole number, found text"),
        "{said}"
    );
    let said =
        mistake_message(&stage, &config_with_line("", ""), &["--set", "arms.0.budget.cost_usd=-1"]);
    assert!(said.contains("--set: key `arms.0.budget.cost_usd` (arm `a`): -1 is out"), "{said}");
    let said =
        mistake_message(&stage, &config_with_line("[grading]", "certificate = 'no.json'"), &[]);
    assert!(said.contains("key `grading.certificate`: cannot read no.json"), "{said}");
    let text = config_with_line("", "").replace("configs/tasks/demo.jsonl", "nowhere.jsonl");
    let said = mistake_message(&stage, &text, &[]);
    assert!(said.contains("run.toml:1: key `tasks`: no file matches `nowhere.jsonl`"), "{said}");
    let said = mistake_message(&stage, "tasks = [\n", &[]);
    assert!(said.contains("run.toml:") && said.contains("invalid TOML"), "{said}");
}

/// Returns the secret. It is split in two here, so that no file in this repository contains it.
fn secret() -> String {
    ["hunter", "-2-4711"].concat()
}

#[test]
fn credentials_in_a_setting_are_rejected_and_not_shown() {
    let stage = Stage::new();
    let secret = secret();
    let url = format!("https://u:{secret}@host/v1");
    for (head, line, hint) in [
        ("[models.\"m-1.5\"]", format!("base_url = '{url}'"), "environment variable"),
        ("[models.\"m-1.5\"]", format!("base_url = '//u:{secret}@host'"), "environment variable"),
        ("[models.\"m-1.5\"]", format!("base_url = 'u:{secret}@host/v1'"), "environment variable"),
        ("[models.\"m-1.5\"]", format!("base_url = 'https://h/?key={secret}'"), "environment"),
        ("[models.\"m-1.5\"]", format!("key_env = 'sk-{secret}'"), "export MY_KEY="),
        ("[endpoints.mine]", format!("base_url = '{url}'"), "environment variable"),
        ("[network]", format!("allow = ['{url}']"), "allow ="),
        ("[network]", format!("deny = ['GET {url}']"), "deny ="),
        ("[network]", format!("allow = ['{url}'"), "fix this line"),
    ] {
        let said = mistake_message(&stage, &config_with_line(head, &line), &[]);
        assert!(!said.contains(&secret) && said.contains(hint), "{hint}: {said}");
    }
    let set = format!("models.\"m-1.5\".base_url={url}");
    let said = mistake_message(&stage, &config_with_line("", ""), &["--set", &set]);
    assert!(!said.contains(&secret) && said.contains("--set: key `models.\"m-1.5\""), "{said}");
}

#[test]
fn setting_without_effect_is_rejected() {
    let stage = Stage::new();
    for (lines, key) in [
        ("mode = 'closed'\nallow = ['https://a.test']", "network.allow"),
        ("allow = ['https://a.test']", "network.allow"),
        ("mode = 'closed'\naudit = true", "network.audit"),
        ("deny = ['https://a.test']", "network.deny"),
        ("private = ['127.0.0.1:81']", "network.private"),
        ("mode = 'allow'", "network.mode"),
        ("mode = 'allow'\ndeny = ['https://a.test']", "network.mode"),
        (
            "mode = 'allow'\nallow = ['https://a.test']\nprivate = ['127.0.0.1:0']",
            "network.private",
        ),
        ("mode = 'allow'\nallow = ['FETCH https://a.test']", "network.allow"),
        ("mode = 'open_except'\nallow = ['https://a.test']", "network.allow"),
        ("mode = 'open_except'\naudit = true", "network.audit"),
    ] {
        let said = mistake_message(&stage, &config_with_line("[network]", lines), &[]);
        assert!(said.contains(&format!("key `{key}`")), "{lines}\n{said}");
        let said = mistake_message(&stage, &config_with_line("[arms.network]", lines), &[]);
        assert!(said.contains(&format!("key `arms.0.{key}` (arm `a`)")), "{lines}\n{said}");
    }
    for (head, lines, key) in [
        ("[grading]", "flaky = 'vote'", "grading.flaky"),
        ("[[arms]]", "replay = 'trajectory.jsonl'", "arms.0.replay"),
        ("[[arms]]", "scaffold = 'gold'", "arms.0.model"),
    ] {
        let said = mistake_message(&stage, &config_with_line(head, lines), &[]);
        assert!(said.contains(&format!("key `{key}`")) && said.contains("no effect"), "{said}");
    }
    // A setting that has an effect in one arm is not rejected because of another arm. Settings that
    // allow or deny nothing are accepted.
    let two = "\n[[arms]]\nname = 'b'\nscaffold = 'noop'\nnetwork = { mode = 'open_except' }\n";
    for lines in [
        "deny = ['https://a.test']",
        "mode = 'allow'\nallow = []",
        "mode = 'allow'\naudit = true",
        "mode = 'closed'\nallow = []\naudit = false",
    ] {
        let done = dry_run(&stage, &(config_with_line("[network]", lines) + two), &[]);
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// Checking the plan finds each of these mistakes, and the message names the line.
#[test]
fn settings_that_no_request_supports_are_rejected() {
    let stage = Stage::new();
    let model = "[models.\"m-1.5\"]";
    for (head, lines, key, says) in [
        (model, "seed = 7\napi = 'messages'", "models.\"m-1.5\".seed", "have no seed"),
        (model, "seed = 7\napi = 'responses'", "models.\"m-1.5\".seed", "have no seed"),
        (
            model,
            "temperature = 1.5\napi = 'messages'",
            "models.\"m-1.5\".temperature",
            "a number from 0 to 1",
        ),
        (
            model,
            "extra_body = { model = 'x' }",
            "models.\"m-1.5\".extra_body.model",
            "from `extra_body`",
        ),
        (
            model,
            "extra_body = { stream = true }",
            "models.\"m-1.5\".extra_body.stream",
            "from `extra_body`",
        ),
        (model, "cutoff = 'May 2025'", "models.\"m-1.5\".cutoff", "\"May 2025\" is not a date"),
        (
            model,
            "base_url = 'script:nofile.json'",
            "models.\"m-1.5\".base_url",
            "script nofile.json",
        ),
        ("[budget]", "cost_usd = 1", "budget.cost_usd", "no price is configured for"),
        ("[budget.run]", "cost_usd = 1", "budget.run.cost_usd", "no price is configured"),
        ("[budget.arm]", "cost_usd = 1", "budget.arm.cost_usd", "no price is configured"),
        ("[arms.budget]", "cost_usd = 1", "arms.0.budget.cost_usd", "no price is configured"),
    ] {
        let text = config_with_line(head, lines)
            .replace("[endpoints.mine]\n", "")
            .replace(ENDPOINT_LINES, "");
        let said = mistake_message(&stage, &text, &[]);
        let (place, _) = said.split_once(&format!("key `{key}`")).expect(&said);
        assert!(place.contains("run.toml:") && said.contains(says), "{lines}\n{said}");
    }
}

const ENDPOINT_LINES: &str = "base_url = 'http://127.0.0.1:9/v1'\nmax_concurrent = 2\n";

#[test]
fn rate_limits_without_a_matching_model_are_rejected() {
    let stage = Stage::new();
    let base = "base_url = 'http://127.0.0.1:9/v1'";
    for (lines, key, says) in [
        (format!("{base}\nmodel = 'm'"), "endpoints.other", "does not set a limit"),
        (
            "base_url = 'http://127.0.0.1:9/v2'\nmax_concurrent = 1".into(),
            "endpoints.other.base_url",
            "did you mean `http://127.0.0.1:9/v1`?",
        ),
        (
            "base_url = 'somewhere'\nmax_concurrent = 1".into(),
            "endpoints.other.base_url",
            "https://HOST/v1",
        ),
        // The name of a table in [models] is not the name of the model at the endpoint.
        (
            format!("{base}\nmodel = 'm-1.5'\nmax_concurrent = 1"),
            "endpoints.other.model",
            "at the endpoint: m",
        ),
    ] {
        let said = mistake_message(&stage, &config_with_line("[endpoints.other]", &lines), &[]);
        assert!(said.contains(&format!("key `{key}`")) && said.contains(says), "{says}: {said}");
    }
    // Limits may be set for a model that no arm uses, because `--model` may select that model.
    let spare = "\n[models.spare]\nbase_url = 'http://127.0.0.1:8/v1'\nname = 's'\n";
    let lines = "base_url = 'http://127.0.0.1:8/v1/'\nmax_concurrent = 1";
    let done = dry_run(&stage, &(config_with_line("[endpoints.other]", lines) + spare), &[]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("[endpoints.other] applies to no model that an arm uses"), "{said}");
    // In the limits for a script, the script's relative path is the same as in the model's table.
    let scripted = [
        "--set",
        "endpoints.s.base_url=script:configs/scripts/demo.toml",
        "--set",
        "endpoints.s.max_concurrent=1",
    ];
    let demo = ["run", "configs/demo.toml", "--dry-run"];
    stage.run([&demo[..], &scripted].concat(), 0);
    let done = dry_run(&stage, &config_with_line("", ""), &["--model", "openai/gpt-5.1"]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The schema that the program prints must equal the committed one, and the demo must refer to it.
#[test]
fn printed_schema_matches_the_committed_one() {
    let stage = Stage::new();
    for (of, file) in [
        ("config", "configs/schema.json"),
        ("task", "configs/task-schema.json"),
        ("manifest", "configs/manifest-schema.json"),
    ] {
        let printed = String::from_utf8(stage.run(["schema", of], 0).stdout).unwrap();
        assert_eq!(
            printed,
            std::fs::read_to_string(repository_root().join(file)).unwrap(),
            "{file}"
        );
    }
    stage.run(["schema", "nothing"], 2);
}
