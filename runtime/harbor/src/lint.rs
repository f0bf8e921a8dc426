//! Harbor's lint rules. They find mistakes in a task folder that do not prevent the task from
//! running.
//!
//! Implements the rules of `harbor lint`, except for rules whose violations Proctor's loader
//! already reports.

mod artifacts;
mod download;
mod python;
mod rules;
mod shell;

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Map, Value};

use self::rules::LintRules;
use crate::{
    Config, DATASET_FILE, Folder, SOLVE_SCRIPT, TASK_FILE, TEST_SCRIPT,
    diagnostics::{find_line, parse_table},
    read_config,
};

const AGENT_IMAGE_TEST_LEAK: &str = "agent-image-test-leak";
const ARTIFACT_LOG_OVERLAP: &str = "artifact-log-overlap";
const OVERLAPPING_ARTIFACTS: &str = "overlapping-artifacts";
const ROOT_AGENT: &str = "root-agent";
const SHARED_VERIFIER: &str = "shared-verifier";
const UNPINNED_IMAGE: &str = "unpinned-image";
const UNPINNED_PYTHON: &str = "unpinned-python-dependency";
const UNUSED_HARBORIGNORE: &str = "unused-harborignore";
const VERIFIER_DOWNLOAD: &str = "verifier-network-download";
const VERIFIER_INSTALL: &str = "verifier-runtime-install";

const DOCKERFILE: &str = "Dockerfile";

/// A violation of a lint rule in a task folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the task folder.
    pub path: String,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The rule's name.
    pub rule: String,
    /// The image or paths that violate the rule, if the line does not show them.
    pub detail: Option<String>,
    /// A description of the problem and how to fix it.
    pub message: String,
}

/// Runs the lint rules on a task folder. As in Harbor, `[metadata.harbor.lint]` selects the rules.
/// This table is read from the task's `task.toml` and from the nearest `dataset.toml` above the
/// folder.
///
/// # Errors
/// Fails if a file cannot be read, a rule is unknown, or Proctor rejects the `task.toml`.
pub fn lint(folder: &Folder) -> Result<Vec<Finding>, String> {
    let rules = LintRules::get()?;
    let text = read_text(&folder.root().join(TASK_FILE))?;
    let raw = parse_table(&text).map_err(|mistake| format!("{TASK_FILE} {}", mistake.message))?;
    let mut selected: BTreeSet<String> = rules.default.iter().cloned().collect();
    let mut manifests = folder.root().ancestors().skip(1).map(|above| above.join(DATASET_FILE));
    if let Some(manifest) = manifests.find(|file| file.is_file()) {
        let shown = manifest.display();
        let text = read_text(&manifest)?;
        let raw = parse_table(&text).map_err(|mistake| format!("{shown} {}", mistake.message))?;
        select_rules(rules, &mut selected, &raw).map_err(|why| format!("{shown}: {why}"))?;
    }
    select_rules(rules, &mut selected, &raw).map_err(|why| format!("{TASK_FILE}: {why}"))?;
    let config = read_config(&text).map_err(|mistakes| {
        mistakes
            .first()
            .map_or_else(String::new, |mistake| format!("{TASK_FILE} {}", mistake.message))
    })?;
    let config = config.config;
    let mut linter = Linter { folder, rules, findings: Vec::new() };
    linter.check_ignore_files()?;
    linter.check_config(&config, &raw, &text);
    linter.check_sources(&config, &text)?;
    let mut found = linter.findings;
    found.retain(|finding| selected.contains(&finding.rule));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Applies the table `[metadata.harbor.lint]`.
fn select_rules(
    rules: &LintRules,
    selected: &mut BTreeSet<String>,
    raw: &Map<String, Value>,
) -> Result<(), String> {
    let mut own = raw.get("metadata");
    for key in ["harbor", "lint"] {
        own = own.and_then(|table| table.get(key));
    }
    let Some(own) = own else { return Ok(()) };
    let selected_rules = listed_rules(rules, own, "select", true)?;
    let more = listed_rules(rules, own, "extend-select", true)?.unwrap_or_default();
    let ignored = listed_rules(rules, own, "ignore", false)?.unwrap_or_default();
    if selected_rules.is_some() {
        selected.clear();
    }
    for name in selected_rules.into_iter().flatten().chain(more) {
        match name {
            "ALL" => selected.extend(rules.rules.keys().cloned()),
            name => {
                selected.insert(name.to_owned());
            }
        }
    }
    selected.retain(|name| !ignored.contains(&name.as_str()));
    Ok(())
}

/// Returns the rules listed under one key of `[metadata.harbor.lint]`.
fn listed_rules<'t>(
    rules: &LintRules,
    lint_table: &'t Value,
    key: &str,
    allows_all: bool,
) -> Result<Option<Vec<&'t str>>, String> {
    let Some(value) = lint_table.get(key) else { return Ok(None) };
    let list = value.as_array().map(|list| list.iter().map(Value::as_str));
    let names: Option<Vec<&str>> = list.and_then(Iterator::collect);
    let key = format!("`metadata.harbor.lint.{key}`");
    let names = names.ok_or_else(|| format!("{key} is not a list of lint rules"))?;
    let is_known = |name: &str| rules.is_known(name) || (allows_all && name == "ALL");
    match names.iter().find(|name| !is_known(name)) {
        Some(name) => Err(format!("{key} names the unknown lint rule {name:?}")),
        None => Ok(Some(names.clone())),
    }
}

