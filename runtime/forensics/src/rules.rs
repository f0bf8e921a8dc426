//! Loads the rules in `configs/tables/forensics.toml`, and specializes them for one task.

use std::collections::BTreeMap;

use proctor_types::{Fault, FaultLayer, Integrity, ShippedTable};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use crate::{finding::FindingKind, solution_names::SolutionNames};

const RULES_TOML: &str = include_str!("../../../configs/tables/forensics.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleFile {
    pub kinds: BTreeMap<FindingKind, Integrity>,
    pub shell: Shell,
    pub rule: Vec<RuleConfig>,
    pub upstream: UpstreamConfig,
    pub install: InstallConfig,
    pub limits: Limits,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shell {
    pub shells: Vec<String>,
    pub interpreters: Vec<String>,
    pub wrappers: Vec<String>,
    pub keywords: Vec<String>,
    pub spreaders: Vec<String>,
    pub printers: Vec<String>,
    pub git_value_options: Vec<String>,
    pub line_arguments: Vec<String>,
    pub path_arguments: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleConfig {
    pub kind: FindingKind,
    pub what: String,
    pub commands: Vec<String>,
    #[serde(default)]
    pub unless: Vec<String>,
    #[serde(default)]
    pub background: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamConfig {
    pub fetchers: Vec<String>,
    pub urls: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstallConfig {
    pub commands: Vec<String>,
    pub unless: Vec<String>,
    pub value_options: Vec<String>,
    pub name_prefixes: Vec<String>,
    pub list_options: Vec<String>,
    pub succeeded: Vec<String>,
    pub asked: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub shown: usize,
    pub depth: usize,
}

static RULES: ShippedTable<RuleFile> = ShippedTable::new("tables/forensics.toml", RULES_TOML);

impl RuleFile {
    pub(crate) fn get() -> Result<&'static Self, Fault> {
        RULES.get().map_err(|error| Fault::new(FaultLayer::Grade, error))
    }
}

fn rules_fault(error: &str) -> Fault {
    Fault::new(FaultLayer::Grade, format!("configs/tables/forensics.toml: {error}"))
}

/// A rule, specialized for one task.
#[derive(Debug)]
pub(crate) struct Rule {
    pub kind: FindingKind,
    pub description: &'static str,
    pub commands: Vec<Regex>,
    pub exclusions: Vec<Regex>,
    pub requires_background: bool,
}

/// All rules, specialized for one task.
#[derive(Debug)]
pub(crate) struct Rules {
    pub file: &'static RuleFile,
    pub rules: Vec<Rule>,
    pub fetchers: Vec<Regex>,
    pub urls: Vec<Regex>,
    pub install_commands: Vec<Regex>,
    pub install_exclusions: Vec<Regex>,
    pub install_success_patterns: Vec<Regex>,
    pub install_request_patterns: Vec<Regex>,
}

impl Rules {
    pub(crate) fn specialize(subject: &SolutionNames) -> Result<Self, Fault> {
        let file = RuleFile::get()?;
        let fill = |patterns: &[String]| fill_patterns(patterns, subject);
        let rules = file
            .rule
            .iter()
            .map(|rule| {
                Ok(Rule {
                    kind: rule.kind,
                    description: &rule.what,
                    commands: fill(&rule.commands)?,
                    exclusions: fill(&rule.unless)?,
                    requires_background: rule.background,
                })
            })
            .collect::<Result<_, Fault>>()?;
        let mut urls = fill(&file.upstream.urls)?;
        for pattern in &subject.blocked_url_patterns {
            urls.push(compile_pattern(pattern)?);
        }
        Ok(Self {
            file,
            rules,
            fetchers: fill(&file.upstream.fetchers)?,
            urls,
            install_commands: fill(&file.install.commands)?,
            install_exclusions: fill(&file.install.unless)?,
            install_success_patterns: fill(&file.install.succeeded)?,
            install_request_patterns: fill(&file.install.asked)?,
        })
    }
}

/// Inserts a task's names into the patterns. Patterns for which the task has no names are omitted.
fn fill_patterns(patterns: &[String], subject: &SolutionNames) -> Result<Vec<Regex>, Fault> {
    let mut all = Vec::new();
    'patterns: for pattern in patterns {
        let mut text = pattern.clone();
        for (place, alternatives) in subject.placeholders() {
            if text.contains(place) {
                let Some(alternatives) = alternatives else { continue 'patterns };
                text = text.replace(place, &alternatives);
            }
        }
        all.push(compile_pattern(&text)?);
    }
    Ok(all)
}

fn compile_pattern(text: &str) -> Result<Regex, Fault> {
    RegexBuilder::new(text)
        .case_insensitive(true)
        .build()
        .map_err(|error| rules_fault(&error.to_string()))
}

pub(crate) fn any_matches(patterns: &[Regex], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.is_match(text))
}
