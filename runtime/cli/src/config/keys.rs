//! Every key of a run configuration, with what it may hold. The one table by which a file is checked
//! as it is written; a test holds it to the structures that the file is read into.

use proctor_egress::{Exception, Pattern};

use crate::config::kind::Kind::{
    self, Above, Address, Choice, Count, Flag, Free, Named, Number, Rows, Table, Text, Texts,
    Variable,
};

/// More than this (a trillion) is a mistyped number, and near where sums overflow.
const MOST: i64 = 1_000_000_000_000;
/// A pebibyte in MiB.
const MOST_MB: i64 = 1 << 30;
/// A hundred years: more are no limit, and overflow clocks.
const MOST_SECONDS: f64 = 3.2e9;
const MOST_DOLLARS: f64 = 1e9;

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// How a value of it is written.
    example: &'static str,
}

const fn key(name: &'static str, kind: Kind, example: &'static str) -> Key {
    Key { name, kind, required: false, example }
}

const fn required(name: &'static str, kind: Kind, example: &'static str) -> Key {
    Key { name, kind, required: true, example }
}

impl Key {
    /// What to write, as a hint.
    pub fn write(&self) -> String {
        match self.kind {
            Table(_) | Free => format!("write it as a table, as in {}", self.example),
            Named(_) => format!("write one table for each, as in {}", self.example),
            Rows(_) => format!("write each as {}", self.example),
            Flag => format!("write `{0} = true` or `{0} = false`", self.name),
            _ => format!("write `{} = {}`", self.name, self.example),
        }
    }
}

fn any(_: &str) -> Result<(), String> {
    Ok(())
}

fn allow(text: &str) -> Result<(), String> {
    Pattern::allow(text).map(drop).map_err(|error| format!("{error} (docs/egress.md)"))
}

fn deny(text: &str) -> Result<(), String> {
    Pattern::deny(text).map(drop).map_err(|error| format!("{error} (docs/egress.md)"))
}

fn private(text: &str) -> Result<(), String> {
    Exception::parse(text).map(drop).map_err(|error| format!("{error} (docs/egress.md)"))
}

/// The top of the file.
pub const FILE: &[Key] = &[
    required("tasks", Texts(any), "[\"tasks.jsonl\"]"),
    key("attempts", Count(1, 10_000), "1"),
    key("jobs", Count(1, 10_000), "2"),
    key("sandbox", Table(SANDBOX), "[sandbox] with `kind` and limits below it"),
    key("network", Table(NETWORK), "[network] with `mode` and patterns below it"),
    key("leak_check", Table(LEAK_CHECK), "[leak_check] with `on_finding` below it"),
    key("budget", Table(BUDGET), "[budget] with limits below it"),
    required("arms", Rows(ARM), "[[arms]] with `name`, `scaffold` and `model` below it"),
    key("models", Named(MODEL), "[models.NAME] with `base_url` and `name` below it"),
    key("grading", Table(GRADING), "[grading] with `certificate` below it"),
    key("endpoints", Named(ENDPOINT), "[endpoints.NAME] with `base_url` and limits below it"),
];

const ARM: &[Key] = &[
    required("name", Text, "\"tools/my-model\""),
    required("scaffold", Text, "\"tools\""),
    key("model", Text, "\"NAME\""),
    key("sandbox", Table(SANDBOX), "sandbox = { kind = \"docker\" }"),
    key("network", Table(NETWORK), "network = { mode = \"closed\" }"),
    key("leak_check", Table(LEAK_CHECK), "leak_check = { on_finding = \"remove\" }"),
    key("budget", Table(BUDGET), "budget = { steps = 50 }"),
    key("replay", Text, "\"RUN/trials/.../trajectory.jsonl\""),
];

const SANDBOX: &[Key] = &[
    key("kind", Choice(&["native", "docker"]), "\"native\""),
    key("cpus", Number(0.01, 4096.0), "1.0"),
    // Fewer MiB do not start an interpreter.
    key("memory_mb", Count(32, MOST_MB), "2048"),
    // The sandbox agent is one of them.
    key("processes", Count(2, 4_194_304), "512"),
    key("disk_mb", Count(1, MOST_MB), "1024"),
];

const NETWORK: &[Key] = &[
    key("mode", Choice(&["closed", "allow", "open_except"]), "\"allow\""),
    key("allow", Texts(allow), "[\"https://pypi.org/**\"]"),
    key("deny", Texts(deny), "[\"https://pypi.org/**\"]"),
    key("private", Texts(private), "[\"mirror.test=127.0.0.1:8443\"]"),
    key("audit", Flag, "true"),
    key("ca_file", Text, "\"mirror.pem\""),
];

const LEAK_CHECK: &[Key] = &[key("on_finding", Choice(&["refuse", "remove"]), "\"remove\"")];

const BUDGET: &[Key] = &[
    key("steps", Count(1, MOST), "50"),
    key("input_tokens", Count(1, MOST), "1000000"),
    key("output_tokens", Count(1, MOST), "100000"),
    key("total_tokens", Count(1, MOST), "1000000"),
    key("uncached_input_tokens", Count(1, MOST), "100000"),
    key("cost_usd", Above(MOST_DOLLARS), "2.5"),
    key("wall_seconds", Above(MOST_SECONDS), "3600"),
    key("working_seconds", Above(MOST_SECONDS), "3600"),
    key("tool_seconds", Above(MOST_SECONDS), "600"),
    key("command_seconds", Above(MOST_SECONDS), "120"),
    key("disclosure", Choice(&["hidden", "announced", "countdown"]), "\"announced\""),
    key("ending", Choice(&["hard", "grace"]), "\"grace\""),
    key("arm", Table(SHARED), "[budget.arm] with `cost_usd` below it"),
    key("run", Table(SHARED), "[budget.run] with `cost_usd` below it"),
];

