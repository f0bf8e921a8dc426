//! The factors that differ between the arms of a report, as `compare --why` lists them for a pair.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Report,
    compare::{flatten_value, format_on_one_line},
};

/// Factors about budgets that are not limits.
const NOT_LIMITS: [&str; 2] = ["budget.disclosure", "budget.ending"];
const LIMIT_PREFIX: &str = "budget.";
const DIGEST_PREFIX: &str = "sha256:";
/// Number of digits of a digest that are shown.
const SHOWN_DIGITS: usize = 12;

/// A factor that differs between the arms under study, or a model's address or price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DifferingFactor {
    /// The factor with a dotted key, such as `budget.steps`.
    pub factor: String,
    /// Each arm's value, in the order of the arms under study. Null if the arm has no such factor.
    /// Prompts are digests.
    pub values: Vec<Value>,
}

impl DifferingFactor {
    /// Whether this is a limit of the trials.
    pub fn is_limit(&self) -> bool {
        self.factor.starts_with(LIMIT_PREFIX) && !NOT_LIMITS.contains(&self.factor.as_str())
    }

    /// Returns each arm's value on one line.
    pub fn value_strings(&self) -> Vec<String> {
        let text = |value: &Value| {
            let digest = value.as_str().and_then(|text| text.strip_prefix(DIGEST_PREFIX));
            match digest {
                Some(digest) => {
                    let digits: String = digest.chars().take(SHOWN_DIGITS).collect();
                    format!("{DIGEST_PREFIX}{digits}")
                }
                None => format_on_one_line(value),
            }
        };
        self.values.iter().map(text).collect()
    }
}

impl Report {
    /// Returns the factors that differ between the arms under study, limits first, and the models'
    /// addresses and prices that differ. Empty for reports built from trials alone.
    pub fn find_differing_factors(&self) -> Vec<DifferingFactor> {
        let study = self.arms_under_study();
        let flat: Vec<BTreeMap<String, Value>> = study
            .iter()
            .map(|arm| {
                let mut flat = BTreeMap::new();
                if let Some(factors) = &arm.factors {
                    flatten_value("", factors, &mut flat);
                }
                if let Some(endpoint) = &arm.endpoint {
                    flatten_value("model", endpoint, &mut flat);
                }
                flat
            })
            .collect();
        let keys: BTreeSet<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
        let mut differing: Vec<DifferingFactor> = keys
            .into_iter()
            .map(|key| DifferingFactor {
                factor: key.clone(),
                values: flat.iter().map(|of| of.get(key).cloned().unwrap_or_default()).collect(),
            })
            .filter(|one| one.values.windows(2).any(|pair| pair[0] != pair[1]))
            .collect();
        // The sort is stable, so the factors of each kind keep their alphabetical order.
        differing.sort_by_key(|one| !one.is_limit());
        differing
    }

    /// Says that the limits of the arms under study are equal, and whether all other settings are,
    /// too, without a full stop. `None` with one arm, if a limit differs, or for reports built from
    /// trials alone.
    pub fn describe_equal_limits(&self) -> Option<&'static str> {
        let study = self.arms_under_study();
        if study.len() < 2 || study.iter().any(|arm| arm.factors.is_none()) {
            return None;
        }
        let factors = self.find_differing_factors();
        match factors.iter().any(DifferingFactor::is_limit) {
            true => None,
            false if factors.is_empty() => Some("Limits and settings are the same for all arms"),
            false => Some("The limits are the same for all arms"),
        }
    }

    /// Returns a sentence about the limits that differ, without a full stop: `The arms' limits
    /// differ: steps 30 (a, b), 8 (c)`. `None` if all limits are equal.
    pub fn describe_differing_limits(&self) -> Option<String> {
        let names: Vec<&str> =
            self.arms_under_study().into_iter().map(|arm| arm.name.as_str()).collect();
        let limits = self.find_differing_factors().into_iter().filter(DifferingFactor::is_limit);
        let limits: Vec<String> = limits
            .map(|one| {
                let mut arms_by_value: Vec<(String, Vec<&str>)> = Vec::new();
                for (text, name) in one.value_strings().into_iter().zip(&names) {
                    match arms_by_value.iter_mut().find(|(known, _)| *known == text) {
                        Some((_, arms)) => arms.push(*name),
                        None => arms_by_value.push((text, vec![*name])),
                    }
                }
                let values: Vec<String> = arms_by_value
                    .into_iter()
                    .map(|(text, arms)| format!("{text} ({})", arms.join(", ")))
                    .collect();
                let key = one.factor.trim_start_matches(LIMIT_PREFIX).replace('_', " ");
                format!("{key} {}", values.join(", "))
            })
            .collect();
        (!limits.is_empty()).then(|| format!("The arms' limits differ: {}", limits.join("; ")))
    }
}
