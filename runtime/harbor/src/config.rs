//! Reads and checks `task.toml`.

use std::collections::BTreeMap;

use proctor_types::{HarborNetwork, MAX_SECONDS};
use serde_json::Value;

use crate::{
    diagnostics::{Diagnostic, find_line, parse_table},
    keys::{Table, differs_from_default, find_value, key_warnings},
    manifest::is_package_name,
    rules::Rules,
};

/// The settings in `task.toml` that Proctor uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// `[task] name`, as `org/name`. If it is absent, the folder's name is used.
    pub name: Option<String>,
    /// Settings of the agent phase, from `[agent]`.
    pub agent: AgentSettings,
    /// Settings of the verifier, from `[verifier]`.
    pub verifier: VerifierSettings,
    /// Settings of the task's environment, from `[environment]`.
    pub environment: EnvironmentSettings,
    /// Whether the verifier runs in a separate environment.
    pub has_separate_verifier: bool,
    /// Settings of a separate verifier's environment, from `[verifier.environment]`.
    pub verifier_environment: Option<EnvironmentSettings>,
    /// Paths in the agent's container that the task declares as `artifacts`.
    pub artifacts: Vec<String>,
    /// Environment variables of the solution, from `[solution] env`.
    pub solution_env: BTreeMap<String, String>,
    /// Category and difficulty from `[metadata]`.
    pub labels: Vec<String>,
}

/// Settings of the agent phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentSettings {
    /// Time limit of the phase, in seconds.
    pub timeout_seconds: Option<f64>,
    /// User of the phase, by name or number.
    pub user: Option<String>,
    /// The phase's network. If absent, the environment's network applies.
    pub network: Option<HarborNetwork>,
}

/// Settings of the verifier.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifierSettings {
    /// Time limit of the verifier in seconds; defaults to 600.
    pub timeout_seconds: f64,
    /// Environment variables of the verifier.
    pub env: BTreeMap<String, String>,
    /// User of the verifier, by name or number.
    pub user: Option<String>,
    /// The verifier's network. If absent, the environment's network applies.
    pub network: Option<HarborNetwork>,
}

impl Default for VerifierSettings {
    fn default() -> Self {
        Self {
            timeout_seconds: DEFAULT_VERIFIER_SECONDS,
            env: BTreeMap::new(),
            user: None,
            network: None,
        }
    }
}

/// Settings of an environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnvironmentSettings {
    /// Image name, from `docker_image`.
    pub image: Option<String>,
    /// CPUs. If absent, the task sets no limit.
    pub cpus: Option<f64>,
    /// Memory in MiB. If absent, the task sets no limit.
    pub memory_mb: Option<u64>,
    /// Environment variables for every command.
    pub env: BTreeMap<String, String>,
    /// Working directory of commands. If absent, the image's `WORKDIR` is used.
    pub workdir: Option<String>,
    /// Network for every phase that does not set its own.
    pub network: HarborNetwork,
}

/// A parsed configuration, with warnings about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedConfig {
    /// The parsed configuration.
    pub config: Config,
    /// Warnings about unknown keys, unknown versions and settings that have no effect.
    pub warnings: Vec<Diagnostic>,
    /// The line of `[task] name`, if there is one.
    pub name_line: Option<usize>,
}

/// Harbor's default time limit for the verifier.
const DEFAULT_VERIFIER_SECONDS: f64 = 600.0;

