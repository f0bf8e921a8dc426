//! Reads the rule table `configs/tables/harbor-lint.toml`.

use std::collections::BTreeMap;

use proctor_types::ShippedTable;
use serde::Deserialize;

static RULES: ShippedTable<LintRules> = ShippedTable::new(
    "tables/harbor-lint.toml",
    include_str!("../../../../configs/tables/harbor-lint.toml"),
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LintRules {
    pub(super) default: Vec<String>,
    /// Rules that the loader already checks.
    loader: Vec<String>,
    /// A description of the findings of each rule.
    pub(super) rules: BTreeMap<String, String>,
    pub(super) python: PythonRules,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonRules {
    pub(super) value_options: Vec<String>,
    pub(super) verifier_packages: Vec<String>,
}

impl LintRules {
    pub(super) fn get() -> Result<&'static Self, String> {
        RULES.get()
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.rules.contains_key(name) || self.loader.iter().any(|rule| rule == name)
    }
}