const SHARED: &[Key] = &[
    key("steps", Count(1, MOST), "5000"),
    key("input_tokens", Count(1, MOST), "100000000"),
    key("output_tokens", Count(1, MOST), "10000000"),
    key("total_tokens", Count(1, MOST), "100000000"),
    key("uncached_input_tokens", Count(1, MOST), "10000000"),
    key("cost_usd", Above(MOST_DOLLARS), "50"),
];

const MODEL: &[Key] = &[
    required("base_url", Address, "\"https://HOST/v1\""),
    required("name", Text, "\"my-model\""),
    key("api", Choice(&["chat", "responses", "messages", "gemini"]), "\"chat\""),
    key("key_env", Variable, "\"MY_KEY\""),
    key("context_window", Count(1, MOST), "128000"),
    key("price", Table(PRICE), "price = { input = 1.25, output = 10.0 }"),
    key("temperature", Number(0.0, 10.0), "0.7"),
    key("top_p", Number(0.0, 1.0), "0.95"),
    key("max_output_tokens", Count(1, MOST), "16000"),
    key("reasoning_effort", Text, "\"high\""),
    key("seed", Count(i64::MIN, i64::MAX), "7"),
    key("extra_body", Free, "extra_body = { top_k = 20 }"),
];

/// US dollars per million tokens.
const PRICE: &[Key] = &[
    required("input", Number(0.0, 1e6), "1.25"),
    required("output", Number(0.0, 1e6), "10.0"),
    key("cached", Number(0.0, 1e6), "0.125"),
];

const GRADING: &[Key] = &[
    key("certificate", Text, "\"certificate.json\""),
    key("flaky", Choice(&["quarantine", "vote", "count"]), "\"vote\""),
    key("cpus", Number(0.01, 4096.0), "4.0"),
    key("memory_mb", Count(1, MOST_MB), "8192"),
];

const ENDPOINT: &[Key] = &[
    required("base_url", Address, "\"https://HOST/v1\""),
    key("model", Text, "\"my-model\""),
    key("max_concurrent", Count(1, MOST), "8"),
    key("requests_per_minute", Count(1, MOST), "60"),
    key("tokens_per_minute", Count(1, MOST), "100000"),
];

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::config::{ArmFile, ConfigFile, GradingFile};

    /// The names that serde lists when it is given one that it does not know.
    fn listed<T: DeserializeOwned>(text: &str) -> Vec<String> {
        let Err(error) = toml::from_str::<T>(text) else { panic!("{text} was taken") };
        let mut names: Vec<String> =
            error.message().split('`').skip(3).step_by(2).map(ToOwned::to_owned).collect();
        names.sort();
        names
    }

    fn names(keys: &[Key]) -> Vec<String> {
        let mut names: Vec<String> = keys.iter().map(|key| key.name.to_owned()).collect();
        names.sort();
        names
    }

    /// A key that only one of the two knows would be refused, or read unchecked.
    #[test]
    fn the_keys_are_those_of_the_structures() {
        const NONE: &str = "zzz = 1";
        for (keys, listed) in [
            (FILE, listed::<ConfigFile>(NONE)),
            (ARM, listed::<ArmFile>(NONE)),
            (SANDBOX, listed::<proctor_types::SandboxSpec>(NONE)),
            (NETWORK, listed::<proctor_types::NetworkPolicy>(NONE)),
            (BUDGET, listed::<proctor_types::Budget>(NONE)),
            (SHARED, listed::<proctor_types::SharedLimits>(NONE)),
            (MODEL, listed::<proctor_types::ModelSpec>(NONE)),
            (PRICE, listed::<proctor_types::Price>(NONE)),
            (GRADING, listed::<GradingFile>(NONE)),
            (ENDPOINT, listed::<proctor_gateway::EndpointRates>(NONE)),
        ] {
            assert_eq!(names(keys), listed);
        }
        // Serde writes a list of one in other words.
        assert!(toml::from_str::<proctor_types::LeakCheckSpec>("on_finding = 'remove'").is_ok());
        assert_eq!(LEAK_CHECK.len(), 1);
    }

    /// What stands between back-ticks is copied as it stands.
    #[test]
    fn a_line_to_write_is_toml_and_right() {
        let tables = [
            FILE, ARM, SANDBOX, NETWORK, LEAK_CHECK, BUDGET, SHARED, MODEL, PRICE, GRADING,
            ENDPOINT,
        ];
        for key in tables.into_iter().flatten() {
            if matches!(key.kind, Table(_) | Free | Named(_) | Rows(_)) {
                continue;
            }
            let hint = key.write();
            for line in hint.split('`').skip(1).step_by(2) {
                let table: toml::Table = toml::from_str(line).expect(line);
                assert_eq!(key.kind.check(key, &table[key.name]), Ok(()), "{line}");
            }
        }
    }

    #[test]
    fn the_choices_are_those_of_the_structures() {
        fn of<T: DeserializeOwned>(keys: &[Key]) {
            for key in keys {
                let Choice(known) = key.kind else { continue };
                let mut known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
                known.sort();
                let text = format!("{} = 'zzz'", key.name);
                assert_eq!(known, listed::<T>(&text), "{}", key.name);
            }
        }
        of::<proctor_types::SandboxSpec>(SANDBOX);
        of::<proctor_types::NetworkPolicy>(NETWORK);
        of::<proctor_types::Budget>(BUDGET);
        of::<proctor_types::ModelSpec>(MODEL);
        of::<GradingFile>(GRADING);
    }
}