/// Parses the text of a `task.toml`.
///
/// # Errors
/// Returns all mistakes and all features that Proctor does not support, with their keys.
pub fn read_config(text: &str) -> Result<ParsedConfig, Vec<Diagnostic>> {
    let rules = Rules::get().map_err(|why| vec![Diagnostic::in_file(why)])?;
    let table = parse_table(text).map_err(|mistake| vec![mistake])?;
    let mut reader = ConfigReader { text, errors: Vec::new(), warnings: Vec::new() };
    reader.warnings.extend(key_warnings(text, &table, rules));
    reader.check_version(&table, rules);
    for (key, what) in &rules.unsupported {
        if find_value(&table, key).is_some_and(differs_from_default) {
            reader.report_error(key, format!("needs {what}, which Proctor does not support"));
        }
    }
    let none = Table::new();
    let mut of = |key: &str| match table.get(key) {
        Some(Value::Object(inner)) => inner,
        None => &none,
        Some(_) => {
            reader.report_error(key, format!("is not a table; use `[{key}]`"));
            &none
        }
    };
    let (task, metadata, agent, verifier, environment, solution) = (
        of("task"),
        of("metadata"),
        of("agent"),
        of("verifier"),
        of("environment"),
        of("solution"),
    );
    let name = reader.read_text(task, "task", "name");
    if let Some(name) = name.as_deref().filter(|name| !is_package_name(name)) {
        reader.report_error("task.name", format!("is {name:?}; use `org/name`"));
    }
    let mode = reader.read_text(verifier, "verifier", "environment_mode");
    let verifier_table = verifier.get("environment").and_then(Value::as_object);
    let separate = match (mode.as_deref(), verifier_table) {
        (None, own) => own.is_some(),
        (Some("separate"), _) => true,
        (Some("shared"), None) => false,
        (Some("shared"), Some(_)) => {
            let message =
                "is \"shared\", but the task has [verifier.environment]; remove one of the two";
            reader.report_error("verifier.environment_mode", message.into());
            false
        }
        (Some(other), _) => {
            let message = format!("is {other:?}; use \"shared\" or \"separate\"");
            reader.report_error("verifier.environment_mode", message);
            false
        }
    };
    let artifacts = reader.read_artifacts(&table, separate);
    let labels = ["category", "difficulty"].iter().filter_map(|key| metadata.get(*key)?.as_str());
    let labels = labels.filter(|label| !label.trim().is_empty()).map(str::to_owned).collect();
    let config = Config {
        name,
        agent: AgentSettings {
            timeout_seconds: reader.read_seconds(agent, "agent", "timeout_sec"),
            user: reader.read_user(agent, "agent"),
            network: reader.read_network(agent, "agent"),
        },
        verifier: VerifierSettings {
            timeout_seconds: reader
                .read_seconds(verifier, "verifier", "timeout_sec")
                .unwrap_or(DEFAULT_VERIFIER_SECONDS),
            env: reader.read_env(verifier, "verifier"),
            user: reader.read_user(verifier, "verifier"),
            network: reader.read_network(verifier, "verifier"),
        },
        environment: reader.read_environment(environment, "environment"),
        has_separate_verifier: separate,
        verifier_environment: verifier_table
            .map(|own| reader.read_environment(own, "verifier.environment")),
        artifacts,
        solution_env: reader.read_env(solution, "solution"),
        labels,
    };
    let ConfigReader { errors, warnings, .. } = reader;
    match errors.is_empty() {
        true => Ok(ParsedConfig { config, warnings, name_line: find_line(text, "task.name") }),
        false => Err(errors),
    }
}

/// Describes a value and its type for use in messages.
fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "not a finite number".to_owned(),
        other => other.to_string().chars().take(60).collect(),
    }
}

