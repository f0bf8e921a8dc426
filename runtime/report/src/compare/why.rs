//! What differs between two arms besides their results.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use proctor_types::{Arm, ArmId, RequestChanges, Responders, sha256_hex};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{TrialResult, arm::responders, limits::limit_of, notes::mixture, text::percent};

/// A longer text is named by its digest.
const SHOWN: usize = 60;
/// Tasks that a line names.
const NAMED: usize = 5;
/// The versions of an agent's packages, by name.
const PACKAGES: &str = "prompts.bundle.versions.";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairWhy {
    pub a: String,
    pub a_arm: ArmId,
    pub b: String,
    pub b_arm: ArmId,
    /// Of all that arms are told apart by, what is not the same. Keys are dotted.
    pub factors: Vec<FactorDifference>,
    /// The share of each arm's trials that a limit ended, by kind.
    pub a_limits: BTreeMap<String, f64>,
    pub b_limits: BTreeMap<String, f64>,
    /// Trials that an infrastructure fault ended.
    pub a_faults: u64,
    pub b_faults: u64,
    /// Who gave the responses of each arm. Absent where no response names anybody.
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub a_responders: Responders,
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub b_responders: Responders,
    /// What the gateway changed in the requests of each arm, by requests. Absent where nothing was.
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub a_changes: RequestChanges,
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub b_changes: RequestChanges,
    /// Tasks that the arms were given in different revisions.
    pub task_revisions: Vec<String>,
    /// Tasks that were graded in different environments.
    pub environments: Vec<String>,
}

/// Null where an arm has no such factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorDifference {
    pub factor: String,
    pub a: Value,
    pub b: Value,
}

type ByTask<'a> = BTreeMap<&'a str, Vec<&'a TrialResult>>;

pub(super) fn why(
    a: (&ArmId, &str),
    b: (&ArmId, &str),
    arms: &[Arm],
    tasks: [&ByTask<'_>; 2],
) -> PairWhy {
    let factors = |id: &ArmId| {
        let arm = arms.iter().find(|arm| arm.id == *id);
        let mut flat = BTreeMap::new();
        if let Some(arm) = arm {
            flatten("", &arm.factors(), &mut flat);
        }
        flat
    };
    let (of_a, of_b) = (factors(a.0), factors(b.0));
    let keys: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    let value =
        |of: &BTreeMap<String, Value>, key: &String| of.get(key).cloned().unwrap_or_default();
    let factors = keys
        .into_iter()
        .filter(|key| of_a.get(*key) != of_b.get(*key))
        .map(|key| FactorDifference {
            factor: key.clone(),
            a: short(value(&of_a, key)),
            b: short(value(&of_b, key)),
        })
        .collect();
    let differing = |of: &dyn Fn(&TrialResult) -> Option<String>| {
        let set = |trials: &[&TrialResult]| -> BTreeSet<String> {
            trials.iter().filter_map(|trial| of(trial)).collect()
        };
        let differs = |(task, trials): (&&str, &Vec<&TrialResult>)| {
            let (own, other) = (set(trials), set(tasks[1].get(task)?));
            (!own.is_empty() && !other.is_empty() && own != other).then(|| (*task).to_owned())
        };
        tasks[0].iter().filter_map(differs).collect::<Vec<String>>()
    };
    let environment = |trial: &TrialResult| {
        let found = trial.verdict.as_ref()?.environment.as_ref()?;
        serde_json::to_string(found).ok()
    };
    PairWhy {
        a: a.1.to_owned(),
        a_arm: a.0.clone(),
        b: b.1.to_owned(),
        b_arm: b.0.clone(),
        factors,
        a_limits: limits(tasks[0]),
        b_limits: limits(tasks[1]),
        a_faults: faults(tasks[0]),
        b_faults: faults(tasks[1]),
        a_responders: responders_of(tasks[0]),
        b_responders: responders_of(tasks[1]),
        a_changes: changes_of(tasks[0]),
        b_changes: changes_of(tasks[1]),
        task_revisions: differing(&|trial| trial.facts.revision.clone()),
        environments: differing(&environment),
    }
}

fn flatten(place: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let dot = if place.is_empty() { "" } else { "." };
                flatten(&format!("{place}{dot}{key}"), value, out);
            }
        }
        Value::Null => {}
        other => drop(out.insert(place.to_owned(), other.clone())),
    }
}