struct Linter<'a> {
    folder: &'a Folder,
    rules: &'static LintRules,
    findings: Vec<Finding>,
}

impl Linter<'_> {
    fn add_finding(&mut self, rule: &str, path: &str, line: Option<usize>, detail: Option<String>) {
        let what = self.rules.rules.get(rule).cloned().unwrap_or_default();
        self.findings.push(Finding {
            path: path.to_owned(),
            line,
            rule: rule.to_owned(),
            detail,
            message: what,
        });
    }

    fn check_ignore_files(&mut self) -> Result<(), String> {
        for path in self.folder.unused_ignore_files()? {
            self.add_finding(UNUSED_HARBORIGNORE, &path, None, None);
        }
        Ok(())
    }

    fn check_config(&mut self, config: &Config, raw: &Map<String, Value>, text: &str) {
        let user = config.agent.user.as_deref();
        let is_root = |user: &str| matches!(user.split(':').next(), Some("0" | "root"));
        if user.is_none_or(is_root) {
            self.add_finding(ROOT_AGENT, TASK_FILE, find_line(text, "agent.user"), None);
        }
        if !config.has_separate_verifier {
            self.add_finding(
                SHARED_VERIFIER,
                TASK_FILE,
                find_line(text, "verifier.environment_mode"),
                None,
            );
        }
        let artifacts = artifacts::read_artifacts(raw);
        let line = find_line(text, "artifacts");
        for (one, other) in artifacts::overlapping_sources(&artifacts) {
            let detail = format!("`{one}` and `{other}`");
            self.add_finding(OVERLAPPING_ARTIFACTS, TASK_FILE, line, Some(detail));
        }
        // A shared verifier reads the logs in place, so artifacts that overlap the logs only matter
        // for a separate verifier.
        if config.has_separate_verifier {
            for source in artifacts::sources_overlapping_logs(&artifacts) {
                self.add_finding(
                    ARTIFACT_LOG_OVERLAP,
                    TASK_FILE,
                    line,
                    Some(format!("`{source}`")),
                );
            }
        }
    }

    fn check_sources(&mut self, config: &Config, text: &str) -> Result<(), String> {
        let own = config.verifier_environment.as_ref();
        let images = [("environment", Some(&config.environment)), ("verifier.environment", own)];
        for (name, environment) in images {
            let image = environment.and_then(|environment| environment.image.as_deref());
            if let Some(image) = image.filter(|image| !is_pinned(image)) {
                let line = find_line(text, &format!("{name}.docker_image"));
                self.add_finding(UNPINNED_IMAGE, TASK_FILE, line, Some(format!("`{image}`")));
            }
        }
        let agents = format!("environment/{DOCKERFILE}");
        let mut builds = BTreeSet::from([agents.clone()]);
        let has_own_image = own.is_some_and(|own| own.image.is_some());
        let verifiers = format!("tests/{DOCKERFILE}");
        if config.has_separate_verifier && (has_own_image || self.folder.contains(&verifiers)) {
            builds.insert(verifiers);
        }
        for path in builds {
            // Check the file even if an ignore rule matches it. Ignore rules apply to uploads but
            // not to builds.
            if self.folder.root().join(&path).is_file() {
                self.check_dockerfile(&path, path == agents)?;
            }
        }
        let scripts = [
            (format!("tests/{TEST_SCRIPT}"), config.has_separate_verifier),
            (format!("solution/{SOLVE_SCRIPT}"), false),
        ];
        for (path, separate) in scripts {
            let file = self.folder.root().join(&path);
            if file.is_file() && !self.folder.is_excluded(&path)? {
                for (line, command) in shell::logical_lines(&read_text(&file)?) {
                    self.check_commands(&command, &path, line, separate);
                }
            }
        }
        Ok(())
    }

    fn check_dockerfile(&mut self, path: &str, is_agent_image: bool) -> Result<(), String> {
        let text = read_text(&self.folder.root().join(path))?;
        let mut stages = BTreeSet::new();
        for (line, text) in shell::logical_lines(&text) {
            let Some((instruction, value)) = text.trim().split_once(char::is_whitespace) else {
                continue;
            };
            let value = shell::strip_options(value.trim_start());
            let is_list = value.starts_with('[');
            let words = match is_list {
                true => serde_json::from_str(value).ok(),
                false => shell::split_words(value),
            };
            let Some(words): Option<Vec<String>> = words else { continue };
            match instruction.to_uppercase().as_str() {
                "FROM" => {
                    let Some(image) = words.first() else { continue };
                    if !stages.contains(&image.to_lowercase()) && !is_pinned(image) {
                        self.add_finding(
                            UNPINNED_IMAGE,
                            path,
                            Some(line),
                            Some(format!("`{image}`")),
                        );
                    }
                    if let [_, named, stage] = words.as_slice()
                        && named.eq_ignore_ascii_case("as")
                    {
                        stages.insert(stage.to_lowercase());
                    }
                }
                "RUN" if is_list => {
                    self.check_commands(&shell::join_words(&words), path, line, false)
                }
                "RUN" => self.check_commands(value, path, line, false),
                "COPY" | "ADD" if is_agent_image => {
                    let mut sources = words.iter().rev().skip(1);
                    if sources.any(|source| is_hidden_input(source)) {
                        self.add_finding(AGENT_IMAGE_TEST_LEAK, path, Some(line), None);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the commands on one line. `is_separate_verifier` means that the line belongs to a
    /// verifier with its own environment.
    fn check_commands(&mut self, text: &str, path: &str, line: usize, is_separate_verifier: bool) {
        let rules = self.rules;
        let options = &rules.python;
        let commands = shell::split_commands(text);
        for (index, (command, separator)) in commands.iter().enumerate() {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let packages = python::installed_packages(&words, &options.value_options);
            let is_constrained = words
                .iter()
                .any(|word| matches!(word.split('=').next(), Some("-c" | "--constraint")));
            if !is_constrained && packages.iter().any(|package| python::is_unpinned(package)) {
                self.add_finding(UNPINNED_PYTHON, path, Some(line), None);
            }
            if !is_separate_verifier {
                continue;
            }
            let is_offline = words.iter().any(|word| matches!(*word, "--offline" | "--no-index"));
            let mut names = packages.iter().map(|package| python::package_name(package));
            if !is_offline && names.any(|name| options.verifier_packages.contains(&name)) {
                self.add_finding(VERIFIER_INSTALL, path, Some(line), None);
            }
            let next = commands.get(index + 1).filter(|_| separator == "|");
            let next = next.and_then(|(command, _)| command.first()).map(String::as_str);
            if download::is_download(&words, next) {
                self.add_finding(VERIFIER_DOWNLOAD, path, Some(line), None);
            }
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the image counts as pinned, because it has a digest or its name is only known at build
/// time.
fn is_pinned(image: &str) -> bool {
    let digest = image.rsplit_once("@sha256:").map(|(_, digest)| digest);
    let is_digest =
        |digest: &str| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    image == "scratch" || image.contains('$') || digest.is_some_and(is_digest)
}

/// Whether this source path in a Dockerfile is reserved for the verifier or the reference solution.
fn is_hidden_input(source: &str) -> bool {
    let mut parts = source.rsplit('/');
    let (Some(name), Some(folder)) = (parts.next(), parts.next()) else { return false };
    match folder {
        "solution" => name == SOLVE_SCRIPT,
        "tests" => {
            let stem = name.strip_prefix("test_").and_then(|rest| rest.strip_suffix(".py"));
            name == TEST_SCRIPT || stem.is_some_and(|stem| !stem.is_empty())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_task(config: &str) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for folder in ["environment", "tests"] {
            fs::create_dir(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join(TASK_FILE), config).unwrap();
        fs::write(place.path().join("environment/Dockerfile"), "FROM debian:12\n").unwrap();
        fs::write(place.path().join("tests/test.sh"), "pip install pytest\n").unwrap();
        place
    }

    fn violated_rules(config: &str) -> Result<Vec<String>, String> {
        let place = create_task(config);
        let findings = lint(&Folder::open(place.path()).unwrap())?;
        Ok(findings.into_iter().map(|finding| finding.rule).collect())
    }

    #[test]
    fn task_selects_rules_and_unknown_rules_are_errors() {
        let of = |lines: &str| violated_rules(&format!("[metadata.harbor.lint]\n{lines}"));
        assert_eq!(of("").unwrap(), [SHARED_VERIFIER, UNPINNED_PYTHON]);
        assert_eq!(of("ignore = ['shared-verifier']\n").unwrap(), [UNPINNED_PYTHON]);
        assert_eq!(of("select = ['unpinned-image']\n").unwrap(), [UNPINNED_IMAGE]);
        let all = of("select = ['ALL']\nignore = ['root-agent']\n").unwrap();
        assert_eq!(all, [UNPINNED_IMAGE, SHARED_VERIFIER, UNPINNED_PYTHON]);
        assert_eq!(of("extend-select = ['invalid-task-files']\n").unwrap().len(), 2);
        for (lines, part) in [("select = ['x']\n", "\"x\""), ("ignore = 1\n", "lint.ignore")] {
            assert!(of(lines).unwrap_err().contains(part), "{lines}");
        }
    }

    #[test]
    fn finding_describes_problem_and_fix() {
        let place = create_task(
            "[agent]\nuser = \"root\"\n[metadata.harbor.lint]\nselect = [\"root-agent\"]\n",
        );
        let findings = lint(&Folder::open(place.path()).unwrap()).unwrap();
        assert_eq!(
            (findings.len(), findings[0].path.as_str(), findings[0].line),
            (1, TASK_FILE, Some(2))
        );
        assert!(findings[0].message.contains("agent.user"), "{findings:?}");
    }
}