struct ConfigReader<'t> {
    text: &'t str,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl ConfigReader<'_> {
    fn report_error(&mut self, key: &str, message: String) {
        self.errors.push(Diagnostic::at_key(self.text, key, message));
    }

    fn report_warning(&mut self, key: &str, message: String) {
        self.warnings.push(Diagnostic::at_key(self.text, key, message));
    }

    /// Warns about a format version that Proctor does not know. `version` is the key's older name.
    fn check_version(&mut self, table: &Table, rules: &Rules) {
        for key in ["schema_version", "version"] {
            let Some(value) = table.get(key) else { continue };
            let version = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !rules.schema_versions.contains(&version) {
                let known = rules.schema_versions.join(", ");
                let message = format!(
                    "is {version:?}, which Proctor does not know; the task is read by the rules of \
                     the known versions ({known})"
                );
                self.report_warning(key, message);
            }
        }
    }

    fn read_text(&mut self, table: &Table, name: &str, key: &str) -> Option<String> {
        match table.get(key)? {
            Value::String(text) => Some(text.clone()),
            other => {
                self.report_error(
                    &format!("{name}.{key}"),
                    format!("is {}, not text", describe_value(other)),
                );
                None
            }
        }
    }

    /// Returns a number. As in Harbor, the number may also be written as text.
    fn read_number(&mut self, table: &Table, name: &str, key: &str) -> Option<f64> {
        let value = table.get(key)?;
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.report_error(
                &format!("{name}.{key}"),
                format!("is {}, not a number", describe_value(value)),
            );
        }
        number
    }

    fn read_seconds(&mut self, table: &Table, name: &str, key: &str) -> Option<f64> {
        let seconds = self.read_number(table, name, key)?;
        if seconds > 0.0 && seconds <= MAX_SECONDS {
            return Some(seconds);
        }
        let within = format!("it must be above 0 and up to {MAX_SECONDS} seconds");
        self.report_error(&format!("{name}.{key}"), format!("is {seconds}, but {within}"));
        None
    }

    fn read_user(&mut self, table: &Table, name: &str) -> Option<String> {
        match table.get("user")? {
            Value::String(user) if !user.trim().is_empty() => Some(user.clone()),
            Value::Number(number) if number.is_u64() => Some(number.to_string()),
            other => {
                let message =
                    format!("is {}, not the name or number of a user", describe_value(other));
                self.report_error(&format!("{name}.user"), message);
                None
            }
        }
    }

    fn read_env(&mut self, table: &Table, name: &str) -> BTreeMap<String, String> {
        let Some(value) = table.get("env") else { return BTreeMap::new() };
        let Value::Object(inner) = value else {
            self.report_error(&format!("{name}.env"), "is not a table of variables".into());
            return BTreeMap::new();
        };
        let mut env = BTreeMap::new();
        for (key, value) in inner {
            match value {
                Value::String(text) if !key.is_empty() && !key.contains(['=', '\0']) => {
                    env.insert(key.clone(), text.clone());
                }
                Value::String(_) => {
                    self.report_error(
                        &format!("{name}.env"),
                        format!("{key:?} is not a variable name"),
                    );
                }
                other => {
                    let message = format!("is {}, not text", describe_value(other));
                    self.report_error(&format!("{name}.env.{key}"), message);
                }
            }
        }
        env
    }

    fn read_network(&mut self, table: &Table, name: &str) -> Option<HarborNetwork> {
        let key = format!("{name}.allowed_hosts");
        let hosts = match table.get("allowed_hosts") {
            None => None,
            Some(Value::Array(list)) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                if texts.is_none() {
                    self.report_error(&key, "is not a list of host names".into());
                }
                texts
            }
            Some(_) => {
                self.report_error(&key, "is not a list of host names".into());
                None
            }
        };
        let mode = self.read_text(table, name, "network_mode");
        let mut network_keys = Vec::new();
        for host in hosts.iter().flatten() {
            match parse_host_name(host) {
                Ok(host) => network_keys.push(host),
                Err(why) => self.report_error(&key, format!("{host:?} {why}")),
            }
        }
        let network = match mode.as_deref() {
            None => None,
            Some("public") => Some(HarborNetwork::Public),
            Some("no-network") => Some(HarborNetwork::NoNetwork),
            Some("allowlist") => return Some(HarborNetwork::Allowlist(network_keys)),
            Some(other) => {
                let message =
                    format!("is {other:?}; use \"public\", \"no-network\" or \"allowlist\"");
                self.report_error(&format!("{name}.network_mode"), message);
                return None;
            }
        };
        if hosts.is_some_and(|hosts| !hosts.is_empty()) {
            self.report_error(&key, "needs `network_mode = \"allowlist\"`".into());
        }
        network
    }

    /// Returns the paths that are copied to a separate verifier's sandbox. A shared verifier needs
    /// no copies, because it runs in the agent's sandbox.
    fn read_artifacts(&mut self, table: &Table, is_separate: bool) -> Vec<String> {
        let Some(value) = table.get("artifacts") else { return Vec::new() };
        let Value::Array(list) = value else {
            self.report_error("artifacts", "is not a list of paths".into());
            return Vec::new();
        };
        let mut artifacts = Vec::new();
        for entry in list {
            let source = entry.as_str().or_else(|| entry.get("source")?.as_str());
            let Some(source) = source.filter(|source| !source.trim().is_empty()) else {
                self.report_error(
                    "artifacts",
                    format!("contains {}, not a path", describe_value(entry)),
                );
                continue;
            };
            if source.split('/').any(|part| part == "..") {
                self.report_error("artifacts", format!("{source:?} escapes its folder with `..`"));
            }
            let service = entry.get("service").and_then(Value::as_str).unwrap_or("main");
            if service != "main" {
                let message = format!(
                    "{source:?} needs the service {service:?}, which Proctor does not support"
                );
                self.report_error("artifacts", message);
            }
            if entry.get("exclude").is_some_and(differs_from_default) {
                if is_separate {
                    let message =
                        format!("{source:?} uses `exclude`, which Proctor does not support");
                    self.report_error("artifacts", message);
                } else {
                    let message = format!(
                        "`exclude` of {source:?} has no effect: a shared verifier sees all files"
                    );
                    self.report_warning("artifacts", message);
                }
            }
            artifacts.push(source.to_owned());
        }
        artifacts
    }

    fn read_environment(&mut self, table: &Table, name: &str) -> EnvironmentSettings {
        let os = self.read_text(table, name, "os").map(|os| os.to_lowercase());
        match os.as_deref() {
            None | Some("linux") => {}
            Some("windows") => {
                let message = "needs a Windows container, which Proctor does not support";
                self.report_error(&format!("{name}.os"), message.into());
            }
            Some(other) => {
                self.report_error(&format!("{name}.os"), format!("is {other:?}; use \"linux\""))
            }
        }
        let image = self.read_text(table, name, "docker_image").filter(|image| !image.is_empty());
        let workdir = self.read_text(table, name, "workdir");
        if let Some(workdir) = &workdir
            && (!workdir.starts_with('/') || workdir.split('/').any(|part| part == ".."))
        {
            self.report_error(
                &format!("{name}.workdir"),
                format!("is {workdir:?}; use an absolute path"),
            );
        }
        let cpus = self.read_number(table, name, "cpus");
        if let Some(cpus) = cpus.filter(|cpus| *cpus <= 0.0) {
            self.report_error(&format!("{name}.cpus"), format!("is {cpus}, but must be above 0"));
        }
        let memory_mb = self.read_megabytes(table, name);
        let network = match (self.read_network(table, name), table.get("allow_internet")) {
            (Some(network), _) => network,
            (None, None | Some(Value::Bool(true))) => HarborNetwork::Public,
            (None, Some(Value::Bool(false))) => HarborNetwork::NoNetwork,
            (None, Some(other)) => {
                let message = format!("is {}, not true or false", describe_value(other));
                self.report_error(&format!("{name}.allow_internet"), message);
                HarborNetwork::Public
            }
        };
        let env = self.read_env(table, name);
        EnvironmentSettings { image, cpus, memory_mb, env, workdir, network }
    }

    fn read_megabytes(&mut self, table: &Table, name: &str) -> Option<u64> {
        let new = self.read_number(table, name, "memory_mb");
        let old = match table.get("memory") {
            Some(Value::String(text)) => {
                let size = parse_size_mb(text);
                if size.is_none() {
                    let message = format!("is {text:?}; use a size such as \"2G\" or \"512M\"");
                    self.report_error(&format!("{name}.memory"), message);
                }
                size
            }
            _ => None,
        };
        let mb = new.or(old)?;
        if mb >= 1.0 && mb.fract() == 0.0 && mb <= f64::from(u32::MAX) {
            return Some(mb as u64);
        }
        self.report_error(
            &format!("{name}.memory_mb"),
            format!("is {mb}, but must be a whole number of MiB above 0"),
        );
        None
    }
}