fn short(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > SHOWN => {
            let digest = sha256_hex(text.as_bytes());
            let lines = text.lines().count();
            Value::String(format!("text of {lines} lines, sha256 {}", &digest[..12]))
        }
        other => other,
    }
}

fn limits(tasks: &ByTask<'_>) -> BTreeMap<String, f64> {
    let trials: Vec<_> = tasks.values().flatten().collect();
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for kind in trials.iter().filter_map(|trial| limit_of(trial)) {
        *shares.entry(kind.to_string()).or_default() += 1.0 / trials.len() as f64;
    }
    shares
}

fn faults(tasks: &ByTask<'_>) -> u64 {
    let is_fault = |trial: &&&TrialResult| {
        trial.outcome.as_ref().is_some_and(|outcome| outcome.ending.is_fault())
    };
    tasks.values().flatten().filter(is_fault).count() as u64
}

fn responders_of(tasks: &ByTask<'_>) -> Responders {
    let trials: Vec<&TrialResult> = tasks.values().flatten().copied().collect();
    responders(&trials)
}

fn changes_of(tasks: &ByTask<'_>) -> RequestChanges {
    let mut all = RequestChanges::default();
    for trial in tasks.values().flatten() {
        trial.outcome.iter().for_each(|outcome| all.merge(&outcome.changes));
    }
    all
}

pub(super) fn why_text(why: &PairWhy) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(format!("\nwhat differs between {} and {}", why.a, why.b));
    let shown = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (mut only_a, mut only_b) = (0_usize, 0_usize);
    for factor in &why.factors {
        match (factor.factor.starts_with(PACKAGES), &factor.a, &factor.b) {
            (true, _, Value::Null) => only_a += 1,
            (true, Value::Null, _) => only_b += 1,
            (_, a, b) => line(format!("  {}: {} against {}", factor.factor, shown(a), shown(b))),
        }
    }
    if only_a + only_b > 0 {
        // Two agents share next to nothing of what they bring along: a hundred lines would hide the others.
        line(format!("  packages that only one of them brings along: {only_a} against {only_b}"));
    }
    let shares = |limits: &BTreeMap<String, f64>| {
        let shares = limits.iter().map(|(kind, share)| format!("{kind} {}", percent(*share)));
        let shares: Vec<String> = shares.collect();
        if shares.is_empty() { "none".to_owned() } else { shares.join(", ") }
    };
    line(format!(
        "  trials ended at a limit: {} against {}",
        shares(&why.a_limits),
        shares(&why.b_limits)
    ));
    line(format!("  infrastructure faults: {} against {}", why.a_faults, why.b_faults));
    for (name, responders) in [(&why.a, &why.a_responders), (&why.b, &why.b_responders)] {
        if responders.is_mixture() {
            line(format!("  {name}: {}", mixture(responders)));
        }
    }
    for (name, changes) in [(&why.a, &why.a_changes), (&why.b, &why.b_changes)] {
        for (what, counts) in
            [("requests repaired", &changes.repairs), ("lost in translation", &changes.losses)]
        {
            let counts: Vec<_> =
                counts.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            if !counts.is_empty() {
                line(format!("  {name}: {what}: {}", counts.join(", ")));
            }
        }
    }
    for (what, tasks) in
        [("task revisions", &why.task_revisions), ("environments", &why.environments)]
    {
        let named = tasks.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = tasks.len().saturating_sub(NAMED);
        line(match (tasks.len(), more) {
            (0, _) => format!("  {what}: the same"),
            (count, 0) => format!("  {what}: {count} differ: {named}"),
            (count, more) => format!("  {what}: {count} differ: {named} and {more} more"),
        });
    }
    out
}