fn parse_size_mb(text: &str) -> Option<f64> {
    let text = text.trim().to_uppercase();
    let number = |end: char| text.strip_suffix(end)?.trim().parse::<f64>().ok();
    let mb = number('G').map(|size| size * 1024.0);
    mb.or_else(|| number('M')).or_else(|| number('K').map(|size| size / 1024.0)).map(f64::trunc)
}

/// Returns a host name in lower case. The name may start with `*.`.
fn parse_host_name(host: &str) -> Result<String, &'static str> {
    let host = host.trim().to_lowercase();
    let host = host.trim_end_matches('.');
    if host.is_empty() {
        return Err("is empty");
    }
    if host.contains('/') && host.parse::<std::net::IpAddr>().is_err() && is_address_range(host) {
        return Err("is a range of addresses, which Proctor does not support");
    }
    if host.contains(['/', ':', '[', ']']) {
        return Err("is not a host name: remove the scheme, port and path");
    }
    let plain = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if !plain.split('.').all(label) {
        return Err("is not a host name, with or without a leading `*.`");
    }
    Ok(host.to_owned())
}

fn is_address_range(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_toml_is_read_and_unknown_keys_are_warnings() {
        let text = "\u{feff}schema_version = \"1.4\"\r\nflavour = 1\r\n[task]\r\nname = \"o/t\"\r\n[metadata]\r\n\
                    category = \"math\"\r\n[agent]\r\ntimeout_sec = 900\r\nuser = 1000\r\n[verifier]\r\ntimout_sec = 5\r\n\
                    env = { K = \"${K:-x}\" }\r\n[environment]\r\ncpus = 2.0\r\nmemory = \"2G\"\r\nallow_internet = false\r\n\
                    gpus = 0\r\nskills_dir = \"/s\"\r\n";
        let ParsedConfig { config, warnings, name_line } = read_config(text).unwrap();
        assert_eq!(name_line, Some(4));
        assert_eq!(
            (config.name.as_deref(), config.agent.timeout_seconds),
            (Some("o/t"), Some(900.0))
        );
        assert_eq!(
            (config.agent.user.as_deref(), config.verifier.timeout_seconds),
            (Some("1000"), 600.0)
        );
        assert_eq!(
            (config.environment.cpus, config.environment.memory_mb),
            (Some(2.0), Some(2048))
        );
        assert_eq!(config.environment.network, HarborNetwork::NoNetwork);
        assert_eq!(config.labels, ["math"]);
        let said: Vec<_> =
            warnings.iter().map(|one| (one.key.as_deref().unwrap(), one.line)).collect();
        let expected = [
            ("flavour", Some(2)),
            ("verifier.timout_sec", Some(11)),
            ("environment.skills_dir", Some(18)),
        ];
        assert_eq!(said, expected, "{warnings:?}");
        assert!(warnings[1].message.contains("did you mean `timeout_sec`?"), "{warnings:?}");
    }

    #[test]
    fn unsupported_keys_are_rejected_by_name() {
        for (text, key) in [
            ("[[steps]]\nname = 'a'\n", "steps"),
            ("[environment]\nos = 'Windows'\n", "environment.os"),
            ("[environment]\ngpus = 1\n", "environment.gpus"),
            ("[environment.tpu]\ntype = 'v6e'\ntopology = '2x4'\n", "environment.tpu"),
            ("[[environment.mcp_servers]]\nname = 'x'\n", "environment.mcp_servers"),
            ("[environment.healthcheck]\ncommand = 'true'\n", "environment.healthcheck"),
            ("[verifier.environment]\ngpus = 1\n", "verifier.environment.gpus"),
            ("[[artifacts]]\nsource = '/a'\nservice = 'db'\n", "artifacts"),
            ("[[verifier.collect]]\ncommand = 'x'\n", "verifier.collect"),
            (
                "[verifier]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['10.0.0.0/8']\n",
                "verifier.allowed_hosts",
            ),
        ] {
            let wrong = read_config(text).unwrap_err();
            assert_eq!(wrong[0].key.as_deref(), Some(key), "{text}: {wrong:?}");
            assert!(wrong[0].message.contains("does not support"), "{wrong:?}");
            assert!(wrong[0].line.is_some(), "{wrong:?}");
        }
        let nothing = "steps = []\n[environment]\ngpus = 0\nmcp_servers = []\n";
        assert!(read_config(nothing).is_ok(), "empty lists and zeros require no feature");
    }

    #[test]
    fn unknown_version_and_excludes_without_effect_are_warnings() {
        let warned = |text: &str| {
            let found = read_config(text).unwrap().warnings;
            found.into_iter().map(|one| (one.key.unwrap(), one.line)).collect::<Vec<_>>()
        };
        for known in ["", "schema_version = '1.4'\n", "version = '1.0'\n", "version = 1.0\n"] {
            assert!(warned(known).is_empty(), "{known}");
        }
        for (text, key, line) in [
            ("schema_version = '9.9'\n", "schema_version", 1),
            ("\nversion = '2.0'\n", "version", 2),
            ("[[artifacts]]\nsource = 'a'\nexclude = ['b']\n", "artifacts", 1),
        ] {
            assert_eq!(warned(text), [(key.to_owned(), Some(line))], "{text}");
        }
        let separate = "[[artifacts]]\nsource = 'a'\nexclude = ['b']\n[verifier]\n\
                        environment_mode = 'separate'\n";
        assert_eq!(read_config(separate).unwrap_err()[0].key.as_deref(), Some("artifacts"));
    }

    #[test]
    fn verifier_is_separate_by_mode_or_environment() {
        let of = |text: &str| read_config(text).unwrap().config;
        assert!(!of("artifacts = ['/a']\n").has_separate_verifier);
        let plain =
            of("artifacts = ['/a', { source = 'b' }]\n[verifier]\nenvironment_mode = 'separate'\n");
        assert!(plain.has_separate_verifier && plain.verifier_environment.is_none());
        assert_eq!(plain.artifacts, ["/a", "b"]);
        let own = of("[verifier.environment]\ndocker_image = 'x'\nworkdir = '/w'\n");
        let environment = own.verifier_environment.unwrap();
        assert!(own.has_separate_verifier);
        assert_eq!(
            (environment.image.as_deref(), environment.workdir.as_deref()),
            (Some("x"), Some("/w"))
        );
    }

    #[test]
    fn invalid_values_are_reported_with_their_lines() {
        for (text, key, line) in [
            ("[agent]\ntimeout_sec = nan\n", "agent.timeout_sec", 2),
            ("[agent]\ntimeout_sec = -1\n", "agent.timeout_sec", 2),
            ("[verifier]\nuser = []\n", "verifier.user", 2),
            ("[verifier]\n\nnetwork_mode = 'none'\n", "verifier.network_mode", 3),
            ("[agent]\nallowed_hosts = ['a.b']\n", "agent.allowed_hosts", 2),
            (
                "[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['https://a.b']\n",
                "agent.allowed_hosts",
                3,
            ),
            ("[environment]\nmemory_mb = 0.5\n", "environment.memory_mb", 2),
            ("[environment]\nmemory = '2X'\n", "environment.memory", 2),
            ("[environment]\nworkdir = 'app'\n", "environment.workdir", 2),
            ("[environment.env]\nA = 1\n", "environment.env.A", 2),
            ("[task]\nname = 'x'\n", "task.name", 2),
            ("environment = 1\n", "environment", 1),
            ("artifacts = ['../x']\n", "artifacts", 1),
            ("[verifier]\nenvironment_mode = 'own'\n", "verifier.environment_mode", 2),
            ("[verifier.environment]\nworkdir = 'x'\n", "verifier.environment.workdir", 2),
        ] {
            let wrong = read_config(text).unwrap_err();
            assert_eq!(
                (wrong[0].key.as_deref(), wrong[0].line),
                (Some(key), Some(line)),
                "{text}: {wrong:?}"
            );
        }
        assert_eq!(read_config("a = \n").unwrap_err()[0].line, Some(1));
    }

    #[test]
    fn allowlist_hosts_are_names_and_suffixes() {
        for (host, found) in [
            ("PyPI.org.", "pypi.org"),
            ("*.example.com", "*.example.com"),
            ("192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(parse_host_name(host).as_deref(), Ok(found), "{host}");
        }
        for host in ["", "a.b:443", "http://a", "*", "a.*.b", "-a.b", "[::1]"] {
            assert!(parse_host_name(host).is_err(), "{host}");
        }
    }
}
